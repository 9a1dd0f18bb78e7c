"""What the page knows of a run, as plain values.

Arguments and outputs become text here, where numbers of any size are exact. Text that
was streamed piece by piece is left out where the whole of it follows. Raw causes of
failures (`debug`) stay behind: a report is made to be passed on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from toolkit.errors import RunError
from toolkit.report._changes import changes_data

if TYPE_CHECKING:
    from toolkit.runs import Event, StoredRun

_FACTS = ("began", "ended", "cwd", "prompt", "model", "profile", "domains", "limits", "mode", "trace", "confined")


def run_data(run: StoredRun) -> dict[str, Any]:
    """Everything the page shows of a run that has ended; of one that goes on, what there is so far.

    Raises:
        RunError: the run cannot be read.
    """
    return {**ending(run), "events": list(whole_blocks(run.events())), "live": False}


def live_data(run: StoredRun) -> dict[str, Any]:
    """What the page knows before the first event arrives."""
    return {**_asked(run), "state": "running", "result": None, "changes": None, "events": [], "live": True}


def ending(run: StoredRun) -> dict[str, Any]:
    """What a run was asked and came to: all but its events."""
    state = run.state
    result = None
    if state != "running":
        result = run.result().to_data()
        del result["debug"]
        result["output"] = None if result["output"] is None else as_text(result["output"])
        result["pending"] = [{**call, "arguments": rows(call["arguments"])} for call in result["pending"]]
    return {**_asked(run), "state": state, "result": result, "changes": changes_data(run, state)}


def _asked(run: StoredRun) -> dict[str, Any]:
    facts = run.facts
    return {"run": run.id, "made": time.time(), "facts": {name: facts.get(name) for name in _FACTS}}


def whole_blocks(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """The events for the page, without the pieces of a block that came to its end."""
    pieces: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for event in events:
        if event.stream == "assistant":
            if event.kind in ("text", "thinking"):
                pieces.setdefault((event.id, event.kind), []).append(event_data(event))
                continue
            if event.kind == "block":
                pieces.pop((event.id, str(event.data.get("type"))), None)
        yield event_data(event)
    for cut_off in pieces.values():  # the run was killed, or is still saying it
        yield from cut_off


def event_data(event: Event) -> dict[str, Any]:
    """One event for the page."""
    data = dict(event.data)
    for name in ("arguments", "input"):
        if event.stream in ("tool", "approval") and name in data:
            data[name] = rows(data[name])
    if event.name == "assistant.ended":
        data.pop("text", None)  # its blocks have it
    return {"s": event.stream, "k": event.kind, "t": event.t, "id": event.id, "parent": event.parent, "data": data}


def rows(arguments: Any) -> list[list[str]]:
    """Arguments as pairs of a name and a text; strings as they are, everything else as JSON."""
    if not isinstance(arguments, dict):
        return [["", as_text(arguments)]]
    return [[str(name), value if isinstance(value, str) else as_text(value)] for name, value in arguments.items()]


def as_text(value: Any) -> str:
    """A value as people read it."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
    except RecursionError as error:
        raise RunError("an event of the run is nested too deeply to be shown") from error
