"""What the CLI leaves behind in a workspace, and its removal."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from toolkit._base.handles import open_beneath

LITTER = ".claude/.cc-writes"
"""A folder the CLI leaves, empty, in every folder a command ran in."""


def remove_litter(workspace: Path, paths: Iterable[str] = (LITTER,)) -> None:
    """Remove the folders the CLI leaves in a workspace, as far as they are empty; links are not followed.

    `paths` are those of `LITTER` below the workspace; the `.claude` around each goes with it.
    """
    root = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path in paths:
            with contextlib.suppress(OSError):  # not there, or not empty
                for doomed in (Path(path), Path(path).parent):
                    handle = open_beneath(root, os.fsencode(doomed.parent), os.O_RDONLY | os.O_DIRECTORY)
                    try:
                        os.rmdir(doomed.name, dir_fd=handle)
                    finally:
                        os.close(handle)
    finally:
        os.close(root)
