"""Tasks that somebody wants done once more, after a run of theirs has ended.

That is said by an empty file, named after the run that is to be followed by another: `again/RUN` in the batch's
folder. It is made by whoever is first and never changed, so that to ask twice after one run gives one more run, a
kill leaves a whole word or none, and nobody has to wait for whoever works on the batch.
"""

from __future__ import annotations

import os
from pathlib import Path

_FOLDER = "again"


def ask_again(folder: Path, run: str) -> bool:
    """Ask for another run after this one; False where that was asked for already."""
    asked = folder / _FOLDER
    asked.mkdir(mode=0o700, exist_ok=True)
    try:
        handle = os.open(asked / run, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    os.fsync(handle)
    os.close(handle)
    _sync(asked)
    return True


def asked_again(folder: Path) -> set[str]:
    """The runs after which another was asked for."""
    try:
        return {file.name for file in (folder / _FOLDER).iterdir()}
    except FileNotFoundError:
        return set()


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
