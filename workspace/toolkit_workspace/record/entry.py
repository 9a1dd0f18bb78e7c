"""One recorded file, folder or link, and the mount it came from, as values."""

from __future__ import annotations

import os
from dataclasses import dataclass

from toolkit_workspace.record.folder_table import Kind

NO_MOUNT = -1
"""The mount index of a folder that only leads to a mount, and of what lies outside every mount."""


@dataclass(frozen=True, slots=True)
class MountRecord:
    """Where a mount lies on the host and in the workspace, as found at preparation."""

    host: bytes
    """The absolute path of the host folder, all links resolved; of the parent folder for a single file."""
    at: bytes
    """Where it landed, relative to the workspace."""
    dev: int
    inode: int
    """The identity of `host`: a folder put in its place later is not the mount."""
    name: bytes | None = None
    """The file's name in `host` when the mount is a single file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, folder or link as it was recorded, in the workspace and on the host."""

    mount: int
    path: bytes
    kind: Kind
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    target: bytes | None
    host_path: bytes
    """Relative to the mount's host folder; empty for the mount itself."""
    host_size: int
    host_mtime_ns: int
    host_ctime_ns: int
    host_inode: int
    base: int = -1
    """Where the recorded bytes start in the base store; -1 when they were not kept."""
    host_is_base: bool = True
    """Whether the host file held the same bytes when it was recorded."""

    def is_untouched(self, st: os.stat_result) -> bool:
        """Whether a workspace file with this stat is still the recorded one."""
        return st.st_ctime_ns == self.ctime_ns and st.st_ino == self.inode

    def host_is_untouched(self, st: os.stat_result) -> bool:
        """Whether a host file with this stat is still the one that was copied."""
        return (
            st.st_ctime_ns == self.host_ctime_ns
            and st.st_ino == self.host_inode
            and st.st_size == self.host_size
            and st.st_mtime_ns == self.host_mtime_ns
        )
