"""The journal that makes an apply undoable, and the steps on the host that it leads.

Before the first step, the plan and all bytes it needs, old and new, are on disk
beside the workspace. Each step can be recognised as made or not made by looking
at the host, so after a kill at any point `resume` makes the rest and `undo` takes
back what was made. The journal of a finished apply is kept until the next one, so
that it can still be undone.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from toolkit._base.files import write_json
from toolkit._base.handles import READ_DIR
from toolkit.errors import WorkspaceError
from toolkit_workspace.applying.moves import Move, sync
from toolkit_workspace.applying.steps import HostVersion, Step, Update
from toolkit_workspace.record import ByteStore
from toolkit_workspace.record.content import Hosts


def _remove_if_there(name: bytes, folder: int) -> None:
    """Remove a name in an open folder; where nothing can be removed, it is enough that nothing is there."""
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
    except OSError:
        # A read-only file system refuses before it looks.
        with contextlib.suppress(FileNotFoundError):
            os.stat(name, dir_fd=folder, follow_symlinks=False)
            raise


def discard(folder: Path) -> None:
    """Remove a journal that is done with, its plan first: what a kill leaves of it is no journal."""
    (folder / "plan.json").unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


class Journal:
    """The record of one apply in a folder of its own: a plan, and one file with all bytes it speaks of."""

    def __init__(self, folder: Path, name: str, steps: Sequence[Step], updates: Sequence[Update]) -> None:
        self.folder = folder
        self.steps = tuple(steps)
        self.updates = tuple(updates)
        self._name = name
        self.by_place = {(step.mount, step.host_path): step for step in steps}

    @classmethod
    def begin(cls, folder: Path, steps: Iterable[Step], updates: Iterable[Update]) -> Journal:
        """Write down steps and updates with all their bytes; the host is not touched.

        Raises:
            ContentGone: a file changed since the steps were planned.
        """
        discard(folder)
        folder.mkdir(mode=0o700)
        store = ByteStore(folder / "bytes")
        store.append([])  # there is a file to sync, even without bytes
        keep = cache(store.keep)  # what goes to the host and is also the next base is written down once

        def kept(version: HostVersion | None) -> HostVersion | None:
            if version is None or version.content is None:
                return version
            content, digest = keep(version.content)
            return replace(version, content=content, sha256=digest)

        steps = [replace(step, old=kept(step.old), new=kept(step.new)) for step in steps]
        updates = [replace(one, content=one.content and keep(one.content)[0]) for one in updates]
        sync(os.open(store.file, os.O_RDONLY | os.O_CLOEXEC))
        name = secrets.token_hex(4)
        facts = {"steps": [step.to_json() for step in steps], "updates": [one.to_json() for one in updates]}
        # The plan is last, whole or not at all: once it is there, the apply has begun and its bytes are safe.
        write_json(folder / "plan.json", {"name": name, **facts}, durable=True)
        sync(os.open(folder, READ_DIR))
        return cls(folder, name, steps, updates)

    @classmethod
    def load(cls, folder: Path) -> Journal | None:
        """The journal in a folder; None when there is none or it was not complete, so nothing was begun.

        Raises:
            WorkspaceError: it cannot be read.
        """
        file, store = folder / "plan.json", ByteStore(folder / "bytes")
        try:
            facts = json.loads(file.read_bytes())
            steps = [Step.from_json(one, store) for one in facts["steps"]]
            updates = [Update.from_json(one, store) for one in facts["updates"]]
            return cls(folder, facts["name"], steps, updates)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise WorkspaceError("the journal of an apply cannot be read", where=[f"{file}: {error}"]) from error

    def forwards(self, hosts: Hosts) -> None:
        """Make every step that is not yet made."""
        self._make([Move(step, step.old, step.new, name) for step, name in self._named_steps()], hosts)

    def backwards(self, hosts: Hosts) -> None:
        """Take back every step that was made, last one first."""
        self._make(self._moves_back(), hosts)

    def check_backwards(self, hosts: Hosts) -> None:
        """Refuse to go back where a place holds something that is not ours; nothing is written.

        Raises:
            WorkspaceConflictError: there is such a place.
        """
        for move in self._moves_back():
            move.check(hosts)

    def _moves_back(self) -> list[Move]:
        return [Move(step, step.new, step.old, name) for step, name in self._named_steps()][::-1]

    def _make(self, moves: Sequence[Move], hosts: Hosts) -> None:
        for move in moves:
            try:
                move.make(hosts)
            except OSError as error:
                # What failed goes by its name in an open folder only.
                host = hosts.mounts[move.step.mount].host
                error.filename = os.fsdecode(b"/".join(part for part in (host, move.step.host_path) if part))
                error.filename2 = None
                raise
        in_folders = {(step.mount, step.host_path.rpartition(b"/")[0]): step for step in self.steps}
        for step in in_folders.values():
            folder = hosts.find_parent(step.mount, step.host_path)
            if folder is not None:  # one that is gone needs no sync
                sync(folder[0])

    def _named_steps(self) -> Iterator[tuple[Step, bytes]]:
        """Each step and the name it uses beside its place: not a random one, so that `sweep` finds it after a kill."""
        for number, step in enumerate(self.steps):
            yield step, f".toolkit-apply-{self._name}-{number}".encode()

    def sweep(self, hosts: Hosts) -> None:
        """Remove the names an interrupted run may have left beside the places, before anything else is done."""
        for step, temporary in self._named_steps():
            found = hosts.find_parent(step.mount, step.host_path)
            if found is None:
                continue
            try:
                _remove_if_there(temporary, found[0])
            finally:
                os.close(found[0])

    def close(self, kept_as: Path) -> None:
        """Put the journal aside, in place of an older one."""
        self._move_to(kept_as)

    def reopen(self, folder: Path) -> Journal:
        """The journal of a finished apply as that of an unfinished one, which it is from now on."""
        if folder != self.folder:
            self._move_to(folder)
        return Journal.load(folder) or self

    def _move_to(self, folder: Path) -> None:
        discard(folder)
        self.folder.rename(folder)
        sync(os.open(folder.parent, READ_DIR))
