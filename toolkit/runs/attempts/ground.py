"""The folder of a trial: laid over the agent's files where the machine can do that, else a copy of them.

Either way nothing that is written in it reaches the agent's files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolkit._base.handles import READ_DIR, open_beneath, remove_folder, walk_folders
from toolkit._base.layered import make_above, make_opaque, odd_path, why_no_layers
from toolkit.runs.attempts.protect import Protected
from toolkit.runs.storage.place import Place


@dataclass(slots=True)
class Ground:
    """A folder to try the agent's files in."""

    folder: Path
    below: tuple[Path, ...] = ()
    """What shows through it; nothing where it is a copy."""
    work: Path = field(init=False)

    def __post_init__(self) -> None:
        self.work = self.folder.with_name(f"{self.folder.name}.work")

    def remove(self) -> None:
        """Nobody needs it any more."""
        for folder in (self.folder, self.work):
            if folder.exists():
                remove_folder(folder)


def make_ground(ground: Ground, place: Place, protected: Protected, *, needs_all: bool) -> None:
    """Make the folder of a trial, with what is protected as it was; with `needs_all` all files are in it.

    Raises:
        OSError: something cannot be read or written.
    """
    ground.folder.mkdir(mode=0o700)
    lower = (place.folder, *place.layout.below)
    if needs_all or any(map(odd_path, (ground.folder, *lower))) or why_no_layers(ground.folder.parent) is not None:
        _copy(place, ground.folder)
    else:
        ground.below = lower
        ground.work.mkdir(mode=0o700)
        _make_room(ground, [part for part, _ in place.parts], protected)
    protected.put_back(ground.folder)
    if ground.below:
        _hide_below(ground.folder, protected)


def _copy(place: Place, target: Path) -> None:
    from toolkit_workspace.overlay import copy_tree, copy_whole

    if place.layout.below:
        copy_whole(place.layout.below[0], place.folder, target)
    else:
        copy_tree(place.folder, target)


def _make_room(ground: Ground, parts: Sequence[str], protected: Protected) -> None:
    """Make the folders that a jail shows, and those above what is protected, as they are below."""
    root = os.open(ground.folder, READ_DIR)
    try:
        for path in (*parts, *(path.rpartition("/")[0] for path in protected.paths)):
            os.close(make_above(root, ground.below, os.fsencode(path)))
    finally:
        os.close(root)


def _hide_below(folder: Path, protected: Protected) -> None:
    """Nothing that an agent put into a protected folder may show through it."""
    root = os.open(folder, READ_DIR)
    try:
        for path in protected.paths:
            try:
                top = open_beneath(root, os.fsencode(path), READ_DIR)
            except NotADirectoryError:
                continue
            try:
                for handle, _, _ in walk_folders(top):
                    make_opaque(handle)
            finally:
                os.close(top)
    finally:
        os.close(root)
