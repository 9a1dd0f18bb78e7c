"""Say in words what the file system refused, and tell "it is gone" from "it could not be looked at".

What is gone is a fact one may decide by. What could not be looked at (an I/O error, no
free handle, a closed folder) is an error that names it: nothing is decided from it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolkit._base.files import is_full, room_in
from toolkit._base.words import safe_name, size_text
from toolkit.errors import WorkspaceError

_NO_HANDLE = (errno.EMFILE, errno.ENFILE)


class Unreadable(WorkspaceError):
    """Something that is there, or may be, could not be looked at."""


def is_gone(error: OSError) -> bool:
    """Whether an error says that there is no such path."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR)


def leads_away(error: OSError) -> bool:
    """Whether an error says that the way leads through a link, or out."""
    return error.errno in (errno.ELOOP, errno.EXDEV)


def unreadable(path: bytes | str, error: OSError, below: bytes | str = "") -> Unreadable:
    """The error for a path, maybe one below a folder, that could not be looked at."""
    whole = "/".join(os.fsdecode(part) for part in (below, path) if part)
    return Unreadable(
        f"something cannot be read: {error.strerror or error}",
        where=[safe_name(whole)],
        fix=_fix(error) or "What cannot be read cannot be compared or applied: make it readable and try again.",
    )


@contextmanager
def in_words(what: str, *, at: Path | None = None, fix: str = "", needs: int | None = None) -> Iterator[None]:
    """Let no OSError out of a block but as a WorkspaceError that says what could not be done."""
    try:
        yield
    except OSError as error:
        raise in_words_of(error, what, at=at, fix=fix, needs=needs) from error


def in_words_of(
    error: OSError, what: str, *, at: Path | None = None, fix: str = "", needs: int | None = None
) -> WorkspaceError:
    """What could not be done, where, why, and what to do; on a full disk also how much room there is.

    `at` is the folder it was done in and `needs` how many bytes it takes, where that is known.
    """
    names = [name for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    where = [safe_name(name) for name in names] or ([safe_name(str(at))] if at is not None else [])
    if is_full(error) and at is not None:
        where.append(room_in(at) + ("" if needs is None else f", {size_text(needs)} are needed"))
    fixes = [one for one in (_fix(error), fix) if one]
    return WorkspaceError(f"{what}: {error.strerror or error}", where=where, fix=" ".join(fixes))


def told(error: BaseException) -> str:
    """An error in one line, without its number."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    place = safe_name(error.filename) if isinstance(error.filename, str | bytes) else ""
    return f"{place}: {error.strerror}" if place else error.strerror


def _fix(error: OSError) -> str:
    if is_full(error):
        return "Make room there."
    if error.errno in _NO_HANDLE:
        return "No file handle is free: raise the limit (ulimit -n)."
    return ""
