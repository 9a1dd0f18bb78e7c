"""A conversation that was had on another machine: its files there, and how it is kept here.

What comes from elsewhere is read as data: each file has to say that it belongs to the conversation, and is kept under
the name that follows from that, whatever it was called.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolkit.errors import RunError
from toolkit.runs.sessions.transcripts import PROJECT, SessionId, sessions_home, transcripts

if TYPE_CHECKING:
    from claude_agent_sdk import SessionKey

_KEYS = {"project_key", "session_id", "subpath"}


def kept_files(session: SessionId, home: Path | str | None = None) -> list[Path]:
    """The files that a conversation is kept in; none where there is no such conversation."""
    folder = transcripts(sessions_home(home), PROJECT, session)
    return sorted(folder.glob("*.jsonl")) if folder.is_dir() else []


def keep_files(session: SessionId, files: Iterable[Path], home: Path | str | None = None, *, adds: bool) -> bool:
    """Keep a conversation that these files hold. With `adds`, one of that id goes on with what is new in them.

    False where there is one of that id and `adds` is off: then nothing is changed.

    Raises:
        RunError: a file does not belong to the conversation, or is none of one.
    """
    read = [_read(file, session) for file in files]
    if kept_files(session, home) and not adds:
        return False
    from toolkit.runs.sessions.stores import FileSessionStore

    store = FileSessionStore(sessions_home(home))
    for key, entries in read:
        store.add(cast("SessionKey", key), entries)
    return True


def _read(file: Path, session: SessionId) -> tuple[dict[str, str], list[Any]]:
    try:
        lines = file.read_bytes().splitlines(keepends=True)
        key, *entries = [json.loads(line) for line in lines if line.endswith(b"\n")]
    except (ValueError, RecursionError):
        raise RunError("a transcript that came from elsewhere cannot be read", where=[file.name]) from None
    is_key = isinstance(key, dict) and set(key) <= _KEYS and all(isinstance(one, str) for one in key.values())
    if not is_key or (key.get("project_key"), key.get("session_id")) != (PROJECT, session):
        raise RunError(f"a transcript that came from elsewhere is not one of session {session}", where=[file.name])
    if not all(isinstance(entry, dict) for entry in entries):
        raise RunError("a transcript that came from elsewhere cannot be read", where=[file.name])
    return key, entries
