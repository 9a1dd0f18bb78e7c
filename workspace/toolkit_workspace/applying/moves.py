"""Make one step on the host, forwards or backwards, unless it is made; what is not ours is not touched."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

from toolkit._base.files import write_new
from toolkit._base.handles import READ_DIR, READ_FILE
from toolkit.errors import WorkspaceConflictError, WorkspaceSecurityError
from toolkit_workspace.applying.steps import HostVersion, Step
from toolkit_workspace.record.content import ContentGone, Hosts, Node, leads_elsewhere, pieces_of
from toolkit_workspace.record.trouble import is_gone, leads_away


@dataclass(frozen=True, slots=True)
class Move:
    """A step in one direction: forwards, or backwards when it is undone.

    A file is written beside its place under a name of its own, synced and moved over; a new one is linked
    into place, so that nothing that appeared meanwhile is lost. A place that holds neither the start nor
    the goal is not touched.
    """

    step: Step
    start: HostVersion | None
    goal: HostVersion | None
    temporary: bytes

    def check(self, hosts: Hosts) -> None:
        """Look whether the move can be made, or is.

        Raises:
            WorkspaceConflictError: the place holds something else than the start or the goal.
            WorkspaceSecurityError: the mount is another folder now.
        """
        hosts.folder(self.step.mount)
        try:
            now = self._seen(hosts.look(self.step.mount, self.step.host_path))
        except ContentGone:
            raise self._met_something_else() from None
        except WorkspaceSecurityError:  # behind a link, where nothing is the mount's
            now = None
        self._is_made(now)

    def make(self, hosts: Hosts) -> None:
        """Make the move unless it was already made.

        Raises:
            WorkspaceConflictError: the place holds something else than the start or the goal.
            WorkspaceSecurityError: the way there leads through a link.
        """
        mount, host_path = self.step.mount, self.step.host_path
        try:
            folder, name = hosts.open_parent(mount, host_path)
        except OSError as error:
            if not (is_gone(error) or leads_away(error)):
                raise
            if self.goal is None:  # nothing is there, or behind a link, where nothing is the mount's
                return
            raise leads_elsewhere(hosts.mounts[mount], host_path, error) from error
        try:
            try:
                now = self._seen(hosts.look_in(folder, name, mount, host_path))
            except ContentGone:
                raise self._met_something_else() from None
            if not self._is_made(now):
                self._change(folder, name, now)
        finally:
            os.close(folder)

    def _seen(self, node: Node | None) -> HostVersion | None:
        """What is in place, as far as it has to be recognised."""
        digest = node.content.sha256() if node and node.content else ""
        return None if node is None else HostVersion(node.kind, node.mode, node.target, sha256=digest)

    def _is_made(self, now: HostVersion | None) -> bool:
        """Whether the goal is reached already; refuses a place that holds a third thing."""
        if now is None:
            # Between two kinds there is a moment with nothing in place.
            if self.goal is not None and self.start is not None and self.start.kind == self.goal.kind:
                raise self._met_something_else()
            return self.goal is None
        if now.is_like(self.goal):
            return True
        if not now.is_like(self.start):
            raise self._met_something_else()
        return False

    def _change(self, folder: int, name: bytes, now: HostVersion | None) -> None:
        goal = self.goal
        if goal is not None and now is not None and now.kind == goal.kind:
            if goal.kind == "f" and now.sha256 == goal.sha256:
                self._change_mode(folder, name, goal)
            else:
                self._replace(folder, name, goal)
            return
        if now is not None:
            self._remove(folder, name, now)
        if goal is not None:
            self._create(folder, name, goal)

    def _change_mode(self, folder: int, name: bytes, goal: HostVersion) -> None:
        """Only the mode differs: the file itself stays, unless it has other names, which are not to change with it."""
        st = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if st.st_nlink > 1:
            self._replace(folder, name, replace(goal, mtime_ns=st.st_mtime_ns))
        else:
            _set_mode(folder, name, goal.mode)

    def _replace(self, folder: int, name: bytes, goal: HostVersion) -> None:
        self._write_beside(folder, goal)
        os.rename(self.temporary, name, src_dir_fd=folder, dst_dir_fd=folder)

    def _create(self, folder: int, name: bytes, goal: HostVersion) -> None:
        if goal.kind == "d":
            os.mkdir(name, 0o700, dir_fd=folder)
            made = os.open(name, READ_DIR, dir_fd=folder)
            try:
                _dress(made, goal)
            finally:
                sync(made)
            return
        self._write_beside(folder, goal)
        try:
            os.link(self.temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            os.unlink(self.temporary, dir_fd=folder)
            raise self._met_something_else() from None
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
                raise
            os.rename(self.temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            return
        os.unlink(self.temporary, dir_fd=folder)

    def _remove(self, folder: int, name: bytes, now: HostVersion) -> None:
        if now.kind != "d":
            os.unlink(name, dir_fd=folder)
            return
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError as error:
            # Something the workspace never had lives there: the folder stays.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if self.goal is not None:
                raise self._met_something_else() from None

    def _write_beside(self, folder: int, goal: HostVersion) -> None:
        if goal.kind == "l":
            os.symlink(goal.target or b"", self.temporary, dir_fd=folder)
            if goal.owner is not None:
                with contextlib.suppress(PermissionError):
                    os.chown(self.temporary, *goal.owner, dir_fd=folder, follow_symlinks=False)
            return
        write_new(folder, self.temporary, pieces_of(goal.content), dress=partial(_dress, goal=goal), durable=True)

    def _met_something_else(self) -> WorkspaceConflictError:
        path = os.fsdecode(self.step.path)
        return WorkspaceConflictError(
            "a file on the host changed while changes were applied",
            conflicts=[(path, "changed on the host meanwhile")],
            where=[path],
            fix="Look at that file; put it back as it was, then resume or undo.",
        )


def _set_mode(folder: int, name: bytes, mode: int) -> None:
    fd = os.open(name, READ_FILE, dir_fd=folder)
    try:
        os.fchmod(fd, stat.S_IMODE(mode))
    finally:
        sync(fd)


def _dress(fd: int, goal: HostVersion) -> None:
    """Give a new file or folder its owner, as far as we may, its attributes, mode and time."""
    mode = stat.S_IMODE(goal.mode)
    if goal.owner is not None:
        try:
            os.fchown(fd, *goal.owner)
        except PermissionError:
            mode &= 0o777  # the rest was for its owner
    for name, value in goal.attributes:
        os.setxattr(fd, name, value)
    if goal.stamp is not None:
        _drop_inherited(fd, {name for name, _ in goal.attributes})
    os.fchmod(fd, mode)
    if goal.mtime_ns is not None:
        os.utime(fd, ns=(goal.mtime_ns, goal.mtime_ns))


def _drop_inherited(fd: int, own: Collection[str]) -> None:
    """Take away the access rules that came from the folder, where what stood here had none."""
    try:
        names = os.listxattr(fd)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:  # a file system without attributes
            raise
        return
    for name in names:
        if name.startswith("system.posix_acl_") and name not in own:
            os.removexattr(fd, name)


def sync(handle: int) -> None:
    """Force a file or folder to the disk, and close it."""
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
