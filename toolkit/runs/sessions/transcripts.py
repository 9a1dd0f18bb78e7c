"""Where conversations are kept if nobody says otherwise, and how they are forgotten.

$TOOLKIT_HOME/sessions/
  PROJECT/SESSION/*.jsonl   transcripts; names are digests, the key is the first line of each
  seen/HISTORY              which session has seen exactly this history
  locks/SESSION             held while a prompt for the session is under way
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolkit.runs.storage.run_folder import runs_home

PROJECT = "toolkit"
"""The project all sessions belong to: a run's folder changes with every run, a conversation does not."""


def sessions_home(home: Path | str | None = None) -> Path:
    """The folder of conversations, beside the one of runs."""
    return runs_home(home).parent / "sessions"


def digest(text: str) -> str:
    """A name for a key, which is opaque and may be long."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def transcripts(root: Path, project: str, session: str) -> Path:
    """The folder with the transcripts of a session and its subagents."""
    return root / digest(project) / digest(session)


def lock_file(root: Path, session: str) -> int:
    """The open file whose lock holds a conversation."""
    folder = root / "locks"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(folder / session, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@contextmanager
def held(root: Path, session: str) -> Iterator[None]:
    """Hold a conversation that nobody else is expected to hold.

    Raises:
        BlockingIOError: somebody does.
    """
    lock = lock_file(root, session)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


def forget(root: Path, session: str) -> None:
    """Remove what is kept of a conversation; one in which a prompt is under way is left alone."""
    folder = transcripts(root, PROJECT, session)
    if not folder.is_dir():
        return
    with contextlib.suppress(BlockingIOError), held(root, session):
        shutil.rmtree(folder, ignore_errors=True)
        for seen in (root / "seen").glob("*"):
            with contextlib.suppress(OSError):
                if seen.read_text(encoding="utf-8").partition("\n")[0] == session:
                    seen.unlink()
