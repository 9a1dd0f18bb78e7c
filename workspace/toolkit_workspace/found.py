"""Find the workspaces that were made below a folder, say what each is, and remove what nobody needs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from toolkit._base.unborn import UNBORN, is_stillborn
from toolkit._base.words import count_text
from toolkit.errors import WorkspaceError
from toolkit_workspace.record.trouble import in_words
from toolkit_workspace.state import (
    PREFIX,
    SUFFIX,
    is_alive,
    is_unfinished,
    read_facts,
    remove_pair,
    take_state,
)

Status = Literal["in use", "kept", "left over", "unfinished", "unreadable"]
"""`unfinished`: an apply, or its undo, was interrupted, and only its journal can finish it or take it back.
`unreadable`: nobody can say what it is, so it stays."""


@dataclass(frozen=True, slots=True)
class FoundWorkspace:
    """A workspace somebody made below a folder."""

    temp_dir: Path
    state_dir: Path
    status: Status
    pid: int
    created: float
    mounts: tuple[str, ...]
    backend: str = "copy"
    """`overlay` where its folder holds only what was written, over a kept copy."""


def find_workspaces(parent: Path) -> list[FoundWorkspace]:
    """The workspaces below `parent` that belong to this user, oldest first.

    Raises:
        WorkspaceError: the folder cannot be read.
    """
    with in_words("the workspaces cannot be listed", at=parent):
        listed = list(parent.iterdir())
    states = [one for one in listed if one.name.startswith(f".{PREFIX}") and one.name.endswith(SUFFIX)]
    found = [_find(one) for one in states]
    return sorted((one for one in found if one is not None), key=lambda one: (one.created, one.temp_dir.name))


def _find(state_dir: Path) -> FoundWorkspace | None:
    """The workspace of a state folder; None if it is somebody else's, or gone."""
    folder = state_dir.with_name(state_dir.name.removeprefix(".").removesuffix(SUFFIX))
    try:
        st = state_dir.lstat()
        if not stat.S_ISDIR(st.st_mode) or st.st_uid != os.geteuid():
            return None
        facts = read_facts(state_dir)
        status = _status(state_dir, facts)
    except FileNotFoundError:
        return None
    except OSError:
        return FoundWorkspace(folder, state_dir, "unreadable", 0, 0.0, ())
    pid, made = facts.get("pid"), facts.get("created")
    mounts = [str(mount.get("landing", "")) for mount in facts.get("mounts", []) if isinstance(mount, dict)]
    created = float(made) if isinstance(made, int | float) else st.st_mtime
    backend = "copy" if facts.get("below") is None else "overlay"
    pid = pid if isinstance(pid, int) else 0
    return FoundWorkspace(folder, state_dir, status, pid, created, tuple(mounts), backend)


def clean_workspaces(parent: Path, *, kept: bool = False) -> Iterator[FoundWorkspace]:
    """Remove the left-overs below `parent` and yield each; with `kept` also those that were meant to stay.

    One whose owner lives is never removed: the lock is held while it is. Nor is one with an interrupted
    apply, which could then neither be finished nor undone. One that cannot be removed keeps no other from it.

    Raises:
        WorkspaceError: some could not be removed, told when all others are.
    """
    stayed: list[str] = []
    for one in find_workspaces(parent):
        if one.status in ("left over", "kept") and (one.status != "kept" or kept):
            try:
                is_removed = _remove_unheld(one)
            except OSError as error:
                stayed.append(f"{one.temp_dir}: {error.strerror}")
                continue
            if is_removed:
                yield one
    for unborn in parent.glob(f".{PREFIX}*{UNBORN}"):  # killed within the moment before it had a name
        try:
            if is_stillborn(unborn):
                remove_pair(unborn, unborn)
        except FileNotFoundError:
            continue
        except OSError as error:
            stayed.append(f"{unborn}: {error.strerror}")
    if stayed:
        raise WorkspaceError(
            f"{count_text(len(stayed), 'workspace')} could not be removed",
            where=stayed,
            fix="Remove the cause, then clean again.",
        )


def _remove_unheld(one: FoundWorkspace) -> bool:
    """Remove a workspace unless somebody has just taken it."""
    lock = take_state(one.state_dir)
    if lock is None:
        return False
    with lock:
        if is_unfinished(one.state_dir):
            return False
        remove_pair(one.temp_dir, one.state_dir)
    return True


def _status(state_dir: Path, facts: dict[str, Any]) -> Status:
    lock = take_state(state_dir)
    if lock is None:
        return "in use"
    lock.release()
    if is_unfinished(state_dir):
        return "unfinished"
    if facts.get("kept"):
        return "kept"
    return "in use" if is_alive(facts) else "left over"
