"""Open the mounts of a section on the host, each beneath an allowed root, before anything is made."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit._base.handles import READ_DIR
from toolkit._base.words import safe_name
from toolkit.errors import WorkspaceError
from toolkit_workspace.mount import HostMount
from toolkit_workspace.record import MountRecord
from toolkit_workspace.selecting.left_behind import Notes
from toolkit_workspace.selecting.roots import AllowedRoots
from toolkit_workspace.selecting.selection import Selection
from toolkit_workspace.selecting.walk import Walk


@dataclass(slots=True)
class Source:
    """One mount, open: a folder, or the folder a single file lies in."""

    mount: HostMount
    landing: bytes
    """Relative to the workspace; empty for the workspace itself."""
    handle: int
    record: MountRecord
    is_open: bool = True

    @property
    def real_paths(self) -> tuple[bytes, ...]:
        """The absolute paths the folder is known by: its real one first."""
        written = os.fsencode(Path(os.path.abspath(self.mount.host_path)))  # noqa: PTH100 - links must stay
        return (self.record.host, written) if self.record.name is None else (self.record.host,)

    def fresh_handle(self) -> int:
        """Another handle on the folder, for a walk to close."""
        return os.open(b".", READ_DIR, dir_fd=self.handle)

    def walk(
        self,
        notes: Notes,
        roots: AllowedRoots,
        *,
        strict: bool,
        never: frozenset[tuple[int, int]] = frozenset(),
        descend: Callable[[bytes], bool] | None = None,
    ) -> Walk:
        """A walk by this mount's patterns that does not enter the folders in `never`."""
        selection = Selection(self.mount.include_glob, self.mount.exclude_glob, gitignore=self.mount.gitignore)
        follow = roots if self.mount.follow_symlinks else None
        return Walk(selection, notes, follow=follow, strict=strict, never=never, descend=descend)

    def is_selected(self, notes: Notes) -> bool:
        """Whether the patterns take a single file along."""
        name = self.record.name or b""
        selection = Selection(self.mount.include_glob, self.mount.exclude_glob)
        rule = selection.root_scope(self.handle).excluded_by(name, False)
        if rule is not None:
            notes.add(name, "excluded", str(rule))
            return False
        if not selection.says_yes(selection.included(name, False, 0)):
            notes.add(name, "not included", "include_glob")
            return False
        return True

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
                fix="Give one another mount_path.",
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
            record = MountRecord(real, landing, st.st_dev, st.st_ino)
            return Source(mount, landing, os.open(b".", READ_DIR, dir_fd=handle), record)
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
    return Source(mount, landing, parent, MountRecord(above or b"/", landing, folder.st_dev, folder.st_ino, name))
