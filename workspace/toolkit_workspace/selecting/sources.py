"""Open the mounts of a section on the host, each beneath an allowed root, before anything is made.

The allowed roots are held open, and what lies in them is decided on the handles. A
path is walked from `/` on. Once a folder on the way is one of the roots, the rest
must stay beneath it, links included; a path that never enters a root, or leaves the
one it entered, is refused. No root allows nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from toolkit._base.handles import PATH_HANDLE, READ_DIR, open_beneath
from toolkit._base.words import safe_name
from toolkit.errors import WorkspaceError, WorkspaceSecurityError
from toolkit_workspace.mount import HostMount
from toolkit_workspace.record import MountRecord


@dataclass(frozen=True, slots=True)
class _Root:
    path: str
    handle: int
    identity: tuple[int, int]


@dataclass(slots=True)
class _Escape:
    """The root a path entered and left again, if it did."""

    root: str = ""


class _Inside(Exception):
    """A failure below a root: the caller may hear about it."""

    def __init__(self, error: OSError) -> None:
        self.error = error


class AllowedRoots:
    """The open roots of one section; a context manager that closes them."""

    def __init__(self, paths: Sequence[str | os.PathLike[str]]) -> None:
        self._roots: list[_Root] = []
        try:
            for path in paths:
                self._roots.append(_open_root(path))
        except BaseException:
            self.close()
            raise

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(root.path for root in self._roots)

    def __enter__(self) -> AllowedRoots:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for root in self._roots:
            os.close(root.handle)
        self._roots.clear()

    def open(self, path: Path | bytes, flags: int = PATH_HANDLE) -> int:
        """Open a host path that lies in a root, by default as a bare handle.

        Raises:
            WorkspaceSecurityError: no root holds it.
            OSError: a root would hold it, but it is not there or cannot be opened.
        """
        whole = os.fsencode(Path.cwd() / os.fsdecode(path))
        parts = [part for part in whole.split(b"/") if part not in (b"", b".")]
        escape = _Escape()
        here = os.open("/", PATH_HANDLE)
        try:
            for done in range(len(parts) + 1):
                found = self._enter(here, parts[done:], flags, escape)
                if found is not None:
                    return found
                if done < len(parts):
                    following = os.open(parts[done], PATH_HANDLE, dir_fd=here)
                    os.close(here)
                    here = following
        except _Inside as inside:
            raise inside.error from None
        except OSError as error:
            # Outside the roots it makes no difference whether a path exists: both are refused alike.
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP):
                raise
        finally:
            os.close(here)
        raise self._refusal(path, escape)

    def _enter(self, here: int, rest: list[bytes], flags: int, escape: _Escape) -> int | None:
        st = os.fstat(here)
        for root in self._roots:
            if root.identity == (st.st_dev, st.st_ino):
                try:
                    return open_beneath(root.handle, b"/".join(rest) or b".", flags, follow_links=True)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise _Inside(error) from error
                    escape.root = root.path
        return None

    def _refusal(self, path: Path | bytes, escape: _Escape) -> WorkspaceSecurityError:
        name = os.fsdecode(path)
        roots = self.paths
        if escape.root:
            what, rule = f"{safe_name(name)} leads out of the allowed root {safe_name(escape.root)}", "link-out"
        else:
            what, rule = f"{safe_name(name)} lies in no allowed host root", "allowed-roots"
        where = [f"allowed: {safe_name(root)}" for root in roots] or ["allowed: none (no root allows nothing)"]
        fix = "Allow the folder it lies in: --allow-root DIR, allowed_host_roots=[…]; or mount another path."
        return WorkspaceSecurityError(what, path=name, roots=roots, rule=rule, where=where, fix=fix)


def _open_root(path: str | os.PathLike[str]) -> _Root:
    text = os.path.abspath(path)  # noqa: PTH100 - the root is the user's own word; links in it are followed
    try:
        handle = os.open(text, PATH_HANDLE | os.O_DIRECTORY)
    except OSError as error:
        raise WorkspaceError(
            f"allowed host root {safe_name(text)} cannot be opened as a folder",
            where=[error.strerror or str(error)],
            fix="Allow folders that exist.",
        ) from error
    st = os.fstat(handle)
    return _Root(text, handle, (st.st_dev, st.st_ino))


@dataclass(slots=True)
class Source:
    """One mount, open: a folder, or the folder a single file lies in."""

    mount: HostMount
    handle: int
    record: MountRecord
    real_paths: tuple[bytes, ...]
    """The absolute paths the folder is known by: its real one first."""
    is_open: bool = True

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            os.close(self.handle)


def check_landings(mounts: Sequence[HostMount]) -> None:
    """Refuse mounts that would land on the same place, or one inside another."""
    landed: dict[str, HostMount] = {}
    above: dict[str, HostMount] = {}
    for mount in mounts:
        steps = ["."]
        for part in mount.landing.split("/") if mount.landing != "." else ():
            steps.append(f"{steps[-1]}/{part}")
        other = above.get(steps[-1]) or next((landed[step] for step in steps if step in landed), None)
        if other is not None:
            raise WorkspaceError(
                f"two mounts land on the same place: {safe_name(mount.landing)}",
                where=[f"{safe_name(str(m.host_path))} at {safe_name(m.landing)}" for m in (other, mount)],
                fix="Give one another place: --mount HOST:WHERE, or mount_path.",
            )
        landed[steps[-1]] = mount
        above.update(dict.fromkeys(steps, mount))


def open_sources(mounts: Sequence[HostMount], roots: AllowedRoots) -> list[Source]:
    """Open every mount, or none.

    Raises:
        WorkspaceSecurityError: a mount lies in no allowed root, or a link leads out of it.
        WorkspaceError: a mount is missing, unreadable, or neither a file nor a folder.
    """
    sources: list[Source] = []
    try:
        for mount in mounts:
            try:
                sources.append(_open_source(mount, roots))
            except OSError as error:
                raise WorkspaceError(
                    f"mount {safe_name(str(mount.host_path))} cannot be opened: {error.strerror}",
                    fix="Mount a file or folder that exists and can be read.",
                ) from error
    except BaseException:
        close_sources(sources)
        raise
    return sources


def close_sources(sources: Sequence[Source]) -> None:
    for source in sources:
        source.close()


def _open_source(mount: HostMount, roots: AllowedRoots) -> Source:
    landing = b"" if mount.landing == "." else os.fsencode(mount.landing)
    handle = roots.open(mount.host_path)
    try:
        st = os.fstat(handle)
        real = os.fsencode(Path(f"/proc/self/fd/{handle}").readlink())
        if stat.S_ISDIR(st.st_mode):
            written = os.fsencode(os.path.abspath(mount.host_path))  # noqa: PTH100 - links must stay
            record = MountRecord(real, landing, st.st_dev, st.st_ino)
            return Source(mount, os.open(b".", READ_DIR, dir_fd=handle), record, (real, written))
    finally:
        os.close(handle)
    if not stat.S_ISREG(st.st_mode):
        raise WorkspaceError(
            f"mount {safe_name(str(mount.host_path))} is neither a file nor a folder",
            fix="Only regular files and folders can be mounted.",
        )
    if not landing:
        raise WorkspaceError(
            f"mount {safe_name(str(mount.host_path))}: a single file cannot land on the workspace itself",
            fix="Leave mount_path away, or write a file name.",
        )
    above, _, name = real.rpartition(b"/")
    parent = roots.open(above or b"/", READ_DIR)
    inside = os.stat(name, dir_fd=parent, follow_symlinks=False)
    folder = os.fstat(parent)
    if (inside.st_dev, inside.st_ino) != (st.st_dev, st.st_ino):
        os.close(parent)
        raise WorkspaceError(f"mount {safe_name(str(mount.host_path))} changed while it was opened", fix="Try again.")
    record = MountRecord(above or b"/", landing, folder.st_dev, folder.st_ino, name)
    return Source(mount, parent, record, (record.host,))
