"""Pack a run where it was done: what was asked, its events and result, its conversation, and what the agent changed.

run/       run.json, events.jsonl, setup.log, attachments/
session/   the transcripts of its conversation
tree/      what the agent changed of what it was given; what it removed is in the facts
own/       the folder it worked in, where it was given nothing
"""

from __future__ import annotations

import os
import platform
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit._base.handles import READ_FILE
from toolkit._base.words import size_text
from toolkit.errors import RunError, ToolkitError
from toolkit.fleets.parcels import Packing, Parcel, ParcelError, send
from toolkit.fleets.store import Store
from toolkit.runs import SessionId, StoredRun
from toolkit.runs.sessions import kept_files
from toolkit_workspace.travelling import give_tree

MOST_RETURNED = 512 << 20
"""How many bytes of one run come back at most."""
RUN_FILES = ("run.json", "events.jsonl", "setup.log")
"""What of a run's own files comes along; its result follows from its events."""
_PIECE = 1 << 20


@dataclass(frozen=True)
class Brought:
    """A run that is on its way back, as its caller is told of it."""

    run: str
    parcel: Parcel
    name: str
    """Where it is in the store."""
    left_there: str = ""
    """Why the files that the agent changed stay on the worker; empty where they come along."""


def bring(
    run: StoredRun, store: Store, *, pack: str | None = None, name: str | None = None, most_bytes: int = MOST_RETURNED
) -> Brought:
    """Put a run that has ended into a store, for its caller.

    Where the agent's files cannot come along, because they are too large, say, the rest does.

    Args:
        run: The run, stored on this machine.
        pack: The hash of the pack that it worked on; None where it was given nothing.
        name: Where in the store; `runs/RUN` if not given, and always ending so.

    Raises:
        RunError: it is still running, its own files are larger than `most_bytes`, or the store cannot be written.
    """
    if run.is_running():
        raise RunError(f"run {run.id} is still running: it cannot be sent back")
    place = name or f"runs/{run.id}"
    why = ""
    for with_files in (True, False):
        with tempfile.TemporaryDirectory(prefix="toolkit-return-") as scratch:
            try:
                parcel = _packed(run, Path(scratch), pack, most_bytes, with_files=with_files, why=why)
            except (ToolkitError, OSError) as error:
                if not with_files:
                    raise _cannot(run, error, most_bytes) from error
                why = _why(run, error, most_bytes)
                continue
            send(parcel, Path(scratch), store, place)
            return Brought(run.id, parcel, place, why)
    raise AssertionError("the second time it is sent, or raises")


def _packed(run: StoredRun, into: Path, pack: str | None, most_bytes: int, *, with_files: bool, why: str) -> Parcel:
    facts: dict[str, Any] = {"run": run.id, "pack": pack, "machine": platform.node(), "left_there": why}
    with Packing(into, most_bytes=most_bytes) as packing:
        packing.folder_entry(b"run", 0o700)
        for name in RUN_FILES:
            _file(packing, run.folder / name, b"run/" + name.encode())
        _attachments(packing, run.folder / "attachments")
        facts["session"] = session = _session(run)
        files = [] if session is None else kept_files(SessionId(session), run.folder.parent.parent)
        if files:
            packing.folder_entry(b"session", 0o700)
        for number, file in enumerate(files):
            _file(packing, file, b"session/%d.jsonl" % number)
        if with_files:
            facts |= _files(packing, run)
        return packing.finish(facts)


def _session(run: StoredRun) -> str | None:
    found = run.session
    try:
        return None if found is None else str(SessionId(found))
    except RunError:
        return None


def _files(packing: Packing, run: StoredRun) -> dict[str, Any]:
    """What the agent worked on, and what is told of it beside files."""
    facts = run.facts
    if facts.get("workspace") is None:
        return {}
    if facts.get("copied"):
        with run.opened() as section:
            given = section.give_back(packing)
        left = [[_text(path), reason] for path, reason in given.left]
        return {"copied": True, "gone": [_text(path) for path in given.gone], "left": left}
    folder = Path(facts["workspace"])
    if folder.parent == run.folder and folder.is_dir():
        odd = give_tree(packing, folder.resolve(), b"own", set())
        return {"own": True, "left": [[_text(path), "no plain file"] for path in odd]}
    raise RunError(f"run {run.id} worked in place, in a folder of the worker", where=[str(folder)])


def _file(packing: Packing, file: Path, path: bytes) -> None:
    try:
        handle = os.open(file, READ_FILE)
    except FileNotFoundError:
        return
    try:
        packing.stream(path, iter(lambda: os.read(handle, _PIECE), b""), 0o600)
    finally:
        os.close(handle)


def _attachments(packing: Packing, folder: Path) -> None:
    if folder.is_dir():
        packing.folder_entry(b"run/attachments", 0o700)
        for file in sorted(folder.iterdir()):
            _file(packing, file, b"run/attachments/" + os.fsencode(file.name))


def _why(run: StoredRun, error: Exception, most_bytes: int) -> str:
    """Why the agent's files stay where they are, and where that is."""
    where = f"they are on {platform.node()} in {run.facts.get('workspace')}"
    if isinstance(error, ParcelError):
        return f"what the agent changed is more than the {size_text(most_bytes)} that come back; {where}"
    return f"what the agent changed cannot be sent: {_said(error)}; {where}"


def _cannot(run: StoredRun, error: Exception, most_bytes: int) -> RunError:
    is_large = isinstance(error, ParcelError)
    why = f"it is more than the {size_text(most_bytes)} that come back" if is_large else _said(error)
    where = [f"{platform.node()}:{run.folder}"]
    return RunError(f"run {run.id} cannot be sent back: {why}", where=where, fix="It stays on the worker")


def _said(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error).partition("\n")[0]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
