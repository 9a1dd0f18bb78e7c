"""Take a run in that came back from a worker: from a parcel to a folder beside those of all other runs.

Everything is unpacked and looked at under a name that no reader looks for; the run has its name when it is whole. What
the workspace is compared with, and where it belongs, is read from the pack that was made here.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from toolkit._base.files import write_whole
from toolkit._base.handles import remove_folder
from toolkit._base.unborn import unborn_name
from toolkit.errors import RunError
from toolkit.fleets.packs import PackedHome
from toolkit.fleets.parcels import Entry, Manifest, ParcelError, fetch, forget_sent, read_contents, unpack_into
from toolkit.fleets.returns import checked
from toolkit.fleets.returns.bring import MOST_RETURNED, Brought
from toolkit.fleets.store import Store
from toolkit.runs import SessionId, StoredRun
from toolkit.runs.outcome import as_line
from toolkit.runs.sessions import keep_files
from toolkit.runs.storage import FORMAT, cannot_store, last_turn_has_finished, runs_home
from toolkit_workspace import WorkspaceSection
from toolkit_workspace.travelling import Returned, rebuild

_IN = "in"


def take_in(
    brought: Brought,
    store: Store,
    *,
    run: str,
    pack: PackedHome | None = None,
    resumes: str | None = None,
    home: Path | str | None = None,
    most_bytes: int = MOST_RETURNED,
) -> StoredRun:
    """The run that a worker brought, stored on this machine; taken in before, it is given again.

    Args:
        brought: What the worker said of it.
        run: Its id, as the caller knows it.
        pack: What it worked on, where that was packed; None where it was given nothing.
        resumes: The conversation that it was asked to go on with: only that one may grow.

    Raises:
        ParcelError: it is damaged, too large, of another run, or holds what it may not; nothing was taken in.
        RunError: the store cannot be read, there is another run of that id, or it cannot be stored here.
    """
    if brought.run != run:
        raise checked.refused(run, "it is another run")
    _check_name(brought)
    folder = runs_home(home) / run
    if folder.exists():
        return _known(folder, brought)
    parts = fetch(brought.parcel, store, brought.name)
    manifest = Manifest.from_bytes(parts.manifest(), brought.parcel, most_bytes=most_bytes)
    _check_facts(run, manifest, pack)
    checked.check_entries(run, manifest)
    unborn = folder.with_name(unborn_name(run))
    try:
        (unborn / _IN).mkdir(mode=0o700, parents=True)
        unpack_into(unborn / _IN, manifest, parts)
        _settle(unborn, folder, run, brought, manifest, pack)
        session = manifest.facts.get("session")
        if isinstance(session, str):
            files = sorted((unborn / _IN / "session").glob("*.jsonl"))
            keep_files(SessionId(session), files, home, adds=session == resumes)
        remove_folder(unborn / _IN)
        unborn.rename(folder)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            return _known(folder, brought)
        raise cannot_store(error, folder) from error
    finally:
        if unborn.exists():
            remove_folder(unborn)
    return StoredRun(folder)


def forget_brought(brought: Brought, store: Store) -> None:
    """Take a run out of the store once it is taken in.

    Raises:
        RunError: the store cannot be changed, or what the worker named is no place for this run.
    """
    _check_name(brought)
    forget_sent(store, brought.name)


def _check_name(brought: Brought) -> None:
    """A worker names the place itself: it must not be that of something else."""
    if not f"/{brought.name}".endswith(f"/runs/{brought.run}"):
        raise checked.refused(brought.run, "it lies where no run does")


def _known(folder: Path, brought: Brought) -> StoredRun:
    """A run that is there already, where it is the same."""
    found = StoredRun(folder)
    if (found.facts.get("returned") or {}).get("parcel") != brought.parcel.hash:
        raise RunError(f"there is another run '{brought.run}' here already", where=[str(folder)])
    return found


def _check_facts(run: str, manifest: Manifest, pack: PackedHome | None) -> None:
    facts = manifest.facts
    if facts.get("run") != run:
        raise checked.refused(run, "it says that it is another run")
    if facts.get("copied") and (pack is None or facts.get("pack") != pack.pack.hash):
        raise checked.refused(run, "it worked on something else than it was given")


def _settle(
    unborn: Path, folder: Path, run: str, brought: Brought, manifest: Manifest, pack: PackedHome | None
) -> None:
    """Make of what was unpacked what a stored run holds."""
    came = unborn / _IN / "run"
    facts = checked.asked(run, came / "run.json")
    told = manifest.facts
    machine, left_there = checked.text(told.get("machine"), 200), checked.text(told.get("left_there"))
    facts |= {"format": FORMAT, "run": run, "cwd": str(Path.cwd()), "copied": False, "workspace": None, "mounts": []}
    facts["returned"] = {"parcel": brought.parcel.hash, "machine": machine, "left_there": left_there}
    facts["returned"]["left"] = checked.remarks(run, told.get("left", []))
    facts["returned"]["at"] = time.time()
    _take_files(came, unborn)
    changes = None
    if told.get("copied") and pack is not None:
        place = _rebuilt(unborn, run, manifest, pack)
        said = pack.manifest.facts["section"]
        facts["mounts"] = [(one["host_path"], one["landing"]) for one in said["mounts"]]
        facts |= {"copied": True, "workspace": str(folder / place.name)}
        changes = _changes(place)
    elif told.get("own"):
        (unborn / _IN / "own").rename(unborn / "workspace")
        facts["workspace"] = str(folder / "workspace")
    if (came / "events.jsonl").exists():
        _store_events(came / "events.jsonl", unborn, run, changes)
    write_whole(unborn / "run.json", as_line(facts) + "\n")
    (unborn / "lock").touch(mode=0o600)


def _changes(place: Path) -> list[dict[str, Any]]:
    section = WorkspaceSection.open(place)
    try:
        return section.changes().to_json()
    finally:
        section.release()


def _take_files(came: Path, unborn: Path) -> None:
    for name in ("setup.log", "attachments"):
        if (came / name).exists():
            (came / name).rename(unborn / name)


def _store_events(file: Path, unborn: Path, run: str, changes: list[dict[str, Any]] | None) -> None:
    """The events, written as we write them, and the result that they come to."""
    with (unborn / "events.jsonl").open("x", encoding="utf-8") as out:
        for event in checked.events(run, file):
            out.write(event.to_json() + "\n")
    (unborn / "events.jsonl").chmod(0o600)
    result = checked.result(run, StoredRun(unborn).events())
    if last_turn_has_finished(unborn / "events.jsonl"):
        write_whole(unborn / "result.json", as_line({**result.to_data(), "changes": changes}) + "\n")


def _rebuilt(unborn: Path, run: str, manifest: Manifest, pack: PackedHome) -> Path:
    work = [entry for entry in manifest.entries if entry.path.startswith(b"tree/")]
    if not (unborn / _IN / "tree").is_dir():
        raise checked.refused(run, "what the agent changed is not there")
    packed = pack.manifest
    by_path = {entry.path: entry for entry in packed.entries}
    parts = pack.parts(packed)

    def bases(wanted: Iterable[bytes]) -> Iterator[tuple[bytes, Iterable[bytes]]]:
        entries = [by_path[path] for path in wanted]
        for entry, pieces in read_contents(entries, packed, parts):
            yield entry.path, pieces

    returned = Returned(
        tree=unborn / _IN / "tree",
        paths=[_below(entry) for entry in work],
        gone=checked.paths(run, manifest.facts.get("gone", [])),
        as_given={_below(entry) for entry in work if entry.mode < 0},
        record=pack.record,
        facts=packed.facts["section"],
        bases=bases,
    )
    try:
        return rebuild(unborn, returned)
    except KeyError as error:
        raise ParcelError("a pack does not hold what its record says", where=[str(error)]) from None


def _below(entry: Entry) -> bytes:
    return entry.path.removeprefix(b"tree/")
