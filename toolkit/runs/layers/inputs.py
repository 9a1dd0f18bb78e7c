"""The files a setup depends on: those that were named, or the lock files and manifests that projects usually have.

They are read on the host, beneath their mounts; a link that leads out of one is not followed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolkit._base.handles import READ_FILE, open_beneath
from toolkit._base.words import safe_name
from toolkit.runs.kinds import OptionError
from toolkit_workspace import HostMount

_USUAL = """
uv.lock poetry.lock pdm.lock Pipfile.lock Pipfile pylock.toml pyproject.toml setup.py setup.cfg environment.yml
.python-version package.json package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml pnpm-workspace.yaml
bun.lock bun.lockb .npmrc .yarnrc.yml .nvmrc .node-version Cargo.toml Cargo.lock rust-toolchain.toml go.mod go.sum
go.work go.work.sum Gemfile Gemfile.lock composer.json composer.lock mix.exs mix.lock flake.lock
"""
USUAL = frozenset(_USUAL.split())
_PASSED_OVER = frozenset({"node_modules", "vendor", "target", "build", "dist", "__pycache__"})
_DEPTH = 2
"""Folders below a mount that are looked into for usual files."""
_MOST_FOLDERS = 400
_CHUNK = 1 << 20

Inputs = tuple[tuple[str, str], ...]
"""Files, as places relative to the workspace, each with the digest of its bytes."""


def find_inputs(mounts: Sequence[HostMount], keyed_by: Sequence[str]) -> Inputs:
    """The files a setup depends on, each once and sorted; none where no usual one is there.

    Raises:
        OptionError: a file that was named is in no mount.
    """
    found: dict[str, str] = {}
    for written in keyed_by:
        found |= _named(mounts, written)
    if not keyed_by:
        for mount in mounts:
            for path in _usual(Path(mount.host_path)):
                digest = digest_beneath(Path(mount.host_path), path)
                found |= {} if digest is None else {_place(mount, path): digest}
    return tuple(sorted(found.items()))


def digest_beneath(top: Path, path: str) -> str | None:
    """The digest of a file below a folder; None where there is no such file, or it leads out."""
    try:
        root = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        handle = open_beneath(root, os.fsencode(path), READ_FILE & ~os.O_NOFOLLOW, follow_links=True)
    except OSError:
        return None
    finally:
        os.close(root)
    digest = hashlib.sha256()
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        while piece := os.read(handle, _CHUNK):
            digest.update(piece)
    finally:
        os.close(handle)
    return digest.hexdigest()


def _named(mounts: Sequence[HostMount], written: str) -> dict[str, str]:
    """A file that was named relative to a mount, to the current folder, or by its whole path."""
    found: dict[str, str] = {}
    for mount in mounts:
        top = Path(mount.host_path).resolve()
        for path in (top / written, Path.cwd() / written):
            whole = Path(os.path.normpath(path))
            if whole != top and whole.is_relative_to(top):
                below = str(whole.relative_to(top))
                digest = digest_beneath(top, below)
                found |= {} if digest is None else {_place(mount, below): digest}
    if not found:
        raise OptionError(
            "setup",
            f"setup keyed_by: no mount has a file {safe_name(written)}",
            fix="Name a file relative to a mount, or leave it out: then the usual lock files count",
        )
    return found


def _usual(top: Path) -> Iterator[str]:
    """The usual files in a folder and a little below it."""
    waiting, looked = [("", 0)], 0
    while waiting and looked < _MOST_FOLDERS:
        below, depth = waiting.pop(0)
        looked += 1
        try:
            with os.scandir(top / below) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in listed:
            path = f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                is_wanted = depth < _DEPTH and entry.name not in _PASSED_OVER and not entry.name.startswith(".")
                waiting += [(f"{path}/", depth + 1)] if is_wanted else []
            elif is_usual(entry.name):
                yield path


def is_usual(name: str) -> bool:
    """Whether a file of this name usually decides what is installed."""
    return name in USUAL or (name.startswith("requirements") and name.endswith((".txt", ".in")))


def _place(mount: HostMount, path: str) -> str:
    return path if mount.landing == "." else f"{mount.landing}/{path}"
