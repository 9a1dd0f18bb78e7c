"""What is kept beside a workspace, in a folder of its own: where it lies, whose it is, and how it is removed.

The owner holds a lock there as long as it lives: the kernel drops it with the process,
so a left-over shows by an unheld lock, and the recorded pid with its start time is a
second witness. What is in doubt is kept.
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

from toolkit._base.files import is_there
from toolkit._base.handles import READ_DIR, READ_FILE, remove_tree
from toolkit._base.locks import Lock, take_lock
from toolkit._base.processes import boot_id, started_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX = "toolkit-workspace-"
SUFFIX = ".state"
_MOST_OWNER_BYTES = 1_000_000


def state_dir_of(folder: Path) -> Path:
    """The folder beside a workspace that holds all that is known about it."""
    return folder.with_name(f".{folder.name}{SUFFIX}")


def is_unfinished(state_dir: Path) -> bool:
    """Whether an apply, or its undo, was interrupted after its first write to the host."""
    return is_there(state_dir / "apply" / "plan.json")


def remove_pair(folder: Path, state_dir: Path) -> None:
    """Remove a workspace and what is kept about it, as far as they are there."""
    parent = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # The workspace first: while its state is there, a rest of it can still be found.
        remove_tree(parent, folder.name)
        remove_tree(parent, state_dir.name)
    finally:
        os.close(parent)


def take_state(state_dir: Path) -> Lock | None:
    """The lock of a workspace, None while another process holds it or where it is gone."""
    try:
        folder = os.open(state_dir, READ_DIR)
    except FileNotFoundError:
        return None
    try:
        return take_lock("lock", folder=folder)
    finally:
        os.close(folder)


def is_alive(facts: dict[str, Any]) -> bool:
    """Whether the process that these facts name as the owner still runs."""
    pid = facts.get("pid")
    if not isinstance(pid, int) or facts.get("boot") != boot_id():
        return False
    started = facts.get("started")
    return pid != os.getpid() and started is not None and started_at(pid) == started


@functools.cache
def owner_facts(pid: int) -> dict[str, Any]:
    """What tells a process from any other, for as long as it takes."""
    return {"pid": pid, "started": started_at(pid), "boot": boot_id()}


def read_facts(state_dir: Path) -> dict[str, Any]:
    """The owner, and what the section wrote down; empty where nothing was.

    Raises:
        OSError: that cannot be read.
    """
    try:
        folder = os.open(state_dir, READ_DIR)
        try:
            handle = os.open("owner.json", READ_FILE, dir_fd=folder)
        finally:
            os.close(folder)
    except FileNotFoundError:
        return {}
    with os.fdopen(handle, "rb") as file:
        data = file.read(_MOST_OWNER_BYTES)
    try:
        facts = json.loads(data)
    except ValueError:
        facts = None
    return facts if isinstance(facts, dict) else {"kept": True}  # what is in doubt is kept


def layers_of(folder: Path) -> tuple[Path, Path] | None:
    """For a workspace of this user that is an overlay: the kept copy below it, and the folder that the kernel needs.

    None for any other folder.
    """
    whole = folder.resolve()
    state_dir = state_dir_of(whole)
    try:
        is_ours = whole.name.startswith(PREFIX) and state_dir.lstat().st_uid == os.geteuid()
        below = read_facts(state_dir).get("below") if is_ours else None
    except OSError:
        return None
    return None if below is None else (Path(below), state_dir / "work")
