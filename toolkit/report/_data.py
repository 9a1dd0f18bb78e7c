"""What the page knows of a run, as plain values: what it was asked, what happened, what it changed.

Arguments and outputs become text here, where numbers of any size are exact. Text that
was streamed piece by piece is left out where the whole of it follows. Raw causes of
failures (`debug`) stay behind: a report is made to be passed on. Names of changed files
come from the changes themselves and contents from one patch for each file, so that no
name, however odd, is ever read out of a patch; what is too long for a page is left out
and said to be.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from toolkit.errors import RunError, ToolkitError

if TYPE_CHECKING:
    from toolkit.runs import Event, StoredRun
    from toolkit.workspace import Changes

_FACTS = (
    *("began", "ended", "cwd", "prompt", "model", "profile", "domains", "limits", "mode", "trace", "confined"),
    *("lent", "verify", "protect"),
)
_FILE_BYTES = 1 << 20
"""The longest patch of one file that is shown."""
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_PICTURE_BYTES = 8 << 20
"""The largest picture that is shown."""
_ALL_BYTES = 16 << 20
"""What all patches of a page may have together."""


def run_data(run: StoredRun) -> dict[str, Any]:
    """Everything the page shows of a run that has ended; of one that goes on, what there is so far.

    Raises:
        RunError: the run cannot be read.
    """
    return {**ending(run), "events": list(_whole_blocks(list(run.events()), run)), "live": False}


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
        result["output"] = None if result["output"] is None else _as_text(result["output"])
        result["pending"] = [{**call, "arguments": _rows(call["arguments"])} for call in result["pending"]]
    half = run.unfinished_apply
    told = {"result": result, "changes": _changes(run, state), "half_applied": None if half is None else str(half)}
    return {**_asked(run), "state": state, **told}


def _asked(run: StoredRun) -> dict[str, Any]:
    facts = run.facts
    return {"run": run.id, "made": time.time(), "facts": {name: facts.get(name) for name in _FACTS}}


def _whole_blocks(events: Iterable[Event], run: StoredRun) -> Iterator[dict[str, Any]]:
    """The events for the page, without the pieces of a block that came to its end."""
    pieces: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for event in events:
        if event.stream == "assistant":
            if event.kind in ("text", "thinking"):
                pieces.setdefault((event.id, event.kind), []).append(event_data(event, run))
                continue
            if event.kind == "block":
                pieces.pop((event.id, str(event.data.get("type"))), None)
        yield event_data(event, run)
    for cut_off in pieces.values():  # the run was killed, or is still saying it
        yield from cut_off


def event_data(event: Event, run: StoredRun) -> dict[str, Any]:
    """One event for the page; pictures of a prompt are read from the run's folder."""
    data = dict(event.data)
    if "attachments" in data:
        data["attachments"] = [{**one, "source": _picture(one, run)} for one in data["attachments"]]
    for name in ("arguments", "input"):
        if event.stream in ("tool", "approval") and name in data:
            data[name] = _rows(data[name])
    if event.stream == "assistant" and event.kind == "ended":
        data.pop("text", None)  # its blocks have it
    elif event.stream == "lifecycle" and event.kind == "finished":
        for name in ("debug", "output", "pending"):
            data.pop(name, None)  # raw causes stay behind; the rest is in the result
        data["denied"] = [call.get("id") for call in data.get("denied") or () if isinstance(call, dict)]
    return {"s": event.stream, "k": event.kind, "t": event.t, "id": event.id, "parent": event.parent, "data": data}


def _picture(attachment: dict[str, Any], run: StoredRun) -> str | None:
    """A picture as an address that holds it; None where it is none that every browser shows, too large, or gone."""
    file = run.attachment(str(attachment.get("file")))
    if attachment.get("media_type") not in _PICTURES:
        return None
    try:
        if file.stat().st_size > _PICTURE_BYTES:
            return None
        return f"data:{attachment['media_type']};base64,{base64.b64encode(file.read_bytes()).decode()}"
    except OSError:
        return None


def _rows(arguments: Any) -> list[list[str]]:
    """Arguments as pairs of a name and a text; strings as they are, everything else as JSON."""
    if not isinstance(arguments, dict):
        return [["", _as_text(arguments)]]
    return [[str(name), _as_text(value)] for name, value in arguments.items()]


def _as_text(value: Any) -> str:
    """A value as people read it."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
    except RecursionError as error:
        raise RunError("an event of the run is nested too deeply to be shown") from error


def _changes(run: StoredRun, state: str) -> dict[str, Any]:
    """The changed files, each with its hunks, and a note where they are not all there is to say."""
    if state == "running":
        return {"files": [], "note": "The changes are shown when the run has ended.", "ignored": ""}
    kept = run.changed_files() or []
    try:
        changes = run.changes()
        files, note, gone, ignored = _changed_files(changes), None, "it was applied since", changes.ignored_line()
    except ToolkitError as error:
        note, gone = f"{error.what[:1].upper()}{error.what[1:]}.", "its contents are no longer there"
        files, ignored = [], ""
    listed = {file["path"] for file in files}
    before = [facts for facts in kept if not facts.get("quiet") and facts.get("path") not in listed]
    files += [{**facts, "patch": None, "why": gone} for facts in before]
    return {"files": sorted(files, key=lambda file: str(file["path"])), "note": note, "ignored": ignored}


def _changed_files(changes: Changes) -> list[dict[str, Any]]:
    """The changes that are counted everywhere, each with its hunks."""
    changes = changes.counted
    left = _ALL_BYTES
    files = []
    for place, change in enumerate(changes):
        patch, why = _patch(changes[place : place + 1]) if left > 0 else (None, "the page is long enough")
        left -= len(patch or "")
        files.append({**change.to_json(), "patch": patch, "why": why})
    return files


def _patch(change: Changes) -> tuple[str | None, str | None]:
    """The hunks of one change, or why there are none."""
    [one] = change
    if one.binary:
        return None, "binary contents"
    refused = change.not_in_patch()
    if refused:
        return None, refused[0][1]
    if one.type == "folder" or (not one.content_changed and one.type == "file" and one.kind in ("mode", "renamed")):
        return None, None
    if max(one.size or 0, one.old_size or 0) > 8 * _FILE_BYTES:
        return None, "too long to be shown here"
    try:
        patch = change.patch()
    except ToolkitError as error:
        return None, error.what
    start = 0 if patch.startswith(b"@@ ") else patch.find(b"\n@@ ") + 1
    if not patch[start:].startswith(b"@@ "):
        return None, None
    if len(patch) > _FILE_BYTES:
        return None, "too long to be shown here"
    return patch[start:].decode("utf-8", "backslashreplace"), None
