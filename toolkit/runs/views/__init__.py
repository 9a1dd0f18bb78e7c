"""The events of a run in the words of four other products.

Each module holds one vocabulary: `view(events)` translates a list of events, and a
class with `feed(event)` does it event by event. `listener(view, handle)` subscribes
such an object to a live run: `live.bus.subscribe(listener(cogni.Cogni(), print))`.
"""

from toolkit.runs.views import cogni, lace, openclaw, wink
from toolkit.runs.views._view import View, listener

__all__ = ["View", "cogni", "lace", "listener", "openclaw", "wink"]
