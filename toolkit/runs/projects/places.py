"""The mounts of a project file and of the command together, and which folders of them are lent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from toolkit_workspace import HostMount


def with_wishes(mount: HostMount, wishes: Mapping[str, Any], *, win: bool) -> HostMount:
    """A mount with what is said for all mounts: lists are added, and of the rest `wishes` win, or fill what is open."""
    plain = {entry.name: getattr(HostMount("."), entry.name) for entry in fields(HostMount)}
    new: dict[str, Any] = {}
    for name, wish in wishes.items():
        if wish is None:
            continue
        has = getattr(mount, name)
        if isinstance(has, tuple):
            new[name] = tuple(dict.fromkeys((*has, *wish)))
        elif win or has == plain[name]:
            new[name] = wish
    return replace(mount, **new) if new else mount


def lend_to(mounts: Sequence[HostMount], folders: Iterable[str], base: Path) -> tuple[list[HostMount], list[str]]:
    """The mounts, each with the folders of it that are lent, and the folders that are in no mount.

    A folder is written relative to a mount, relative to `base`, or as a whole path.
    """
    lent: dict[int, list[str]] = {}
    lost = []
    for folder in folders:
        found = [(number, below) for number, mount in enumerate(mounts) if (below := _below(mount, folder, base))]
        lost += [] if found else [folder]
        for number, below in found:
            lent.setdefault(number, []).append(below)
    return [
        replace(mount, lend=(*mount.lend, *lent[number])) if number in lent else mount
        for number, mount in enumerate(mounts)
    ], lost


def _below(mount: HostMount, folder: str, base: Path) -> str | None:
    """What a mount calls a folder."""
    top = Path(os.path.abspath(mount.host_path))  # noqa: PTH100 - links in the path must stay
    for path in (top / folder, base / folder):
        whole = Path(os.path.normpath(path))
        for above in (top, top.resolve()):
            if whole != above and whole.is_relative_to(above) and whole.is_dir():
                return str(whole.relative_to(above))
    return None
