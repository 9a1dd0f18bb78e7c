"""Reach a path of a workspace that lies over a kept copy, without a mount: what was written first, then the copy.

Only for names. Whatever an agent could lead elsewhere is opened beneath a handle, by whoever opens it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from toolkit._base.handles import READ_DIR, open_folder
from toolkit._base.layered import is_opaque, is_whiteout

LinkReader = Callable[[bytes], bytes | None]
"""The target of a link at a path; None where there is none."""


def is_in(copy: Path, below: Path | None, path: str) -> bool:
    """Whether there is something at a path that nobody but us has written to yet."""
    try:
        return not is_whiteout((copy / path).lstat())
    except (FileNotFoundError, NotADirectoryError):
        return below is not None and os.path.lexists(below / path)


def links_in_both(root: int, below: Path, read: Callable[[int], LinkReader]) -> LinkReader:
    """Reads links as an agent sees them: from the open folder with what was written, else from the kept copy."""
    written = read(root)

    def read_link(path: bytes) -> bytes | None:
        if _is_decided_above(root, path):
            return written(path)
        top = os.open(below, READ_DIR)
        try:
            return read(top)(path)
        finally:
            os.close(top)

    return read_link


def _is_decided_above(root: int, path: bytes) -> bool:
    """Whether what was written says what is at a path, be it that nothing is."""
    parts = path.split(b"/")
    here = os.dup(root)
    try:
        for number, name in enumerate(parts):
            if number and is_opaque(here):
                return True
            try:
                st = os.stat(name, dir_fd=here, follow_symlinks=False)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):  # longer than any name can be
                    raise
                return False
            if number == len(parts) - 1 or is_whiteout(st):
                return True
            try:
                following = open_folder(here, name)
            except OSError:  # a link or a file on the way: nothing of the copy shows through that
                return True
            os.close(here)
            here = following
        return True
    finally:
        os.close(here)
