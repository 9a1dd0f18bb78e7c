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
from typing import Any

from toolkit.errors import WorkspaceError
from toolkit_workspace._content import Content
from toolkit_workspace._handles import READ_DIR, open_beneath
from toolkit_workspace._host_state import HostState
from toolkit_workspace._hosts import Hosts
from toolkit_workspace._steps import Move, Step, make

Source = Content | bytes
"""Bytes to put on the host: where they are, or the bytes themselves."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step and where its bytes come from."""

    step: Step
    old_bytes: Source | None = None
    new_bytes: Source | None = None


class Journal:
    """The record of one apply in a folder of its own."""

    def __init__(self, folder: Path, name: str, steps: Sequence[Step], notes: dict[str, Any]) -> None:
        self.folder = folder
        self.name = name
        self.steps = tuple(steps)
        self.notes = notes
        """What to do once all steps are made; ours to keep, the caller's to read."""

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
        for number, planned in enumerate(steps):
            step = planned.step
            was = step.old and replace(step.old, sha256=_keep(folder / f"old-{number}", planned.old_bytes))
            becomes = step.new and replace(step.new, sha256=_keep(folder / f"new-{number}", planned.new_bytes))
            recorded.append(replace(step, old=was, new=becomes))
        for name, source in extra.items():
            _keep(folder / name, source)
        journal = cls(folder, secrets.token_hex(4), recorded, notes)
        journal._write()
        return journal

    @classmethod
    def load(cls, folder: Path) -> Journal | None:
        """The journal in a folder; None when there is none or it was not complete, so nothing was begun.

        Raises:
            WorkspaceError: it cannot be read.
        """
        file = folder / "plan.json"
        try:
            facts = json.loads(file.read_bytes())
            steps = [_step(one) for one in facts["steps"]]
            return cls(folder, facts["name"], steps, facts["notes"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise WorkspaceError("the journal of an apply cannot be read", where=[f"{file}: {error}"]) from error

    def _write(self) -> None:
        facts = {"name": self.name, "steps": [_facts(step) for step in self.steps], "notes": self.notes}
        unfinished = self.folder / "plan.new"
        with unfinished.open("w", encoding="utf-8") as out:
            json.dump(facts, out)
            out.flush()
            os.fsync(out.fileno())
        _sync(self.folder)
        os.rename(unfinished, self.folder / "plan.json")  # noqa: PTH104 (one seam for every rename)
        _sync(self.folder)

    def number_of(self, mount: int, host_path: bytes) -> int | None:
        """The number of the step for a place, None if there is none."""
        places = [(step.mount, step.host_path) for step in self.steps]
        return places.index((mount, host_path)) if (mount, host_path) in places else None

    def forwards(self, hosts: Hosts) -> None:
        """Make every step that is not yet made."""
        for move in self._moves():
            make(move, hosts)

    def backwards(self, hosts: Hosts) -> None:
        """Take back every step that was made, last one first."""
        for move in reversed(list(self._moves(back=True))):
            make(move, hosts)

    def _moves(self, *, back: bool = False) -> Iterator[Move]:
        for number, step in enumerate(self.steps):
            temporary = f".toolkit-apply-{self.name}-{number}".encode()
            if back:
                yield Move(step, step.new, step.old, self.folder / f"old-{number}", temporary)
            else:
                yield Move(step, step.old, step.new, self.folder / f"new-{number}", temporary)

    def sweep(self, hosts: Hosts) -> None:
        """Remove the names an interrupted run may have left beside the places, before anything else is done."""
        for move in self._moves():
            place = hosts.place(move.step.mount, move.step.host_path)
            try:
                folder = open_beneath(hosts.folder(move.step.mount), place.rpartition(b"/")[0], READ_DIR)
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
        os.rename(self.folder, kept_as)  # noqa: PTH104
        _sync(kept_as.parent)


def _keep(file: Path, source: Source | None) -> str:
    """Write bytes to a file for later and return their digest; empty without bytes."""
    if source is None:
        return ""
    digest = hashlib.sha256()
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as out:  # noqa: PTH123 (made and owned above)
        for piece in [source] if isinstance(source, bytes) else source.chunks():
            digest.update(piece)
            out.write(piece)
        out.flush()
        os.fsync(fd)
    return digest.hexdigest()


def _sync(folder: Path) -> None:
    fd = os.open(folder, READ_DIR)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


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
