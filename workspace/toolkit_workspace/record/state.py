"""Keep what a workspace needs beside it, and know whose it is.

A workspace is a folder with our prefix; its state is a hidden folder next to it, out
of the agent's sight. The owner holds a lock on the state as long as it lives: the
kernel drops it with the process, so a left-over shows by an unheld lock, and the
recorded pid with its start time is a second witness. What is in doubt is kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from toolkit._base.handles import READ_DIR, READ_FILE, open_beneath, remove_tree
from toolkit._base.processes import boot_id, started_at
from toolkit._base.words import safe_name
from toolkit.errors import WorkspaceError

PREFIX = "toolkit-workspace-"
_SUFFIX = ".state"
_MOST_OWNER_BYTES = 1_000_000

Status = Literal["in use", "kept", "left over", "unfinished"]
"""`unfinished`: an apply was interrupted, and only its state can finish or undo it."""


@dataclass(slots=True)
class State:
    """The state folder of a workspace this process made or opened."""

    temp_dir: Path
    state_dir: Path
    lock: int
    """The held lock, -1 once it was given up."""

    def write(self, facts: dict[str, Any]) -> None:
        """Record the owner and what was prepared, all of it or nothing."""
        record = {"created": time.time(), **self.read(), **_owner(), "kept": False, **facts}
        temporary = self.state_dir / "owner.json.new"
        temporary.write_text(json.dumps(record, indent=1), encoding="utf-8")
        temporary.replace(self.state_dir / "owner.json")

    def read(self) -> dict[str, Any]:
        return _read_owner(self.state_dir)

    def identities(self) -> frozenset[tuple[int, int]]:
        """(st_dev, st_ino) of both folders: a mount that contains them must not copy them into themselves."""
        stats = [self.temp_dir.lstat(), self.state_dir.lstat()]
        return frozenset((st.st_dev, st.st_ino) for st in stats)

    def release(self) -> None:
        """Give up the lock; the workspace stays."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1

    def remove(self) -> None:
        """Remove the workspace and its state."""
        _remove_pair(self.temp_dir, self.state_dir)
        self.release()


@dataclass(frozen=True, slots=True)
class Found:
    """A workspace somebody made below a folder."""

    temp_dir: Path
    state_dir: Path
    status: Status
    pid: int
    created: float
    mounts: tuple[str, ...]


def default_parent() -> Path:
    return Path(tempfile.gettempdir())


def state_dir_of(temp_dir: Path) -> Path:
    return temp_dir.with_name(f".{temp_dir.name}{_SUFFIX}")


