"""Tell which file of the kept copy a written one was: moving a file copies it, and the kernel notes of which.

For root: in the user namespace of a plain user it notes only that there was one, and nothing is told.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from toolkit._base.handles import READ_DIR, open_beneath
from toolkit._base.layered import as_origin, origin_of
from toolkit.errors import WorkspaceError


def moved_from(below: Path, gone: Iterable[bytes], come: Mapping[bytes, Callable[[], int]]) -> dict[bytes, bytes]:
    """For each new file that was one of those that are gone: its path in the kept copy. `come` opens the new ones."""
    origins = {path: origin for path, opened in come.items() if (origin := _origin(opened)) is not None}
    if not origins:
        return {}
    paths = _by_origin(below, gone)
    return {path: paths[origin] for path, origin in origins.items() if origin in paths}


def _origin(opened: Callable[[], int]) -> tuple[int, bytes] | None:
    try:
        file = opened()
    except WorkspaceError:  # whoever compares it says so
        return None
    try:
        return origin_of(file)
    finally:
        os.close(file)


def _by_origin(below: Path, gone: Iterable[bytes]) -> dict[tuple[int, bytes], bytes]:
    found: dict[tuple[int, bytes], bytes] = {}
    top = os.open(below, READ_DIR)
    try:
        for path in gone:
            parent, _, name = path.rpartition(b"/")
            try:
                folder = open_beneath(top, parent or b".", READ_DIR)
            except OSError:  # it was never in the kept copy
                continue
            try:
                origin = as_origin(folder, name)
            finally:
                os.close(folder)
            if origin is not None:
                found[origin] = path
    finally:
        os.close(top)
    return found
