"""Read a git folder of the host that may have been made to mislead.

What is read is a regular file of that folder, reached without a link, and no more than
a bound of it. Through a link any file of the host could get into a copy, and a FIFO
could keep us waiting for ever.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Self

from toolkit._base.handles import PATH_HANDLE, READ_DIR, READ_FILE, open_beneath
from toolkit.errors import WorkspaceError, WorkspaceSecurityError

# Without O_NOFOLLOW, which has the kernel say "not a folder" of a link: links are refused all the same.
_READ_DIR = READ_DIR & ~os.O_NOFOLLOW
_WITHOUT_GIT = "copy without git: --git none, HostMount(…, git='none')"


class GitFolder:
    """A git folder held open, from its real path; close it, or use it in a `with`."""

    __slots__ = ("_handle", "path")

    def __init__(self, path: Path) -> None:
        """Open it.

        Raises:
            WorkspaceSecurityError: a link is on the way.
            WorkspaceError: it cannot be opened.
        """
        self.path = path
        root = os.open("/", PATH_HANDLE)
        try:
            self._handle = open_beneath(root, os.fsencode(path).lstrip(b"/"), _READ_DIR)
        except OSError as error:
            raise self._refusal("", error) from error
        finally:
            os.close(root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def open(self, name: str) -> BinaryIO | None:
        """A regular file of the folder, open for reading; None where there is nothing.

        Raises:
            WorkspaceSecurityError: it is, or lies behind, a link, or is no regular file.
            WorkspaceError: it cannot be opened.
        """
        try:
            handle = open_beneath(self._handle, os.fsencode(name), READ_FILE)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._refusal(name, error) from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise refused(f"{str(self.path / name)!r} is no regular file", self.path / name)
        return os.fdopen(handle, "rb")

    def read(self, name: str, most: int) -> bytes | None:
        """The bytes of a regular file; None where there is nothing.

        Raises:
            WorkspaceSecurityError: as for `open`.
            WorkspaceError: it cannot be read, or holds more than `most` bytes.
        """
        file = self.open(name)
        if file is None:
            return None
        with file:
            data = file.read(most + 1) if os.fstat(file.fileno()).st_size <= most else None
        if data is None or len(data) > most:
            raise too_large(self.path / name, most)
        return data

    def line(self, name: str) -> str | None:
        """The text of a file that holds one short line, without its end; None where there is nothing."""
        data = self.read(name, 65_536)
        if data is None:
            return None
        if b"\0" in data:
            raise refused(f"{str(self.path / name)!r} holds no path", self.path / name)
        return os.fsdecode(data.rstrip(b"\n"))

    def is_special(self, name: str) -> bool:
        """Whether something is there that is neither a regular file nor a link."""
        try:
            mode = os.lstat(self.path / name).st_mode
        except OSError:
            return False
        return not (stat.S_ISREG(mode) or stat.S_ISLNK(mode))

    def names(self, name: str) -> tuple[list[str], list[str]]:
        """The folders in a folder, and all else in it; nothing where there is none.

        Raises:
            WorkspaceSecurityError: it is, or lies behind, a link.
            WorkspaceError: it cannot be listed.
        """
        try:
            handle = open_beneath(self._handle, os.fsencode(name), _READ_DIR)
        except (FileNotFoundError, NotADirectoryError):
            return [], []
        except OSError as error:
            raise self._refusal(name, error) from error
        try:
            with os.scandir(handle) as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        finally:
            os.close(handle)
        return sorted(one for one, is_dir in found if is_dir), sorted(one for one, is_dir in found if not is_dir)

    def _refusal(self, name: str, error: OSError) -> WorkspaceError:
        at = self.path / name
        if error.errno == errno.ELOOP:
            link = next((one for one in (*reversed(at.parents), at) if one.is_symlink()), at)
            return refused(f"the link {str(link)!r} is not followed: a git folder must hold its own files", link)
        if error.errno == errno.ENXIO:
            return refused(f"{str(at)!r} is no regular file", at)
        return WorkspaceError(
            f"{str(at)!r} cannot be read: {error.strerror}", fix=f"Make it readable, or {_WITHOUT_GIT}"
        )


def refused(what: str, path: Path) -> WorkspaceSecurityError:
    """What a git folder has that no copy is made of."""
    return WorkspaceSecurityError(
        what, path=str(path), rule="git-dir", fix=f"Put things right there, or {_WITHOUT_GIT}"
    )


def too_large(path: Path, most: int) -> WorkspaceError:
    """A file or folder of a git folder that is too large to be true."""
    return WorkspaceError(
        f"{str(path)!r} holds more than {most:,} bytes",
        fix=f"Look at the repository with: git fsck. Or {_WITHOUT_GIT}",
    )
