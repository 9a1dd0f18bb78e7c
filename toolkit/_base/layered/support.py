"""Whether this machine can lay folders over one another, by trying it once on each file system."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from toolkit._base.handles import READ_DIR, remove_folder
from toolkit._base.layered.mounting import Layers, mount_layers
from toolkit._base.layered.upper import is_opaque, is_whiteout
from toolkit._base.unborn import unborn_name

_ODD = frozenset(",:\\\"'\n")
"""Signs that mean something else in a mount's options."""
_SOMEBODY = 1_879_048_192


def why_no_layers(folder: Path) -> str | None:
    """Why nothing can be laid over another folder on the file system of this one; None where it can.

    It is tried in the folder itself, and nothing of that is left.
    """
    if (odd := odd_path(folder)) is not None:
        return odd
    try:
        return _tried(folder.stat().st_dev, os.geteuid(), str(folder))
    except OSError as error:
        return f"{folder}: {error.strerror or error}"


def odd_path(folder: Path) -> str | None:
    """Why a path cannot be named in a mount; None where it can."""
    found = sorted(_ODD.intersection(str(folder)))
    return f"the path {str(folder)!r} has a {found[0]!r} in it" if found else None


@functools.cache
def _tried(device: int, user: int, folder: str) -> str | None:
    top = Path(folder) / unborn_name(f"layers-{os.urandom(4).hex()}")  # whoever cleans up knows what a kill left
    try:
        top.mkdir(mode=0o700)
        try:
            return _works(top)
        finally:
            remove_folder(top)
    except OSError as error:
        return f"an overlay cannot be mounted here: {error.strerror or error}"


def _works(top: Path) -> str | None:
    for name in ("below/folder", "above", "work", "points"):
        (top / name).mkdir(parents=True)
    (top / "below" / "file").write_bytes(b"below")
    (top / "below" / "folder" / "inner").touch()
    layers = Layers(top / "above", top / "work", (top / "below",))
    with mount_layers(layers, shown_as=_SOMEBODY, points=top / "points") as mounted:
        whole = mounted.whole
        os.unlink("folder/inner", dir_fd=whole)
        os.rmdir("folder", dir_fd=whole)
        os.mkdir("folder", 0o755, dir_fd=whole)
        os.unlink("file", dir_fd=whole)
    folder = os.open(top / "above" / "folder", READ_DIR)
    try:
        is_hidden = is_opaque(folder)
    finally:
        os.close(folder)
    if not is_hidden or not is_whiteout((top / "above" / "file").lstat()):
        return "an overlay on this file system does not mark what was removed"
    kept = (top / "below" / "file").read_bytes() == b"below" and (top / "below" / "folder" / "inner").exists()
    return None if kept else "an overlay on this file system writes to the folder below"
