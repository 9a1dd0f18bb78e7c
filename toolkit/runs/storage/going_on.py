"""Find and take the place where a conversation worked before: its copy, or the folder of its own, with all in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit._base.handles import PATH_HANDLE, READ_DIR, open_beneath
from toolkit._base.locks import Lock, take_lock
from toolkit._base.words import safe_name
from toolkit.errors import RunError, WorkspaceError
from toolkit.runs.storage.stored_run import StoredRun
from toolkit.runs.storage.stored_runs import run_of_session

if TYPE_CHECKING:
    from toolkit_workspace import HostMount, WatchEvent, WorkspaceSection

_MOST_NAMED = 10
_MOUNT_POINT = 0o444
"""The mode of the empty files that bubblewrap makes to show something in their place."""
_LOCK = "workspace.lock"
"""Held in a run's folder by a later run that works in the folder of that run's own."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A place of an earlier run, taken by a later one."""

    folder: Path
    section: WorkspaceSection | None = None
    lock: Lock | None = None
    """Held where there is no section to hold."""

    def release(self) -> None:
        """Let others have it."""
        if self.section is not None:
            self.section.release()
        if self.lock is not None:
            self.lock.release()


def take_place(earlier: StoredRun, run_id: str) -> Taken | None:
    """The place an earlier run worked in; None where that was a folder of its own with nothing in it (any more).

    Raises:
        RunError: it worked in place, its copy is gone, or somebody works there now.
    """
    facts = earlier.facts
    folder, is_copy = Path(facts["workspace"]), bool(facts.get("copied"))
    owner = earlier.owner_of_workspace
    if not is_copy and owner is None:
        raise RunError(
            f"run {earlier.id} worked in place, in {folder}",
            fix=f"Say so again: --in-place {folder}, or workspace=InPlace({str(folder)!r})",
        )
    if is_copy and not folder.is_dir():
        raise _gone(earlier, folder)
    if not is_copy and not _holds_anything(folder):
        return None
    if owner is None:
        return Taken(folder, _opened(earlier, folder))
    with owner.visited():
        taken = Taken(folder, _opened(earlier, folder)) if is_copy else Taken(folder, lock=_locked(earlier, owner))
        try:
            owner.note_guest(run_id)
        except OSError as error:
            taken.release()
            raise RunError(f"the workspace of run {earlier.id} cannot be taken: {error.strerror}") from error
    return taken


def note_stay(folder: Path, run: Path) -> None:
    """Remember that a run works in a folder, where that lies in the folder of another run."""
    if folder.parent != run and folder.parent.parent == run.parent:
        StoredRun(folder.parent).note_guest(run.name)


def _holds_anything(folder: Path) -> bool:
    """Whether an agent left something there; folders alone, and what a jail left to show a file there, are nothing."""
    for above, folders, names in os.walk(folder):
        found = [Path(above, name).lstat() for name in (*folders, *names)]
        others = [st for st in found if not stat.S_ISDIR(st.st_mode)]
        if any(st.st_size or stat.S_IMODE(st.st_mode) != _MOUNT_POINT for st in others):
            return True
    return False


def has_copy_of(mounts: Sequence[HostMount], session: str, home: Path | str | None) -> bool:
    """Whether a conversation worked last in a copy of just these mounts, and that is still there."""
    earlier = run_of_session(session, home)
    if earlier is None or not earlier.facts.get("copied"):
        return False
    known = [tuple(one) for one in earlier.facts.get("mounts", ())]
    return known == mounts_of(mounts) and Path(earlier.facts["workspace"]).is_dir()


def mounts_of(mounts: Sequence[HostMount]) -> list[tuple[str, str]]:
    """The host paths of mounts, and where each lies in the workspace."""
    return [(os.path.abspath(one.host_path), one.landing) for one in mounts]  # noqa: PTH100 - links must stay


