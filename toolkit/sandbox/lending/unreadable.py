"""Find what of a lent folder the agent cannot read: started by root, it is another user, and nobody's owner.

The folder itself is put within its reach; a file in it that only root may read stays out of it. The
look is bounded, for a lent folder is to cost nothing: the first entries of each are looked at, and what
lies behind them is not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from toolkit._base.words import safe_name

_MOST_LOOKED_AT = 10_000
_MOST_NAMED = 5


def unreadable_text(lent: Iterable[Path]) -> str:
    """What a jail that root starts cannot read of these, in one sentence; empty where nothing of it was found."""
    if os.geteuid() != 0:
        return ""
    looked_at = [path for top in lent for path in islice(_entries(top), _MOST_LOOKED_AT)]
    found = [safe_name(str(path)) for path in looked_at if not _is_readable(path)]
    if not found:
        return ""
    more = f" and {len(found) - _MOST_NAMED:,} more" if len(found) > _MOST_NAMED else ""
    named = ", ".join(found[:_MOST_NAMED])
    return (
        f"the agent cannot read {named}{more}: they are lent, and only their owner may read them."
        " Started by root it runs as another user; chmod o+r them, or start as a plain user."
    )


def _entries(top: Path) -> Iterable[Path]:
    """A lent file, or everything in a lent folder; no link is followed."""
    yield top
    if top.is_dir():
        for folder, folders, files in os.walk(top):
            yield from (Path(folder, name) for name in (*folders, *files))


def _is_readable(path: Path) -> bool:
    """Whether anybody may read it; a link is whatever it leads to, and is not judged."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return True  # gone meanwhile
    if stat.S_ISDIR(mode):
        return mode & 0o005 == 0o005
    return not stat.S_ISREG(mode) or bool(mode & 0o004)
