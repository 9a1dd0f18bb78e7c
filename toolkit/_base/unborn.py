"""Make a folder under another name until it is complete, so that nobody takes half of it for the whole.

It has a file `lock` in it that its maker holds. A kill leaves it behind; whoever
cleans up tells by the lock, or before there is one by its name, that nobody is making
it any more.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from toolkit._base.locks import take_lock
from toolkit._base.processes import started_at

UNBORN = ".new"
_LONGEST_BIRTH = 3600
"""Seconds after which such a folder without a lock is nobody's, if its name does not say whose."""


def unborn_name(name: str) -> str:
    """What a folder is called until it may be called `name`: it says which process makes it."""
    me = os.getpid()
    return f".{name}-{me}-{started_at(me)}-{_process_space()}{UNBORN}"


def is_stillborn(folder: Path) -> bool:
    """Whether nobody is making this folder any more: its lock is free, or its maker is gone for sure.

    Raises:
        FileNotFoundError: it is gone.
        OSError: it cannot be looked at.
    """
    st = folder.lstat()
    if not stat.S_ISDIR(st.st_mode) or st.st_uid != os.geteuid():
        return False
    try:
        lock = take_lock(folder / "lock", create=False)
    except FileNotFoundError:
        *_, pid, started, space = ["", "", "", *folder.name.removesuffix(UNBORN).split("-")]
        if pid.isdigit() and space == _process_space():
            return str(started_at(int(pid))) != started
        return st.st_mtime < time.time() - _LONGEST_BIRTH
    if lock is not None:
        lock.release()
    return lock is not None


def _process_space() -> str:
    """Which processes the number of one is unique among."""
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return "unknown"
