"""All kept copies of one state folder: found, made, and removed when nobody uses them or they take too much room."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit._base.files import state_home
from toolkit._base.handles import remove_folder
from toolkit._base.locks import Lock, take_lock
from toolkit._base.processes import boot_id
from toolkit._base.unborn import UNBORN, is_stillborn, unborn_name
from toolkit._base.words import count_text
from toolkit.errors import WorkspaceError
from toolkit_workspace.pristine.comparing import write_stamps
from toolkit_workspace.pristine.kept_copy import RECORD, STAMPS, TREE, USERS, KeptCopy
from toolkit_workspace.record import join
from toolkit_workspace.selecting import Source, Tally
from toolkit_workspace.workspace import Workspace

MOST_BYTES = 2 * 1024**3
"""What all kept copies together may take."""
MOST_SECONDS = 30 * 24 * 3600.0
"""How long one is kept that no workspace uses."""
_GONE = ".gone"
_BLOCK = 4096
_log = logging.getLogger("toolkit.workspace")


def copies_home(home: Path | str | None = None) -> Path:
    """The folder of kept copies, beside the one of runs."""
    return state_home(home) / "copies"


@dataclass(frozen=True, slots=True)
class TidiedCopy:
    """One kept copy that went, or would go, or has to stay although it is over a bound."""

    name: str
    mounts: tuple[str, ...]
    size: int
    why: str
    gone: bool


class KeptCopies:
    """The kept copies of one state folder."""

    def __init__(self, home: Path | str | None = None) -> None:
        self.folder = copies_home(home)

    def all(self) -> list[KeptCopy]:
        """All that can be read, the one used last first."""
        found = []
        for folder in self._folders():
            with contextlib.suppress(WorkspaceError):
                found.append(KeptCopy.read(folder))
        return sorted(found, key=lambda one: one.used, reverse=True)

    def take(self, key: str) -> tuple[KeptCopy, Lock] | None:
        """The newest copy of a key, and what keeps it from being removed; None where there is none."""
        for folder in sorted(self._folders(key), key=lambda one: one.name, reverse=True):
            with contextlib.suppress(OSError, WorkspaceError):
                lock = take_lock(folder / "lock", create=False, shared=True)
                if lock is None:
                    continue  # it is being removed
                try:
                    return KeptCopy.read(folder), lock
                except BaseException:
                    lock.release()
                    raise
        return None

    def keep(self, workspace: Workspace, key: str, sources: Sequence[Source], tallies: Sequence[Tally]) -> KeptCopy:
        """Make the files of a workspace that was just filled a kept copy, and the workspace one over it.

        Raises:
            OSError: that cannot be done, and the workspace is as it was.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{key}-{time.time_ns():020d}"
        unborn = self.folder / unborn_name(name)
        unborn.mkdir(mode=0o700)
        with _held(unborn / "lock"):
            try:
                (unborn / USERS).mkdir(mode=0o700)
                workspace.record.forget_bases()  # the copy itself has all bytes
                workspace.record.save(unborn / RECORD)
                write_stamps(unborn / STAMPS, workspace.record)
                mounts = tuple(os.fsdecode(_host_path(one)) for one in sources)
                counts = sum(tally.files for tally in tallies), size_of(workspace)
                said = tuple(tally.to_json() for tally in tallies)
                KeptCopy(unborn, key, *counts, mounts, time.time(), boot_id() or "", said).write()
                workspace.folder.rename(unborn / TREE)
            except BaseException:
                remove_folder(unborn)
                raise
            workspace.folder.mkdir(mode=0o700)
            workspace.folder.chmod(0o700)
            unborn.rename(self.folder / name)
            kept = KeptCopy.read(self.folder / name)
            self.lay_below(kept, workspace)
        return kept

    def lay_below(self, kept: KeptCopy, workspace: Workspace) -> None:
        """Let a workspace lie over a copy that is held."""
        kept.add_user(workspace.folder.name, workspace.state_dir)
        kept.touch()
        workspace.lay_over(kept.tree)

    def remove(self, kept: KeptCopy) -> str | None:
        """Remove a copy; why it has to stay, where it has to.

        Raises:
            OSError: it cannot be removed.
        """
        lock = take_lock(kept.lock_file)
        if lock is None:
            return "it is being used"
        with lock:
            users = kept.users()
            if users:
                return f"{count_text(len(users), 'workspace')} lie{'s' if len(users) == 1 else ''} over it"
            aside = kept.folder.with_name(f".{kept.folder.name}-{secrets.token_hex(4)}{_GONE}")
            remove_folder(kept.folder.rename(aside))
        return None

    def tidy(
        self,
        *,
        most_bytes: int = MOST_BYTES,
        most_seconds: float = MOST_SECONDS,
        besides: Sequence[str] = (),
        dry_run: bool = False,
    ) -> list[TidiedCopy]:
        """Remove what nobody uses and is over a bound, the one used longest ago first; says what became of each."""
        if not dry_run:
            self._sweep()
        now, total = time.time(), 0
        newest: set[str] = set()
        over = []
        for kept in self.all():
            total += kept.size
            if kept.folder.name in besides:
                newest.add(kept.key)
            elif kept.key in newest:
                over.append((kept, "a newer copy of the same is kept"))
            elif now - kept.used > most_seconds:
                over.append((kept, f"not used for {most_seconds / 86400:g} days"))
            elif total > most_bytes:
                over.append((kept, "kept copies have more than their size together"))
            newest.add(kept.key)
        return [self._tidied(kept, why, dry_run=dry_run) for kept, why in reversed(over)]

    def _tidied(self, kept: KeptCopy, why: str, *, dry_run: bool) -> TidiedCopy:
        try:
            users = kept.users() if dry_run else ()
            stays = "it is being used" if users else None if dry_run else self.remove(kept)
        except OSError as error:
            stays = error.strerror or str(error)
        return TidiedCopy(kept.folder.name, kept.mounts, kept.size, stays or why, gone=stays is None)

    def _sweep(self) -> None:
        """Remove what a kill left half-made or half-removed."""
        for rest in (*self.folder.glob(f".*{UNBORN}"), *self.folder.glob(f".*{_GONE}")):
            with contextlib.suppress(OSError):
                if rest.name.endswith(_GONE) or is_stillborn(rest):
                    remove_folder(rest)

    def _folders(self, key: str = "") -> list[Path]:
        try:
            listed = list(self.folder.iterdir())
        except FileNotFoundError:
            return []
        return [one for one in listed if not one.name.startswith(".") and one.name.startswith(key)]


def _host_path(source: Source) -> bytes:
    return source.record.host if source.record.name is None else join(source.record.host, source.record.name)


def size_of(workspace: Workspace) -> int:
    """The bytes that a workspace's recorded files take, by their sizes."""
    sizes = (size for rows in workspace.record.folders.values() for size in rows.column("size"))
    return sum(-(-size // _BLOCK) * _BLOCK for size in sizes)


@contextlib.contextmanager
def _held(file: Path) -> Iterator[None]:
    lock = take_lock(file)
    assert lock is not None, "nobody knows of a folder that was just made"
    with lock:
        yield
