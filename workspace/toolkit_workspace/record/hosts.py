"""The mounts' own folders on the host, opened when needed and proven to be the ones that were copied.

A folder is reached component by component through no link and must have the
identity recorded at preparation; another folder put in its place is refused.
"""

from __future__ import annotations

import os
from types import TracebackType

from toolkit._base.handles import READ_DIR, open_beneath
from toolkit.errors import WorkspaceSecurityError
from toolkit_workspace.record.record import MountRecord, Record


class Hosts:
    """Handles of the host folders of a record's mounts; close it."""

    def __init__(self, mounts: tuple[MountRecord, ...]) -> None:
        self.mounts = mounts
        self._open: dict[int, int] = {}

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def folder(self, mount: int) -> int:
        """The handle of a mount's host folder; it stays ours.

        Raises:
            WorkspaceSecurityError: the folder is gone, is reached through a link now, or is another one.
        """
        if mount not in self._open:
            self._open[mount] = _opened(self.mounts[mount])
        return self._open[mount]

    def place(self, mount: int, host_path: bytes) -> bytes:
        """Where a path relative to the mount lies below `folder(mount)`."""
        name = self.mounts[mount].name
        return host_path if name is None else name

    def stat(self, mount: int, host_path: bytes) -> os.stat_result | None:
        """The lstat of a host path, None if there is nothing.

        Raises:
            WorkspaceSecurityError: the way there leads through a link.
        """
        parent, _, name = self.place(mount, host_path).rpartition(b"/")
        try:
            folder = open_beneath(self.folder(mount), parent, READ_DIR)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise leads_elsewhere(self.mounts[mount], host_path, error) from error
        try:
            return os.stat(name or b".", dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        finally:
            os.close(folder)


def leads_elsewhere(mount: MountRecord, host_path: bytes, error: OSError) -> WorkspaceSecurityError:
    """The error for a host path that can no longer be reached without leaving the mount."""
    return WorkspaceSecurityError(
        f"cannot reach {os.fsdecode(host_path)!r} in the mount without following a link",
        where=[f"{os.fsdecode(mount.host)}: {error.strerror}"],
        fix="Put the folder back, or choose other changes: paths=[…], --path",
    )


def host_path_of(record: Record, mount: int, path: bytes) -> bytes:
    """Where a workspace path belongs in its mount: where it came from, or where its name puts it."""
    row = record.get(path)
    return row.host_path if row is not None and row.mount == mount else record.mounts[mount].usual_host_path(path)


def mount_of(mounts: tuple[MountRecord, ...], path: bytes) -> int | None:
    """The mount a workspace path lies in: the innermost one, None outside all of them."""
    best: int | None = None
    for index, mount in enumerate(mounts):
        inside = path == mount.at or not mount.at or (mount.name is None and path.startswith(mount.at + b"/"))
        if inside and (best is None or len(mount.at) > len(mounts[best].at)):
            best = index
    return best


def _opened(mount: MountRecord) -> int:
    root = os.open("/", READ_DIR)
    try:
        fd = open_beneath(root, mount.host.strip(b"/") or b".", READ_DIR)
    except OSError as error:
        raise leads_elsewhere(mount, b"", error) from error
    finally:
        os.close(root)
    st = os.fstat(fd)
    if (st.st_dev, st.st_ino) != (mount.dev, mount.inode):
        os.close(fd)
        raise WorkspaceSecurityError(
            "the mount's folder was replaced by another one since the workspace was prepared",
            where=[os.fsdecode(mount.host)],
            fix="Prepare a new workspace, or apply changes().patch() by hand.",
        )
    return fd
