"""Find what of a lent folder the agent cannot read: started by root, it is another user, and nobody's owner.

The folder itself is put within its reach; a file in it that only root may read stays out of it. The
look is bounded, for a lent folder is to cost nothing: the first entries of each are looked at, and what
lies behind them is not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from toolkit._base.words import safe_name

_MOST_LOOKED_AT = 10_000
_MOST_NAMED = 5


def unreadable_text(lent: Iterable[Path]) -> str:
    """What a jail that root starts cannot read of these, in one sentence; empty where nothing of it was found."""
    if os.geteuid() != 0:
        return ""
    found = [safe_name(path) for top in lent for path in _unreadable(str(top))]
    if not found:
        return ""
    more = f" and {len(found) - _MOST_NAMED:,} more" if len(found) > _MOST_NAMED else ""
    named = ", ".join(found[:_MOST_NAMED])
    return (
        f"the agent cannot read {named}{more}: they are lent, and only their owner may read them."
        " Started by root it runs as another user; chmod o+r them, or start as a plain user."
    )


def _unreadable(top: str) -> Iterator[str]:
    """Those of the first entries of a lent folder, or the lent file, that not everybody may read; follows no link.

    Every run of root's waits for this: no objects but what the folders themselves give.
    """
    try:
        mode = os.stat(top).st_mode  # noqa: PTH116
        if not _is_readable(os.lstat(top).st_mode):
            yield top
    except OSError:
        return  # gone meanwhile
    left, folders = _MOST_LOOKED_AT - 1, [top] if stat.S_ISDIR(mode) else []
    while folders:
        try:
            entries = os.scandir(folders.pop())
        except OSError:
            continue
        with entries:
            for entry in islice(entries, left):
                left -= 1
                try:
                    mode = entry.stat(follow_symlinks=False).st_mode
                except OSError:
                    continue
                if stat.S_ISDIR(mode):
                    folders.append(entry.path)
                if not _is_readable(mode):
                    yield entry.path
        if not left:
            return


def _is_readable(mode: int) -> bool:
    """Whether anybody may read it; a link is whatever it leads to, and is not judged."""
    if stat.S_ISREG(mode):
        return bool(mode & 0o004)
    return not stat.S_ISDIR(mode) or mode & 0o005 == 0o005
