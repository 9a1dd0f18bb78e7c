"""Take one host path from one state to another, atomically, or find that it is already there.

A file is written beside its place under a name of its own, synced and moved over;
a new one is linked into place, so that nothing that appeared meanwhile is lost.
A place that holds neither the old nor the new state is not touched.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass

from toolkit._base.handles import CREATE_FILE, READ_DIR, READ_FILE, open_beneath
from toolkit.errors import WorkspaceConflictError, WorkspaceSecurityError
from toolkit_workspace.applying.host_state import HostState, Seen, look
from toolkit_workspace.record.content import Content, ContentGone
from toolkit_workspace.record.hosts import Hosts, leads_elsewhere


@dataclass(frozen=True, slots=True)
class Step:
    """One host path and what it is to become; None stands for nothing there."""

    mount: int
    host_path: bytes
    path: bytes
    """The same place in the workspace, for messages."""
    old: HostState | None
    new: HostState | None


@dataclass(frozen=True, slots=True)
class Move:
    """A step in one direction: forwards, or backwards when it is undone."""

    step: Step
    start: HostState | None
    goal: HostState | None
    bytes_of_goal: Content | None
    """The bytes of a goal that is a file."""
    temporary: bytes
    """The name to use beside the place until it is moved over."""


def make(move: Move, hosts: Hosts) -> None:
    """Make the move unless it was already made.

    Raises:
        WorkspaceConflictError: the place holds something else than the start or the goal.
        WorkspaceSecurityError: the way there leads through a link.
    """
    step = move.step
    place = hosts.place(step.mount, step.host_path)
    parent, _, name = place.rpartition(b"/")
    if move.goal is None and not _is_there(step, hosts):
        return
    try:
        folder = open_beneath(hosts.folder(step.mount), parent, READ_DIR)
    except OSError as error:
        raise leads_elsewhere(hosts.mounts[step.mount], step.host_path, error) from error
    try:
        try:
            seen = look(hosts, step.mount, step.host_path)
        except ContentGone:
            raise _met_something_else(move) from None
        if _is_made(move, seen):
            return
        _Maker(move, folder, name).make(seen.state if seen else None)
    finally:
        os.close(folder)


def _is_there(step: Step, hosts: Hosts) -> bool:
    try:
        return hosts.stat(step.mount, step.host_path) is not None
    except WorkspaceSecurityError:  # behind a link there is nothing of the mount
        return False


def _is_made(move: Move, seen: Seen | None) -> bool:
    """Whether the goal is reached already; refuses a place that holds a third thing."""
    try:
        now = seen.with_digest() if seen else None
    except ContentGone:
        raise _met_something_else(move) from None
    if now is None:
        if move.goal is None:
            return True
        # Between two kinds there is a moment with nothing in place.
        if move.start is None or move.start.kind != move.goal.kind:
            return False
        raise _met_something_else(move)
    if now.is_like(move.goal):
        return True
    if not now.is_like(move.start):
        raise _met_something_else(move)
    return False


def _met_something_else(move: Move) -> WorkspaceConflictError:
    path = os.fsdecode(move.step.path)
    return WorkspaceConflictError(
        "a file on the host changed while changes were applied",
        conflicts=[(path, "changed on the host meanwhile")],
        where=[path],
        fix="Look at that file; put it back as it was, then resume or undo.",
    )


class _Maker:
    """Makes one move in an open folder."""

    def __init__(self, move: Move, folder: int, name: bytes) -> None:
        self.move, self.folder, self.name = move, folder, name

    def make(self, now: HostState | None) -> None:
        goal = self.move.goal
        if goal is not None and now is not None and now.kind == goal.kind:
            self._replace(goal, is_same=self._has_bytes_of(goal))
            return
        if now is not None:
            self._remove(now)
        if goal is not None:
            self._create(goal)

    def _has_bytes_of(self, goal: HostState) -> bool:
        return self.move.start is not None and goal.kind == "f" and self.move.start.sha256 == goal.sha256

    def _replace(self, goal: HostState, *, is_same: bool) -> None:
        if is_same:  # only the mode differs: the file itself stays
            fd = os.open(self.name, READ_FILE, dir_fd=self.folder)
            try:
                os.fchmod(fd, goal.mode & 0o777)
                os.fsync(fd)
            finally:
                os.close(fd)
            return
        self._write_temporary(goal)
        os.rename(self.move.temporary, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def _create(self, goal: HostState) -> None:
        if goal.kind == "d":
            os.mkdir(self.name, 0o700, dir_fd=self.folder)
            self._finish_folder(goal)
            return
        self._write_temporary(goal)
        try:
            os.link(
                self.move.temporary, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder, follow_symlinks=False
            )
        except FileExistsError:
            os.unlink(self.move.temporary, dir_fd=self.folder)
            raise _met_something_else(self.move) from None
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
                raise
            os.rename(self.move.temporary, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
            return
        os.unlink(self.move.temporary, dir_fd=self.folder)

    def _remove(self, now: HostState) -> None:
        if now.kind != "d":
            os.unlink(self.name, dir_fd=self.folder)
            return
        try:
            os.rmdir(self.name, dir_fd=self.folder)
        except OSError as error:
            # Something the workspace never had lives there: the folder stays.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if self.move.goal is not None:
                raise _met_something_else(self.move) from None

    def _write_temporary(self, goal: HostState) -> None:
        if goal.kind == "l":
            os.symlink(goal.target or b"", self.move.temporary, dir_fd=self.folder)
            if goal.owner is not None:
                with contextlib.suppress(PermissionError):
                    os.chown(self.move.temporary, *goal.owner, dir_fd=self.folder, follow_symlinks=False)
            return
        fd = os.open(self.move.temporary, CREATE_FILE, 0o600, dir_fd=self.folder)
        try:
            for piece in self.move.bytes_of_goal.chunks() if self.move.bytes_of_goal else ():
                view = memoryview(piece)
                while view:
                    view = view[os.write(fd, view) :]
            _dress(fd, goal)
            if goal.mtime_ns is not None:
                os.utime(fd, ns=(goal.mtime_ns, goal.mtime_ns))
            os.fsync(fd)
        finally:
            os.close(fd)

    def _finish_folder(self, goal: HostState) -> None:
        fd = os.open(self.name, READ_DIR, dir_fd=self.folder)
        try:
            _dress(fd, goal)
            os.fsync(fd)
        finally:
            os.close(fd)


def _dress(fd: int, goal: HostState) -> None:
    """Give a new file its owner, attributes and mode, as far as we may."""
    if goal.owner is not None:
        with contextlib.suppress(PermissionError):
            os.fchown(fd, *goal.owner)
    for name, value in goal.attributes:
        with contextlib.suppress(OSError):
            os.setxattr(fd, name, value)
    os.fchmod(fd, goal.mode & 0o777)
