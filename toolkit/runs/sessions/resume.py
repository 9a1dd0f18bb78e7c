"""A conversation that goes on: resumed where the last run left it, in this process or another.

The transcript is kept in a `SessionStore` outside of every jail, keyed by the
session alone: a run's folder changes with every run, a conversation does not.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from claude_agent_sdk import SessionKey, SessionStore, SessionStoreEntry, project_key_for_directory

from toolkit.errors import RunError
from toolkit.runs.sessions.stores import FileSessionStore
from toolkit.runs.sessions.transcripts import PROJECT, lock_file, sessions_home
from toolkit.sandbox.jail import HOME

_CONFIG = ".claude"
_LOCK_POLL = 0.05


class SessionId(str):
    """The id of a conversation. A run's id is something else and is refused.

    Raises:
        RunError: it is no UUID.
    """

    def __new__(cls, value: str) -> SessionId:
        try:
            return super().__new__(cls, uuid.UUID(value))
        except (ValueError, AttributeError, TypeError):
            fix = "Take it from a result: result.session"
            raise RunError(f"'{value}' is no session id", fix=fix) from None


class NoSessionError(RunError):
    """There is no such conversation to resume."""

    def __init__(self, session: str, what: str = "") -> None:
        super().__init__(what or f"there is no session {session}", fix="Start a new run, or name another store")
        self.session = session


class Kept:
    """A store as one run sees it: what the CLI says is kept under the session, and never read back by the SDK.

    The SDK would put the transcript where the jail cannot see it; `lay_out` puts it where the CLI looks.
    """

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Keep entries under the session, whatever folder the run works in."""
        await self._store.append(cast(SessionKey, {**key, "project_key": PROJECT}), entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Nothing: see the class."""
        return None


def default_store(home: Path | str | None = None) -> FileSessionStore:
    """The store of this user's conversations."""
    return FileSessionStore(sessions_home(home))


async def lay_out(store: SessionStore, session: SessionId, home: Path, cwd: Path) -> None:
    """Put a conversation into a jail's home, where the CLI looks for it.

    Raises:
        NoSessionError: the store has no such conversation.
    """
    key: SessionKey = {"project_key": PROJECT, "session_id": session}
    entries = await store.load(key)
    if not entries:
        raise NoSessionError(session)
    folder = home / _CONFIG / "projects" / project_key_for_directory(cwd)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    await asyncio.to_thread(_write, folder / f"{session}.jsonl", entries)
    for subpath in await store.list_subkeys({"project_key": PROJECT, "session_id": session}):
        part = await store.load({**key, "subpath": subpath})
        target = (folder / session / f"{subpath}.jsonl").resolve()
        if part and target.is_relative_to(folder.resolve()):
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            await asyncio.to_thread(_write, target, part)


async def last_entry_of(store: SessionStore, session: SessionId, message: str) -> str:
    """The transcript entry that a message ends with: given as its own id, or as the API's message id.

    Raises:
        NoSessionError: the conversation has no such message.
    """
    entries = await store.load({"project_key": PROJECT, "session_id": session}) or []
    found = None
    for entry in cast("list[dict[str, Any]]", entries):
        if message in (entry.get("uuid"), (entry.get("message") or {}).get("id")):
            found = entry.get("uuid")
    if found is None:
        raise NoSessionError(session, f"session {session} has no message '{message}'")
    return str(found)


async def last_entry(store: SessionStore, session: SessionId) -> str | None:
    """The transcript entry that a conversation ends with; None where the store has none."""
    entries = await store.load({"project_key": PROJECT, "session_id": session}) or []
    for entry in reversed(cast("list[dict[str, Any]]", entries)):
        if entry.get("type") in ("user", "assistant") and not entry.get("isSidechain"):
            return cast("str | None", entry.get("uuid"))
    return None


def jail_config() -> dict[str, str]:
    """What the SDK has to know to recognise transcripts from inside the jail."""
    return {"CLAUDE_CONFIG_DIR": f"{HOME}/{_CONFIG}"}


@asynccontextmanager
async def one_at_a_time(session: str, home: Path | str | None = None) -> AsyncIterator[None]:
    """Hold a conversation: two sends to it run one after the other, also from two processes.

    The lock is the kernel's, so a process that dies lets go of it.
    """
    lock = lock_file(sessions_home(home), session)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_LOCK_POLL)
        yield
    finally:
        os.close(lock)


def _write(path: Path, entries: list[SessionStoreEntry]) -> None:
    # The CLI looks for the type at the start of a line.
    lines = [json.dumps({"type": entry["type"], **entry}) for entry in entries]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
