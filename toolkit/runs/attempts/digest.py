"""One hash for what the agent made of its files, to see whether a further attempt changed anything."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection
from pathlib import Path

from toolkit._base.files import CACHES
from toolkit._base.handles import READ_DIR, walk_folders
from toolkit.runs.storage.place import Place

_MEANINGLESS = CACHES | {".git", ".cache"}
"""What looking at a project leaves in it."""


def digest_of_work(place: Place) -> str:
    """A hash of what the agent changed, without what the project's own ignore rules name, caches and git's folder.

    Raises:
        OSError: something cannot be read.
        WorkspaceError: the same, of a copy.
    """
    if place.section is None:
        return digest_of(place.folder, without=_MEANINGLESS)
    digest = hashlib.sha256()
    for change in place.section.changes():
        if not change.ignored and _MEANINGLESS.isdisjoint(Path(change.path).parts):
            digest.update(os.fsencode(f"{change.kind} {change.mode} {change.old_path} {change.path}\0"))
            if change.kind != "deleted":
                digest.update(digest_of(place.folder / change.path, without=_MEANINGLESS).encode())
    return digest.hexdigest()


def digest_of(path: Path, *, without: Collection[str] = ()) -> str:
    """One hash of a file, or of all names, contents, links and executable bits in a folder; no times, no owners.

    Raises:
        OSError: something cannot be read.
    """
    parent = os.open(path.parent, READ_DIR)
    try:
        if not stat.S_ISDIR(os.stat(path.name, dir_fd=parent, follow_symlinks=False).st_mode):
            return _one(parent, path.name)
        top = os.open(path.name, READ_DIR, dir_fd=parent)
    finally:
        os.close(parent)
    try:
        start, rows = _name(top), list[str]()
        for handle, folders, files in walk_folders(top):
            where = _name(handle).removeprefix(start)
            if any(part in without for part in where.split("/")):
                continue
            rows += [f"{where}/{name}/" for name in folders if name not in without]
            rows += [f"{where}/{name} {_one(handle, name)}" for name in files if name not in without]
    finally:
        os.close(top)
    return hashlib.sha256("\0".join(sorted(rows)).encode(errors="surrogateescape")).hexdigest()


def _name(handle: int) -> str:
    return str(Path(f"/proc/self/fd/{handle}").readlink())


def _one(folder: int, name: str) -> str:
    st = os.stat(name, dir_fd=folder, follow_symlinks=False)
    digest = hashlib.sha256(oct(stat.S_IFMT(st.st_mode) | st.st_mode & 0o111).encode())
    if stat.S_ISLNK(st.st_mode):
        digest.update(os.fsencode(os.readlink(name, dir_fd=folder)))
    elif stat.S_ISREG(st.st_mode):
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder), "rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    return digest.hexdigest()
