"""Decide whether a symbolic link stays inside its mount, and how it is written there.

A link is judged by where the copy of it would lead, never by what a string looks
like: `..` after a name can climb through another link, so such targets are resolved
by the kernel beneath the mount.
"""

from __future__ import annotations

import os

from toolkit._base.handles import PATH_HANDLE, open_beneath


def placed_target(target: bytes, folder: bytes, root: int, real_paths: tuple[bytes, ...]) -> bytes | None:
    """What a link in `folder` (relative to the mount) has to say in the copy; None if it leads out.

    `root` is the mount's open folder and `real_paths` the absolute paths it is known by.
    """
    if target.startswith(b"/"):
        return _relative_to_mount(target, folder, real_paths)
    depth = folder.count(b"/") + 1 if folder else 0
    climbs = named = 0
    for part in target.split(b"/"):
        if part in (b"", b"."):
            continue
        if part != b"..":
            named += 1
        elif named:
            return target if _resolves_beneath(root, folder, target) else None
        else:
            climbs += 1
            if climbs > depth:
                return None
    return target


def _relative_to_mount(target: bytes, folder: bytes, real_paths: tuple[bytes, ...]) -> bytes | None:
    parts = [part for part in target.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        return None
    for real in real_paths:
        above = [part for part in real.split(b"/") if part]
        if parts[: len(above)] == above:
            climb = [b".."] * (folder.count(b"/") + 1 if folder else 0)
            return b"/".join([*climb, *parts[len(above) :]]) or b"."
    return None


def _resolves_beneath(root: int, folder: bytes, target: bytes) -> bool:
    try:
        handle = open_beneath(root, folder + b"/" + target if folder else target, PATH_HANDLE, follow_links=True)
    except OSError:
        return False
    os.close(handle)
    return True
