"""One folder of the host as the whole world: nothing outside it can be named, opened or changed.

A path is relative to the root and is resolved through open directory handles, so
that neither `..`, nor a link, nor a folder swapped for a link while a tool runs,
leads out. Links that stay inside are followed. FIFOs, sockets and devices are
recognised before they would be opened, and never are.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from toolkit._base.handles import PATH_HANDLE, READ_DIR, open_beneath
from toolkit._base.words import did_you_mean, safe_name
from toolkit.errors import TargetError, ToolError
from toolkit.tools import ToolContext

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MOST_NAMES_SHOWN = 20
_LONGEST_PATH = 4_095

_IN_WORDS = {
    errno.EXDEV: "leads out of the root of these files",
    errno.ELOOP: "is reached through links that go in circles, or is a link where none may be",
    errno.ENOTDIR: "is not a folder, or lies below something that is none",
    errno.EISDIR: "is a folder",
    errno.ENOTEMPTY: "is not empty",
    errno.EEXIST: "exists already",
    errno.EACCES: "may not be accessed: permission denied",
    errno.EPERM: "may not be changed: permission denied",
    errno.EROFS: "lies on a read-only file system",
    errno.ENOSPC: "cannot be written: the disk is full",
    errno.EDQUOT: "cannot be written: the disk quota is used up",
    errno.EFBIG: "would become larger than is allowed",
    errno.ENAMETOOLONG: "is too long a name",
    errno.ENOENT: "does not exist",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A path inside the root, without `.` and `..`; empty for the root itself."""

    path: str

    @property
    def raw(self) -> bytes:
        return os.fsencode(self.path or ".")

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)

    @property
    def parent(self) -> Place:
        return Place(posixpath.dirname(self.path))

    def child(self, name: str) -> Place:
        return Place(f"{self.path}/{name}" if self.path else name)

    def __str__(self) -> str:
        return as_path(self.path)


def as_path(path: str) -> str:
    """A path as the model reads it: on one line, nothing hidden, never shortened."""
    return safe_name(path or ".", longest=10_000)


FindRoot = Callable[[ToolContext], "Root"]
"""The root that a call works on."""


