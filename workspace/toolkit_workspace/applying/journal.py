"""Make a list of steps on the host so that a killed process leaves all or nothing to be had.

Before the first step, the plan and all bytes it needs, old and new, are on disk
beside the workspace. Each step can be recognised as made or not made by looking
at the host, so after a kill at any point `resume` makes the rest and `undo` takes
back what was made. The journal of a finished apply is kept until the next one, so
that it can still be undone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from toolkit._base.handles import READ_DIR, open_beneath
from toolkit.errors import WorkspaceError
from toolkit_workspace.applying.host_state import HostState
from toolkit_workspace.applying.steps import Move, Step, make
from toolkit_workspace.record.content import Content
from toolkit_workspace.record.hosts import Hosts

Source = Content | bytes
"""Bytes to put on the host: where they are, or the bytes themselves."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step and where its bytes come from."""

    step: Step
    old_bytes: Source | None = None
    new_bytes: Source | None = None


class Journal:
    """The record of one apply in a folder of its own: a plan, and one file with all bytes it speaks of."""

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self.folder = folder
        self.name: str = facts["name"]
        self.notes: dict[str, Any] = facts["notes"]
        """What to do once all steps are made; ours to keep, the caller's to read."""
        self.steps = tuple(_step(one) for one in facts["steps"])
        self._numbers = {(step.mount, step.host_path): number for number, step in enumerate(self.steps)}
        self._bytes: dict[str, tuple[int, int]] = {name: (at, size) for name, (at, size) in facts["bytes"].items()}

    @classmethod
    def begin(
        cls,
        folder: Path,
        steps: Sequence[PlannedStep],
        notes: dict[str, Any],
        extra: Mapping[str, Source],
    ) -> Journal:
        """Write down steps with their old and new bytes, and `extra` bytes by name; the host is not touched.

        Raises:
            ContentGone: a file changed since the steps were planned.
        """
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        recorded = []
        with (folder / "bytes").open("xb") as out:
            keep = _Keeper(out)
            for number, planned in enumerate(steps):
                step = planned.step
                was = step.old and replace(step.old, sha256=keep.keep(f"old-{number}", planned.old_bytes))
                becomes = step.new and replace(step.new, sha256=keep.keep(f"new-{number}", planned.new_bytes))
                recorded.append(_facts(replace(step, old=was, new=becomes)))
            for name, source in extra.items():
                keep.keep(name, source)
            out.flush()
            os.fsync(out.fileno())
        facts = {"name": secrets.token_hex(4), "steps": recorded, "notes": notes, "bytes": keep.places}
        _write_plan(folder, facts)
        return cls(folder, facts)

    @classmethod
    def load(cls, folder: Path) -> Journal | None:
        """The journal in a folder; None when there is none or it was not complete, so nothing was begun.

        Raises:
            WorkspaceError: it cannot be read.
        """
        file = folder / "plan.json"
        try:
            return cls(folder, json.loads(file.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise WorkspaceError("the journal of an apply cannot be read", where=[f"{file}: {error}"]) from error

    def number_of(self, mount: int, host_path: bytes) -> int | None:
        """The number of the step for a place, None if there is none."""
        return self._numbers.get((mount, host_path))

    def content(self, name: str) -> Content | None:
        """Bytes that were written down under a name; None if there are none."""
        if name not in self._bytes:
            return None
        at, size = self._bytes[name]
        return Content(lambda: os.open(self.folder / "bytes", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), size, at)

    def forwards(self, hosts: Hosts) -> None:
        """Make every step that is not yet made."""
        self._make_all(list(self._moves()), hosts)

    def backwards(self, hosts: Hosts) -> None:
        """Take back every step that was made, last one first."""
        self._make_all(list(self._moves(back=True))[::-1], hosts)

    def _make_all(self, moves: Sequence[Move], hosts: Hosts) -> None:
        for move in moves:
            make(move, hosts)
        for mount, parent in {(step.mount, _parent(hosts, step)) for step in self.steps}:
            with contextlib.suppress(OSError):  # a folder that is gone needs no sync
                _sync_handle(open_beneath(hosts.folder(mount), parent, READ_DIR))

    def _moves(self, *, back: bool = False) -> Iterator[Move]:
        for number, step in enumerate(self.steps):
            temporary = f".toolkit-apply-{self.name}-{number}".encode()
            if back:
                yield Move(step, step.new, step.old, self.content(f"old-{number}"), temporary)
            else:
                yield Move(step, step.old, step.new, self.content(f"new-{number}"), temporary)

    def sweep(self, hosts: Hosts) -> None:
        """Remove the names an interrupted run may have left beside the places, before anything else is done."""
        for move in self._moves():
            try:
                folder = open_beneath(hosts.folder(move.step.mount), _parent(hosts, move.step), READ_DIR)
            except OSError:
                continue
            try:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(move.temporary, dir_fd=folder)
            finally:
                os.close(folder)

    def close(self, kept_as: Path) -> None:
        """Put the journal aside, in place of an older one."""
        shutil.rmtree(kept_as, ignore_errors=True)
        self.folder.rename(kept_as)
        _sync_handle(os.open(kept_as.parent, READ_DIR))


class _Keeper:
    """Writes bytes one after the other into one file, so that one sync makes them all safe."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.places: dict[str, tuple[int, int]] = {}

    def keep(self, name: str, source: Source | None) -> str:
        """Write bytes down under a name and return their digest; empty without bytes."""
        if source is None:
            return ""
        digest, start = hashlib.sha256(), self._out.tell()
        for piece in [source] if isinstance(source, bytes) else source.chunks():
            digest.update(piece)
            self._out.write(piece)
        self.places[name] = (start, self._out.tell() - start)
        return digest.hexdigest()


def _write_plan(folder: Path, facts: dict[str, Any]) -> None:
    """The plan appears whole or not at all; from then on the apply has begun."""
    unfinished = folder / "plan.new"
    with unfinished.open("w", encoding="utf-8") as out:
        out.write(json.dumps(facts))
        out.flush()
        os.fsync(out.fileno())
    unfinished.rename(folder / "plan.json")
    _sync_handle(os.open(folder, READ_DIR))


def _sync_handle(folder: int) -> None:
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _parent(hosts: Hosts, step: Step) -> bytes:
    return hosts.place(step.mount, step.host_path).rpartition(b"/")[0]


def _facts(step: Step) -> dict[str, Any]:
    return {
        "mount": step.mount,
        "host_path": os.fsdecode(step.host_path),
        "path": os.fsdecode(step.path),
        "old": step.old and step.old.to_json(),
        "new": step.new and step.new.to_json(),
    }


def _step(facts: dict[str, Any]) -> Step:
    old, new = facts["old"], facts["new"]
    return Step(
        facts["mount"],
        os.fsencode(facts["host_path"]),
        os.fsencode(facts["path"]),
        old and HostState.from_json(old),
        new and HostState.from_json(new),
    )