def create(parent: Path) -> State:
    """Make a workspace folder (mode 0700) and its state below `parent`, owned and locked by this process."""
    name = PREFIX + secrets.token_hex(6)
    temp_dir = parent / name
    state_dir = state_dir_of(temp_dir)
    unborn = parent / f".{name}.new"
    try:
        unborn.mkdir(mode=0o700)
    except OSError as error:
        raise WorkspaceError(
            f"no workspace can be made below {safe_name(str(parent))}: {error.strerror}",
            fix="Choose a folder that exists and can be written: WorkspaceSection(…, parent='…')",
        ) from error
    # Locked before it has the name that `find` looks for: nobody sees it without an owner.
    lock = os.open(unborn / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = State(temp_dir, state_dir, lock)
        State(temp_dir, unborn, -1).write({})
        unborn.rename(state_dir)
        temp_dir.mkdir(mode=0o700)
        temp_dir.chmod(0o700)
    except BaseException:
        _remove_pair(temp_dir, state_dir)
        _remove_pair(temp_dir, unborn)
        os.close(lock)
        raise
    return state


def adopt(temp_dir: Path) -> State:
    """The state of a workspace another process prepared and kept; this process owns it now.

    Raises:
        WorkspaceError: there is none, or its owner lives.
    """
    whole = temp_dir.resolve()
    state_dir = state_dir_of(whole)
    if not (state_dir / "owner.json").is_file() or not whole.is_dir():
        raise WorkspaceError(
            f"{safe_name(str(temp_dir))} is no prepared workspace",
            fix="See: toolkit workspace list",
        )
    lock = _take_lock(state_dir)
    if lock is None:
        raise WorkspaceError(
            f"the workspace {safe_name(str(temp_dir))} is in use",
            where=[f"by process {_read_owner(state_dir).get('pid')}"],
        )
    return State(whole, state_dir, lock)


def find(parent: Path) -> list[Found]:
    """The workspaces below `parent` that belong to this user, oldest first."""
    found = []
    for state_dir in sorted(parent.glob(f".{PREFIX}*{_SUFFIX}")):
        st = state_dir.lstat()
        if not stat.S_ISDIR(st.st_mode) or st.st_uid != os.geteuid():
            continue
        owner = _read_owner(state_dir)
        temp_dir = parent / state_dir.name.removeprefix(".").removesuffix(_SUFFIX)
        pid = owner.get("pid")
        mounts = [str(mount.get("landing", "")) for mount in owner.get("mounts", []) if isinstance(mount, dict)]
        found.append(
            Found(
                temp_dir,
                state_dir,
                _status(state_dir, owner),
                pid if isinstance(pid, int) else 0,
                float(owner.get("created") or st.st_mtime),
                tuple(mounts),
            )
        )
    return sorted(found, key=lambda one: (one.created, one.temp_dir.name))


def clean(parent: Path, *, kept: bool = False) -> Iterator[Found]:
    """Remove the left-overs below `parent` and yield each; with `kept` also those that were meant to stay.

    One whose owner lives is never removed: the lock is held while it is. Nor is one with an interrupted
    apply, which could then neither be finished nor undone.
    """
    for one in find(parent):
        if one.status in ("in use", "unfinished") or (one.status == "kept" and not kept):
            continue
        lock = _take_lock(one.state_dir)
        if lock is None:
            continue
        try:
            _remove_pair(one.temp_dir, one.state_dir)
        finally:
            os.close(lock)
        yield one
    for unborn in parent.glob(f".{PREFIX}*.new"):  # killed within the moment before it had an owner
        with contextlib.suppress(FileNotFoundError):
            st = unborn.lstat()
            if stat.S_ISDIR(st.st_mode) and st.st_uid == os.geteuid() and st.st_mtime < time.time() - 3600:
                _remove_pair(unborn, unborn)


def has_unfinished_apply(state_dir: Path) -> bool:
    """Whether an apply had begun to write to the host and was neither finished nor undone."""
    return (state_dir / "apply" / "plan.json").exists()


def _remove_pair(temp_dir: Path, state_dir: Path) -> None:
    parent = os.open(temp_dir.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # The workspace first: while the state is there, a rest of it can still be found.
        remove_tree(parent, temp_dir.name)
        remove_tree(parent, state_dir.name)
    finally:
        os.close(parent)


def _take_lock(state_dir: Path) -> int | None:
    """The lock of a state folder, None while another process holds it."""
    try:
        folder = os.open(state_dir, READ_DIR)
    except FileNotFoundError:
        return None
    try:
        lock = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _status(state_dir: Path, owner: dict[str, Any]) -> Status:
    lock = _take_lock(state_dir)
    if lock is None:
        return "in use"
    os.close(lock)
    if has_unfinished_apply(state_dir):
        return "unfinished"
    if owner.get("kept"):
        return "kept"
    return "in use" if _is_alive(owner) else "left over"


def _is_alive(owner: dict[str, Any]) -> bool:
    pid = owner.get("pid")
    if not isinstance(pid, int) or owner.get("boot") != boot_id():
        return False
    started = owner.get("started")
    return pid != os.getpid() and started is not None and started_at(pid) == started


def _owner() -> dict[str, Any]:
    pid = os.getpid()
    return {"pid": pid, "started": started_at(pid), "boot": boot_id()}


def _read_owner(state_dir: Path) -> dict[str, Any]:
    """The owner's record; empty where there is none to be read."""
    try:
        folder = os.open(state_dir, READ_DIR)
    except OSError:
        return {}
    try:
        handle = open_beneath(folder, b"owner.json", READ_FILE)
        try:
            record = json.loads(os.read(handle, _MOST_OWNER_BYTES))
        finally:
            os.close(handle)
    except (OSError, ValueError):
        return {}
    finally:
        os.close(folder)
    return record if isinstance(record, dict) else {}