class Root:
    """The folder, held open: what was named when the server was made stays the root, whatever happens to the name."""

    def __init__(self, folder: Path, known_as: str | None = None) -> None:
        try:
            # Opened as it is named: what an overlay shows has no other name on the host.
            self.handle = os.open(Path(folder).expanduser(), PATH_HANDLE | os.O_DIRECTORY)
            real = Path(f"/proc/self/fd/{self.handle}").readlink()
        except (OSError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise TargetError(
                f"the root of the files is not a folder that can be opened: {folder}",
                target="files",
                where=[reason or type(error).__name__],
                fix="Name a folder that exists and may be entered",
                is_mistyped=True,
            ) from error
        self.real = str(real)
        named = os.path.abspath(Path(folder).expanduser())  # noqa: PTH100  keeps links
        self.names = tuple(dict.fromkeys([known_as or named, named, self.real]))
        """The absolute paths it is known by: to the agent, as it was named, and without links."""
        self.shown = known_as or self.real
        """The one it is called by in answers."""
        weakref.finalize(self, os.close, self.handle)

    def place(self, path: str) -> Place:
        """Read a path as the model wrote it; an absolute one must begin with the root's own."""
        if "\0" in path:
            raise ToolError("a path cannot hold a NUL character")
        if len(path) > _LONGEST_PATH:
            raise ToolError(f"a path of {len(path):,} characters is too long; {_LONGEST_PATH:,} is the most")
        clean = posixpath.normpath(path) if path else "."
        if clean.startswith("/"):
            clean = self._below_alias(clean, path)
        if clean == ".." or clean.startswith("../"):
            raise self._outside(path)
        try:
            os.fsencode(clean)
        except UnicodeEncodeError:
            raise ToolError(f"{as_path(path)} is not a path this system can write") from None
        return Place("" if clean == "." else clean)

    def _below_alias(self, clean: str, path: str) -> str:
        clean = "/" + clean.lstrip("/")
        for alias in self.names:
            if clean == alias or clean.startswith(alias.rstrip("/") + "/"):
                return clean[len(alias) :].lstrip("/") or "."
        raise self._outside(path)

    @staticmethod
    def _outside(path: str) -> ToolError:
        return ToolError(f"{as_path(path)} is outside these files; write paths from their root on, such as src/main.py")

    @contextlib.contextmanager
    def folder(self, place: Place, *, for_place: Place | None = None) -> Iterator[int]:
        """The folder at a place, open for reading; an error speaks of `for_place` where that is given."""
        with self.in_words(for_place or place):
            handle = open_beneath(self.handle, place.raw, FOLDER, follow_links=True)
        try:
            yield handle
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def parent(self, place: Place) -> Iterator[int]:
        """The folder that holds a place, which is not the root itself."""
        if not place.path:
            raise ToolError("this would change the root of these files itself; name something in it")
        with self.folder(place.parent, for_place=place) as handle:
            yield handle

    def stat(self, place: Place) -> os.stat_result:
        """What is at a place; a link is not followed."""
        if not place.path:
            return os.fstat(self.handle)
        with self.parent(place) as parent, self.in_words(place):
            return os.stat(os.fsencode(place.name), dir_fd=parent, follow_symlinks=False)

    def open_file(self, place: Place) -> int:
        """A regular file, open for reading; nothing else is ever opened."""
        with self.in_words(place):
            handle = open_beneath(self.handle, place.raw, PATH_HANDLE, follow_links=True)
        return self._reopened(place, handle)

    def open_entry(self, folder: int, name: str, place: Place) -> int:
        """A regular file in an open folder; a link is refused."""
        with self.in_words(place):
            handle = os.open(os.fsencode(name), PATH_HANDLE | os.O_NOFOLLOW, dir_fd=folder)
        return self._reopened(place, handle)

    def open_folder_entry(self, folder: int, name: str, place: Place) -> int:
        """A folder in an open folder; a link is refused."""
        with self.in_words(place):
            return os.open(os.fsencode(name), READ_DIR, dir_fd=folder)

    def _reopened(self, place: Place, handle: int) -> int:
        """The file behind an O_PATH handle: the very one whose kind was looked at."""
        try:
            require_regular(os.fstat(handle), place)
            with self.in_words(place):
                return os.open(f"/proc/self/fd/{handle}", _READ)
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def in_words(self, place: Place) -> Iterator[None]:
        """Turn the system's refusals into sentences a model can act on."""
        try:
            yield
        except OSError as error:
            raise self._explained(place, error) from error

    def _explained(self, place: Place, error: OSError) -> ToolError:
        if os.fstat(self.handle).st_nlink == 0:
            return ToolError("the root of these files was removed; nothing can be read or written any more")
        said = f"{place} {_IN_WORDS.get(error.errno or 0, f'cannot be used: {error.strerror}')}"
        return ToolError(said + (self._neighbours(place) if error.errno == errno.ENOENT else ""))

    def _neighbours(self, place: Place) -> str:
        """What there is where something was looked for in vain."""
        here, wanted = place.parent, place.name
        for _ in range(100):
            try:
                handle = open_beneath(self.handle, here.raw, FOLDER, follow_links=True)
            except OSError:
                if not here.path:
                    return ""
                here, wanted = here.parent, here.name
                continue
            try:
                names = sorted(os.listdir(handle))  # noqa: PTH208  by handle
            except OSError:
                return ""
            finally:
                os.close(handle)
            if wanted in names:  # a link to nowhere
                return f": {as_path(here.child(wanted).path)} is a link to nothing"
            near = did_you_mean(as_path(wanted), [as_path(name) for name in names[:2_000]])
            if "did you mean" in near:
                return f" in {here}{near}"
            more = f" and {len(names) - _MOST_NAMES_SHOWN:,} more" if len(names) > _MOST_NAMES_SHOWN else ""
            listed = ", ".join(as_path(name) for name in names[:_MOST_NAMES_SHOWN]) or "nothing"
            return f"; {here} has: {listed}{more}"
        return ""


class RootTools:
    """Tools over one root, whose results have at most about `max_chars` characters."""

    def __init__(self, find_root: FindRoot, max_chars: int) -> None:
        self._find_root = find_root
        self._room = max_chars

    def _at(self, context: ToolContext, path: str) -> tuple[Root, Place]:
        """The root of this call, and the path as a place in it."""
        root = self._find_root(context)
        return root, root.place(path)


def require_regular(st: os.stat_result, place: Place) -> None:
    """Raise unless it is a plain file."""
    if stat.S_ISREG(st.st_mode):
        return
    if stat.S_ISDIR(st.st_mode):
        raise ToolError(f"{place} is a folder; list_directory shows what is in it")
    raise ToolError(f"{place} is a {kind_of(st.st_mode)}, not a file, and is never opened")


def kind_of(mode: int) -> str:
    """What a mode stands for, in a word."""
    kinds = {
        stat.S_IFREG: "file",
        stat.S_IFDIR: "folder",
        stat.S_IFLNK: "link",
        stat.S_IFIFO: "FIFO",
        stat.S_IFSOCK: "socket",
        stat.S_IFCHR: "character device",
        stat.S_IFBLK: "block device",
    }
    return kinds.get(stat.S_IFMT(mode), "special file")
