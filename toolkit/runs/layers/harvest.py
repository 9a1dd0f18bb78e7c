"""Take out of a copy what a setup made in it: the folders that become a layer, and what is left behind.

A setup works in a copy of its own, which nobody else sees and which is thrown away. So it
cannot change a file of the project: of what it made, only new folders are kept that the project's own ignore
rules name, or that are known as installations. The rest is told, and goes with the copy.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from toolkit._base.files import CACHES
from toolkit.sandbox import is_installed

_INSTALLATIONS = frozenset({"node_modules", "__pypackages__", ".tox", ".nox", ".eggs", ".bundle", ".yarn"})
_OUTPUT = frozenset({"target", "build", "dist", "out", ".next", ".nuxt", "coverage", "htmlcov"})
"""What a build writes and an agent has to be able to write again: shown read-only it would be in the way."""
_PASSING = CACHES | {".git", ".cache"}
"""What comes and goes, and is not worth a word."""
MOST_PLACES = 200
Known = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Harvest:
    """What a setup made in its copy."""

    kept: tuple[str, ...]
    """New folders that become the layer, relative to the workspace."""
    left: tuple[str, ...]
    """New files and folders that do not, what was changed, and what was removed; each with what it is."""


def listed(copy: Path) -> Known:
    """Every entry of a copy as it is now."""
    return dict(_walk(copy, is_new=lambda path: False))


def look(copy: Path, before: Known, ignored: Callable[[Iterable[str]], set[str]]) -> Harvest:
    """What appeared in a copy since it was listed.

    Args:
        ignored: Those of some folders that the project's rules name.
    """
    now = dict(_walk(copy, is_new=lambda path: path not in before))
    new = [path for path in now if path not in before]
    folders = [path for path in new if stat.S_ISDIR(now[path][0]) and not _is_passing(path)]
    by_rule = ignored(folders)
    kept = [path for path in folders if _is_kept(copy, path, is_ignored=path in by_rule)]
    left = [f"{path} (new)" for path in new if path not in kept and not _is_passing(path)]
    both = before.keys() & now.keys()
    left += [f"{path} (changed)" for path in both if _is_other(before[path], now[path]) and not _is_passing(path)]
    left += [f"{path} (removed)" for path in before.keys() - now.keys() if not _is_passing(path)]
    return Harvest(tuple(sorted(kept)), tuple(sorted(left)))


def gather(copy: Path, kept: Iterable[str], into: Path) -> None:
    """Move the folders that become the layer to their places below `into`.

    Raises:
        OSError: one cannot be moved.
    """
    for path in kept:
        target = into / path
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        (copy / path).rename(target)


def open_to_readers(top: Path) -> None:
    """Let everybody read what its owner can, and nobody write; no bit stays that gives a program another's rights.

    An agent may be another user for the host, and the folder around all layers is private.

    Raises:
        OSError: a mode cannot be set.
    """
    for above, folders, files in os.walk(top, topdown=False):
        for name in (*files, *folders):
            path = Path(above, name)
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode):
                path.chmod(_readable(mode))
    top.chmod(0o755)


def _readable(mode: int) -> int:
    own = (mode >> 6) & 0o5 | (0o5 if stat.S_ISDIR(mode) else 0o4)
    # Folders stay writable for their owner, who has to be able to remove the layer.
    return (0o200 if stat.S_ISDIR(mode) else 0) | own << 6 | own << 3 | own


def _is_kept(copy: Path, path: str, *, is_ignored: bool) -> bool:
    name = PurePosixPath(path).name
    if name in _OUTPUT:
        return False
    is_known = name in _INSTALLATIONS or name.endswith(".egg-info") or is_installed(copy / path)
    return is_ignored or is_known


def _is_passing(path: str) -> bool:
    return not _PASSING.isdisjoint(PurePosixPath(path).parts) or path.endswith(".pyc")


def _is_other(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """Whether a file or link is not as it was; a folder says nothing by its stamp."""
    return old[0] != new[0] or (not stat.S_ISDIR(new[0]) and old != new)


def _walk(copy: Path, *, is_new: Callable[[str], bool]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every entry with its stamp; what is in a new folder belongs to that, and has no row of its own."""
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(copy / below) as entries:
            for entry in entries:
                st = entry.stat(follow_symlinks=False)
                path = f"{below}{entry.name}"
                kind = stat.S_IFMT(st.st_mode) | (st.st_mode & 0o777)
                yield path, (kind, st.st_size, st.st_mtime_ns, st.st_ino)
                if stat.S_ISDIR(st.st_mode) and entry.name != ".git" and not is_new(path):
                    waiting.append(f"{path}/")
