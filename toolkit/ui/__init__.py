"""One page for all runs: what goes on, what it costs, what waits for an answer, and what can be taken back.

Served on loopback for whoever has its address, or written as files. What runs hold is hostile: it is
data in the page, never markup, and every action names the token and comes from the page itself.
"""

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.ui.export import export_ui as export_ui
    from toolkit.ui.server import UiServer as UiServer
    from toolkit.ui.table import RunTable as RunTable

_HOMES = {
    "toolkit.ui.export": "export_ui",
    "toolkit.ui.server": "UiServer",
    "toolkit.ui.table": "RunTable",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