def _gone(earlier: StoredRun, folder: Path) -> RunError:
    mounts = [f"--mount {host}" for host, _ in earlier.facts.get("mounts", ())] or ["--mount …"]
    return RunError(
        f"the workspace of run {earlier.id} was dropped, with what the agent had done in it",
        where=[str(folder)],
        fix=f"Start from the host's files: {' '.join(mounts)}, or workspace=WorkspaceSection(…)",
    )


def _opened(earlier: StoredRun, folder: Path) -> WorkspaceSection:
    from toolkit_workspace import WorkspaceSection

    try:
        section = WorkspaceSection.open(folder)
    except WorkspaceError as error:
        raise _taken(earlier, [error.what, *error.where]) from error
    try:
        refuse_half_rewound(section, earlier.id)
        earlier.refuse_half_applied("nobody can go on in its workspace")
    except BaseException:
        section.release()
        raise
    return section


def refuse_half_rewound(section: WorkspaceSection, run_id: str = "RUN") -> None:
    """Refuse to work in a copy whose rewind was interrupted.

    Raises:
        RunError: it was.
    """
    goal = section.unfinished_rewind
    if goal is not None:
        raise RunError(
            "a rewind of the workspace was interrupted: its files are neither here nor there",
            where=[f"{section.temp_dir}: it was to go back to {goal.label}"],
            fix=f"Finish it, or go back elsewhere: toolkit runs rewind {run_id} --to NUMBER",
        )


def refuse_half_applied(section: WorkspaceSection) -> None:
    """Refuse to work in a copy of which an apply, or its undo, was interrupted.

    Raises:
        WorkspaceError: it was, or nobody can tell.
    """
    from toolkit_workspace import Workspace

    looked_at = Workspace(section.temp_dir)
    if looked_at.has_unfinished_apply:
        raise looked_at.unfinished("an earlier apply, or taking it back, was interrupted: nobody can work here")


def _locked(earlier: StoredRun, owner: StoredRun) -> Lock:
    lock = take_lock(owner.folder / _LOCK)
    if lock is None:
        raise _taken(earlier, [str(owner.folder)])
    return lock


def _taken(earlier: StoredRun, where: list[str]) -> RunError:
    return RunError(
        f"the workspace of run {earlier.id} cannot be taken up",
        where=where,
        fix="Wait until nobody works in it, or start from the host's files: --mount …, workspace=WorkspaceSection(…)",
    )


def news_of(events: Sequence[WatchEvent], section: WorkspaceSection) -> str:
    """What an update from the host came to, in words; empty where nothing changed."""
    kinds = {
        "brought in": ("copied",),
        "removed": ("removed",),
        "merged with what the agent changed": ("merged",),
        "changed on both sides and left as the agent has it": ("conflict",),
        "too large to be brought in": ("over budget",),
    }
    parts = []
    for words, wanted in kinds.items():
        names = [safe_name(section.places.to_agent(one.path)) for one in events if one.kind in wanted]
        if names:
            more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
            parts.append(f"{words}: {', '.join(names[:_MOST_NAMED])}{more}")
    return f"The host's files changed since the last turn; {'; '.join(parts)}." if parts else ""


def is_free_of_links(folder: Path, below: str) -> bool:
    """Whether no link stands in the way to a place in a folder that an agent has worked in."""
    root = os.open(folder, READ_DIR)
    try:
        os.close(open_beneath(root, os.fsencode(below), PATH_HANDLE))
    except FileNotFoundError:
        return True
    except OSError:
        return False
    finally:
        os.close(root)
    return True


def without_links(lent: Iterable[tuple[Path, str]], section: WorkspaceSection) -> list[tuple[Path, str]]:
    """What can still be lent to a copy that an agent has worked in: it is on the host, and its place is a plain one.

    A link that the agent put in the way would otherwise decide where something of the host is shown.
    """
    folder = section.temp_dir
    found = []
    for host, inside in lent:
        place = section.places.to_host(folder, inside)
        if host.exists() and (place is None or is_free_of_links(folder, str(place.relative_to(folder)))):
            found.append((host, inside))
    return found
