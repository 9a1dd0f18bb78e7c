"""Read what a worker says of a run, believing nothing: which entries there may be, what was asked, what happened.

Texts are kept as they are, for readers that show them as other people's texts. Whatever names a place on this machine
is not taken from here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from toolkit._base.words import safe_line
from toolkit.fleets.parcels import Manifest, ParcelError
from toolkit.fleets.returns.bring import RUN_FILES
from toolkit.runs import MESSAGES, Event, RunResult, Tokens
from toolkit.runs.outcome import KINDS, result_of

_FOLDERS = (b"run", b"run/attachments", b"session", b"tree", b"own")
_FLAT = re.compile(rb"run/attachments/[A-Za-z0-9._-]{1,80}|session/\d{1,6}\.jsonl")
_MOST_TEXT = 1 << 20
_FACTS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("prompt", "inside"), str),
    **dict.fromkeys(("model", "profile", "mode", "verify", "trace", "resume"), (str, type(None))),
    "confined": bool,
    **dict.fromkeys(("began", "ended"), (int, float)),
}
"""What of a worker's run.json is taken over, where it is of this kind."""


def refused(run: str, what: str) -> ParcelError:
    """The error for a run that did not come back as one."""
    return ParcelError(f"run {run} came back damaged: {what}", fix="It is still on the worker; nothing was taken in")


def check_entries(run: str, manifest: Manifest) -> None:
    """Look whether a parcel holds what a run may hold, and nothing else.

    Raises:
        ParcelError: it does not.
    """
    files = {b"run/" + name.encode() for name in RUN_FILES}
    for entry in manifest.entries:
        is_work = entry.path.startswith((b"tree/", b"own/"))
        if not is_work and not (_FLAT.fullmatch(entry.path) or entry.path in files or entry.path in _FOLDERS):
            raise refused(run, f"it holds {safe_line(repr(entry.path), 200)}")
        if not is_work and (entry.kind == "l" or (entry.kind == "d") != (entry.path in _FOLDERS)):
            raise refused(run, f"{safe_line(repr(entry.path), 200)} is of another kind")


def paths(run: str, said: Any) -> list[bytes]:
    """Paths of a workspace, from the facts of a parcel."""
    if not isinstance(said, list) or not all(isinstance(one, str) for one in said):
        raise refused(run, "its paths are no texts")
    found = [one.encode("utf-8", "surrogateescape") for one in said]
    if any(part in (b"", b".", b"..") or b"\0" in part for path in found for part in path.split(b"/")):
        raise refused(run, "one of its paths leads elsewhere")
    return found


def remarks(run: str, said: Any) -> list[list[str]]:
    """Paths with reasons, from the facts of a parcel."""
    rows = said if isinstance(said, list) else None
    if rows is None or not all(isinstance(row, list) and [type(one) for one in row] == [str, str] for row in rows):
        raise refused(run, "its remarks are no texts")
    return [[path, safe_line(why, 200)] for path, why in rows[:1000]]


def text(said: Any, most: int = 2000) -> str:
    """A text of a parcel's facts, made safe; empty where it is none."""
    return safe_line(said, most) if isinstance(said, str) else ""


def asked(run: str, file: Path) -> dict[str, Any]:
    """What was asked for, from a worker's run.json."""
    said = _object(run, file)
    facts = {name: said[name] for name, kind in _FACTS.items() if name in said and isinstance(said[name], kind)}
    for name in ("began", "ended"):
        if name in facts and (isinstance(facts[name], bool) or not math.isfinite(facts[name])):
            raise refused(run, f"it has no time when it {name}")
    if "began" not in facts or any(len(value) > _MOST_TEXT for value in facts.values() if isinstance(value, str)):
        raise refused(run, "run.json does not say what was asked for")
    facts["domains"], facts["protect"] = _texts(said.get("domains")), _texts(said.get("protect"))
    limits = said.get("limits")
    numbers = limits if isinstance(limits, dict) else {}
    facts["limits"] = {str(name): value for name, value in numbers.items() if type(value) in (int, float)}
    lent = said.get("lent")
    facts["lent"] = [row for row in lent if _is_lent(row)] if isinstance(lent, list) else []
    setup = _setup(said.get("setup"))
    return facts | ({"setup": setup} if setup else {})


def _is_lent(row: Any) -> bool:
    return isinstance(row, dict) and set(row) == {"host", "inside", "what"} and all(map(_is_text, row.values()))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(said: Any) -> list[str]:
    return [one for one in said if isinstance(one, str)] if isinstance(said, list) else []


def _setup(said: Any) -> dict[str, Any] | None:
    """What of a setup is shown of it later; the layer that it made stays on the worker."""
    if not isinstance(said, dict) or not isinstance(said.get("command"), str):
        return None
    lists = {name: _texts(said.get(name)) for name in ("domains", "keyed_by", "places")}
    deadline = said.get("deadline")
    return {"command": said["command"], **lists, "deadline": deadline if type(deadline) in (int, float) else None}


def events(run: str, file: Path) -> Iterator[Event]:
    """The events of a run, each looked at; a last line that was cut off by a kill is left out.

    Raises:
        ParcelError: one of them cannot be one of this run.
    """
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            try:
                event = Event.from_json(line)
            except (ValueError, TypeError, RecursionError):
                raise refused(run, f"line {number} of its events is none") from None
            if not _is_of(event, run):
                raise refused(run, f"line {number} of its events is none of this run")
            yield event


def _is_of(event: Event, run: str) -> bool:
    texts = isinstance(event.id, str) and isinstance(event.parent, str | None) and isinstance(event.trace, str | None)
    is_known = isinstance(event.stream, str) and event.kind in KINDS.get(event.stream, ())
    is_time = type(event.t) in (int, float) and math.isfinite(event.t)
    return texts and is_known and is_time and event.run == run and isinstance(event.data, dict)


def result(run: str, stored: Iterator[Event]) -> RunResult[Any]:
    """What the events come to.

    Raises:
        ParcelError: they come to no result: what they say of time, money or tokens is none.
    """
    try:
        found = result_of(run, stored)
        numbers = (found.known_cost, found.ms, *_counts(found.total), *_counts(found.unattributed))
        costs = () if found.cost is None else (found.cost,)
        if any(type(one) not in (int, float) or not math.isfinite(one) or one < 0 for one in (*numbers, *costs)):
            raise ValueError("a number of it is none")
        for call in found.calls:
            if any(type(one) is not int or one < 0 for one in _counts(call.tokens)):
                raise ValueError("a call of it has no tokens")
        if found.code not in MESSAGES or not isinstance(found.text, str):
            raise ValueError("it did not end in a known way")
        json.dumps(found.to_data())
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        if isinstance(error, ParcelError):
            raise
        raise refused(run, f"its events come to no result ({type(error).__name__})") from None
    return found


def _counts(tokens: Tokens) -> tuple[int, ...]:
    return tokens.input, tokens.output, tokens.cache_read, tokens.cache_write


def _object(run: str, file: Path) -> Mapping[str, Any]:
    try:
        said = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        raise refused(run, f"{file.name} cannot be read") from None
    if not isinstance(said, dict):
        raise refused(run, f"{file.name} holds no object")
    return said
