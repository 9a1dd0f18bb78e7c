"""One prepared workspace: the folder the agent works in, and what is kept about it beside it.

What is kept lies in a hidden folder next to the workspace, out of the agent's sight:
the record, the base bytes, the journal of an apply, the snapshots, and whose it is.
Nothing in it is ever executed or unpickled. The owner holds a lock there as long as
it lives: the kernel drops it with the process, so a left-over shows by an unheld
lock, and the recorded pid with its start time is a second witness. What is in doubt
is kept.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import stat
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from toolkit._base.files import write_json
from toolkit._base.handles import READ_DIR, READ_FILE, remove_tree
from toolkit._base.locks import Lock, take_lock
from toolkit._base.processes import boot_id, started_at
from toolkit._base.words import safe_name
from toolkit.errors import WorkspaceError
from toolkit_workspace.record import ByteStore, MountRecord, Record, keep_bases

_PREFIX = "toolkit-workspace-"
_SUFFIX = ".state"
_MOST_OWNER_BYTES = 1_000_000

Status = Literal["in use", "kept", "left over", "unfinished"]
"""`unfinished`: an apply was interrupted, and only its journal can finish or undo it."""


class Workspace:
    """A workspace folder with its record; `create` or `adopt` one to own it, or just look at one."""

    def __init__(self, folder: Path, lock: Lock | None = None, record: Record | None = None) -> None:
        self.folder = folder
        self.state_dir = _state_dir_of(folder)
        self.store = ByteStore(self.state_dir / "bases")
        self._lock = lock
        self._record = record
        self._stop = threading.Event()
        self._keeper: threading.Thread | None = None

    @classmethod
    def create(cls, parent: Path, mounts: Sequence[MountRecord]) -> Workspace:
        """Make an empty workspace (mode 0700) below `parent`, owned and locked by this process."""
        folder = parent / (_PREFIX + secrets.token_hex(6))
        unborn = parent / f".{folder.name}.new"
        try:
            unborn.mkdir(mode=0o700)
        except OSError as error:
            raise WorkspaceError(
                f"no workspace can be made below {safe_name(str(parent))}: {error.strerror}",
                fix="Choose a folder that exists and can be written: WorkspaceSection(…, parent='…')",
            ) from error
        workspace = cls(folder, record=Record(mounts))
        try:
            # Locked before it has the name that `find_workspaces` looks for: nobody sees it without an owner.
            workspace._lock = take_lock(unborn / "lock")
            write_json(unborn / "owner.json", {"created": time.time(), **_owner(os.getpid()), "kept": False})
            unborn.rename(workspace.state_dir)
            folder.mkdir(mode=0o700)
            folder.chmod(0o700)
        except BaseException:
            _remove_pair(folder, unborn)
            workspace.remove()
            raise
        return workspace

    @classmethod
    def adopt(cls, folder: Path) -> Workspace:
        """A workspace another process prepared and kept; this process owns it now.

        Raises:
            WorkspaceError: there is none, or its owner lives.
        """
        workspace = cls(folder.resolve())
        if not (workspace.state_dir / "owner.json").is_file() or not workspace.folder.is_dir():
            raise WorkspaceError(
                f"{safe_name(str(folder))} is no prepared workspace",
                fix="See: toolkit workspace list",
            )
        workspace._lock = _take_lock(workspace.state_dir)
        if workspace._lock is None:
            raise WorkspaceError(
                f"the workspace {safe_name(str(folder))} is in use",
                where=[f"by process {workspace.read_facts().get('pid')}"],
            )
        return workspace

    @property
    def is_held(self) -> bool:
        """Whether this process owns it: no other can adopt it."""
        return self._lock is not None

    @property
    def record_file(self) -> Path:
        return self.state_dir / "record"

    @property
    def record(self) -> Record:
        """What was put there.

        Raises:
            WorkspaceError: it is missing or cannot be read.
        """
        if self._record is None:
            self._record = Record.load(self.record_file)
        return self._record

    def forget_record(self) -> None:
        """Read the record again when it is next needed: another process may have changed it."""
        self._record = None

    def save(self, *, durable: bool = False) -> None:
        """Write the record, so that another process can tell what changed."""
        self.record.save(self.record_file, durable=durable)

    def read_facts(self) -> dict[str, Any]:
        """The owner, and what the section wrote down; empty where nothing can be read."""
        return _read_facts(self.state_dir)

    def write_facts(self, **facts: Any) -> None:
        """Record the owner and these facts, all of it or nothing."""
        known = {**self.read_facts(), **_owner(os.getpid()), "kept": False, **facts}
        write_json(self.state_dir / "owner.json", known, indent=1)

    @property
    def identities(self) -> frozenset[tuple[int, int]]:
        """(st_dev, st_ino) of both folders: a mount that contains them must not copy them into themselves."""
        stats = [self.folder.lstat(), self.state_dir.lstat()]
        return frozenset((st.st_dev, st.st_ino) for st in stats)

    @property
    def has_unfinished_apply(self) -> bool:
        """Whether an apply had begun to write to the host and was neither finished nor undone."""
        return _has_unfinished_apply(self.state_dir)

    def open(self) -> int:
        """The workspace folder as a handle, for the caller to close.

        Raises:
            WorkspaceError: it is gone, or another folder is in its place.
        """
        try:
            handle = os.open(self.folder, READ_DIR)
        except OSError as error:
            raise WorkspaceError(
                "the workspace folder cannot be opened", where=[f"{self.folder}: {error.strerror}"]
            ) from error
        if os.fstat(handle).st_ino != self.record.root_stamp[1]:
            os.close(handle)
            raise WorkspaceError(
                "the workspace folder was replaced by another one",
                where=[str(self.folder)],
                fix="Its changes cannot be told apart from what was prepared: prepare a new workspace.",
            )
        return handle

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """`open` for a block."""
        handle = self.open()
        try:
            yield handle
        finally:
            os.close(handle)

    def start_keeping_bases(self) -> None:
        """Keep the bytes of small files from now on, in the background: in case the host changes them.

        The agent need not wait for it; whatever needs the bytes calls `finish_keeping_bases` first.
        """
        keeper = threading.Thread(target=self._keep_bases, name="toolkit-workspace-bases", daemon=True)
        try:
            keeper.start()
        except RuntimeError:  # there may be no thread to be had
            self._keep_bases()
        else:
            self._keeper = keeper

    def _keep_bases(self) -> None:
        # A workspace that is removed meanwhile, or a full disk: what was not kept is a conflict later, no more.
        with contextlib.suppress(OSError, WorkspaceError), self.opened() as root:
            keep_bases(self.record, self.store, root, stop=self._stop.is_set)
            if not self._stop.is_set():
                self.save()

    def finish_keeping_bases(self) -> None:
        """Wait until all bytes are kept."""
        if self._keeper is not None:
            self._keeper.join()
            self._keeper = None

    def release(self) -> None:
        """Give up the lock; the workspace stays."""
        self.finish_keeping_bases()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def remove(self) -> None:
        """Remove the folder and all that is kept about it, then give up the lock."""
        self._stop.set()  # at most the file at hand is still kept
        self.finish_keeping_bases()
        try:
            _remove_pair(self.folder, self.state_dir)
        finally:
            self.release()


@dataclass(frozen=True, slots=True)
class FoundWorkspace:
    """A workspace somebody made below a folder."""

    temp_dir: Path
    state_dir: Path
    status: Status
    pid: int
    created: float
    mounts: tuple[str, ...]


def default_parent() -> Path:
    return Path(tempfile.gettempdir())


def find_workspaces(parent: Path) -> list[FoundWorkspace]:
    """The workspaces below `parent` that belong to this user, oldest first."""
    found = []
    for state_dir in sorted(parent.glob(f".{_PREFIX}*{_SUFFIX}")):
        st = state_dir.lstat()
        if not stat.S_ISDIR(st.st_mode) or st.st_uid != os.geteuid():
            continue
        facts = _read_facts(state_dir)
        folder = parent / state_dir.name.removeprefix(".").removesuffix(_SUFFIX)
        pid = facts.get("pid")
        mounts = [str(mount.get("landing", "")) for mount in facts.get("mounts", []) if isinstance(mount, dict)]
        found.append(
            FoundWorkspace(
                folder,
                state_dir,
                _status(state_dir, facts),
                pid if isinstance(pid, int) else 0,
                float(facts.get("created") or st.st_mtime),
                tuple(mounts),
            )
        )
    return sorted(found, key=lambda one: (one.created, one.temp_dir.name))


def clean_workspaces(parent: Path, *, kept: bool = False) -> Iterator[FoundWorkspace]:
    """Remove the left-overs below `parent` and yield each; with `kept` also those that were meant to stay.

    One whose owner lives is never removed: the lock is held while it is. Nor is one with an interrupted
    apply, which could then neither be finished nor undone.
    """
    for one in find_workspaces(parent):
        if one.status in ("in use", "unfinished") or (one.status == "kept" and not kept):
            continue
        lock = _take_lock(one.state_dir)
        if lock is None:
            continue
        with lock:
            _remove_pair(one.temp_dir, one.state_dir)
        yield one
    for unborn in parent.glob(f".{_PREFIX}*.new"):  # killed within the moment before it had an owner
        with contextlib.suppress(FileNotFoundError):
            st = unborn.lstat()
            if stat.S_ISDIR(st.st_mode) and st.st_uid == os.geteuid() and st.st_mtime < time.time() - 3600:
                _remove_pair(unborn, unborn)


def _state_dir_of(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}{_SUFFIX}")


def _has_unfinished_apply(state_dir: Path) -> bool:
    return (state_dir / "apply" / "plan.json").exists()


def _remove_pair(folder: Path, state_dir: Path) -> None:
    parent = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # The workspace first: while its state is there, a rest of it can still be found.
        remove_tree(parent, folder.name)
        remove_tree(parent, state_dir.name)
    finally:
        os.close(parent)


def _take_lock(state_dir: Path) -> Lock | None:
    """The lock of a workspace, None while another process holds it or where it is gone."""
    try:
        folder = os.open(state_dir, READ_DIR)
    except FileNotFoundError:
        return None
    try:
        return take_lock("lock", folder=folder)
    finally:
        os.close(folder)


def _status(state_dir: Path, facts: dict[str, Any]) -> Status:
    lock = _take_lock(state_dir)
    if lock is None:
        return "in use"
    lock.release()
    if _has_unfinished_apply(state_dir):
        return "unfinished"
    if facts.get("kept"):
        return "kept"
    return "in use" if _is_alive(facts) else "left over"


def _is_alive(facts: dict[str, Any]) -> bool:
    pid = facts.get("pid")
    if not isinstance(pid, int) or facts.get("boot") != boot_id():
        return False
    started = facts.get("started")
    return pid != os.getpid() and started is not None and started_at(pid) == started


@functools.cache
def _owner(pid: int) -> dict[str, Any]:
    return {"pid": pid, "started": started_at(pid), "boot": boot_id()}


def _read_facts(state_dir: Path) -> dict[str, Any]:
    try:
        folder = os.open(state_dir, READ_DIR)
    except OSError:
        return {}
    try:
        handle = os.open("owner.json", READ_FILE, dir_fd=folder)
        try:
            facts = json.loads(os.read(handle, _MOST_OWNER_BYTES))
        finally:
            os.close(handle)
    except (OSError, ValueError):
        return {}
    finally:
        os.close(folder)
    return facts if isinstance(facts, dict) else {}
