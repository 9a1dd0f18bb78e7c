"""Where conversations are kept if nobody says otherwise, how a later run goes on with one, how one is forgotten.

$TOOLKIT_HOME/sessions/
  PROJECT/SESSION/*.jsonl   transcripts; names are digests, the key is the first line of each
  seen/HISTORY              which session has seen exactly this history
  heads/SESSION             where a conversation that was taken back goes on from
  locks/SESSION             held while a prompt for the session is under way

Transcripts are kept in a `SessionStore` outside of every jail, keyed by the session
alone: a run's folder changes with every run, a conversation does not. This module needs
no claude_agent_sdk to be read: stored runs are removed together with their conversations.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import shutil
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolkit._base.files import state_home
from toolkit._base.locks import take_lock
from toolkit.errors import RunError

if TYPE_CHECKING:
    from claude_agent_sdk import SessionKey, SessionStore, SessionStoreEntry

    from toolkit.runs.sessions.stores import FileSessionStore

PROJECT = "toolkit"
"""The project all sessions belong to."""
_CONFIG = ".claude"
_LOCK_POLL = 0.05
_GIVEN_UP = "[Tool result missing due to internal error]"
"""What the CLI tells the model of a call without a result."""


def sessions_home(home: Path | str | None = None) -> Path:
    """The folder of conversations, beside the one of runs."""
    return state_home(home) / "sessions"


def digest(text: str) -> str:
    """A name for a key, which is opaque and may be long."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def transcripts(root: Path, project: str, session: str) -> Path:
    """The folder with the transcripts of a session and its subagents."""
    return root / digest(project) / digest(session)


def heads_folder(root: Path) -> Path:
    """The folder that says where conversations go on which were taken back."""
    return root / "heads"


def _lock_file(root: Path, session: str) -> Path:
    """The file whose lock holds a conversation."""
    folder = root / "locks"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / session


@contextmanager
def held(root: Path, session: str) -> Iterator[None]:
    """Hold a conversation that nobody else is expected to hold.

    Raises:
        BlockingIOError: somebody does.
    """
    lock = take_lock(_lock_file(root, session))
    if lock is None:
        raise BlockingIOError(f"session {session} is held")
    with lock:
        yield


@asynccontextmanager
async def one_at_a_time(session: str, home: Path | str | None = None) -> AsyncIterator[None]:
    """Hold a conversation: two sends to it run one after the other, also from two processes."""
    file = _lock_file(sessions_home(home), session)
    # A thread that waits for a lock cannot be cancelled, so it is asked for again and again.
    while (lock := take_lock(file)) is None:  # noqa: ASYNC110  (another process's release sets no event of ours)
        await asyncio.sleep(_LOCK_POLL)
    with lock:
        yield


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
        await self._store.append(cast("SessionKey", {**key, "project_key": PROJECT}), entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Nothing: see the class."""
        return None


def default_store(home: Path | str | None = None) -> FileSessionStore:
    """The store of this user's conversations."""
    from toolkit.runs.sessions.stores import FileSessionStore

    return FileSessionStore(sessions_home(home))


async def lay_out(store: SessionStore, session: SessionId, home: Path, cwd: str, *, upto: str | None = None) -> bool:
    """Put a conversation into a jail's home, where the CLI looks for it; with `upto`, what came until that entry.

    The CLI goes on with the latest branch of what it finds, and knows the entries of that one only. True where that
    ends with a deferred call, which the CLI takes up before it is asked anything.

    Raises:
        NoSessionError: the store has no such conversation.
    """
    from claude_agent_sdk import project_key_for_directory

    key: SessionKey = {"project_key": PROJECT, "session_id": session}
    entries = await store.load(key)
    if not entries:
        raise NoSessionError(session)
    if upto is not None:
        entries = entries[: 1 + max((n for n, one in enumerate(entries) if one.get("uuid") == upto), default=-1)]
    folder = home / _CONFIG / "projects" / project_key_for_directory(cwd)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    entries = list(entries)  # a store may have given its own
    is_left_over = _settle(cast("list[dict[str, Any]]", entries))
    await asyncio.to_thread(_write, folder / f"{session}.jsonl", entries)
    for subpath in await store.list_subkeys({"project_key": PROJECT, "session_id": session}):
        part = await store.load({**key, "subpath": subpath})
        target = (folder / session / f"{subpath}.jsonl").resolve()
        if part and target.is_relative_to(folder.resolve()):
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            await asyncio.to_thread(_write, target, part)
    return is_left_over


def _settle(entries: list[dict[str, Any]]) -> bool:
    """Write down that deferred calls were given up which a later prompt did not wait for; whether one is left over.

    The CLI takes up the last call without a result, whatever was said since. The model was told what stands here.
    """
    left_over: str | None = None
    settled = -1
    for place, entry in enumerate(entries):
        attachment, message = entry.get("attachment") or {}, entry.get("message") or {}
        content = message.get("content") or []
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        answered = {block["tool_use_id"] for block in blocks if "tool_use_id" in block}
        is_prompt = entry.get("type") == "user" and not (answered or entry.get("isMeta") or entry.get("isSidechain"))
        if attachment.get("type") == "hook_deferred_tool":
            left_over, settled = str(attachment["toolUseID"]), place
        elif left_over is not None and is_prompt:
            given_up = {"type": "tool_result", "tool_use_id": left_over, "content": _GIVEN_UP, "is_error": True}
            entries[place], left_over = {**entry, "message": {**message, "content": [given_up, *blocks]}}, None
        elif left_over in answered:
            left_over, settled = None, place
    for place, entry in enumerate(entries[: settled + 1]):
        # The CLI notes where its last prompt left the conversation. What follows a deferred call is not below that.
        if entry.get("type") == "last-prompt":
            entries[place] = {name: value for name, value in entry.items() if name != "leafUuid"}
    return left_over is not None


async def last_entry_of(store: SessionStore, session: SessionId, message: str) -> str:
    """The transcript entry that a message ends with: given as its own id, or as the API's message id.

    Raises:
        NoSessionError: there is no such conversation.
        OptionError: it has no such message.
    """
    entries = await store.load({"project_key": PROJECT, "session_id": session}) or []
    if not entries:
        raise NoSessionError(session)
    found = None
    for entry in cast("list[dict[str, Any]]", entries):
        if message in (entry.get("uuid"), (entry.get("message") or {}).get("id")):
            found = entry.get("uuid")
    if found is None:
        from toolkit.runs.kinds import OptionError

        fix = "Take the id of a call (result.calls[0].id), or the 'message' of a lifecycle.started event"
        raise OptionError("at", f"at='{message}': session {session} has no such message", fix=fix)
    return str(found)


async def entry_ids(store: SessionStore, session: SessionId) -> set[str]:
    """The ids of all that is kept of a conversation."""
    entries = cast("list[dict[str, Any]]", await store.load({"project_key": PROJECT, "session_id": session}) or [])
    return {str(entry["uuid"]) for entry in entries if entry.get("uuid")}


async def last_entry(store: SessionStore, session: SessionId) -> str | None:
    """The transcript entry that a conversation ends with; None where the store has none."""
    entries = await store.load({"project_key": PROJECT, "session_id": session}) or []
    for entry in reversed(cast("list[dict[str, Any]]", entries)):
        if entry.get("type") in ("user", "assistant") and not entry.get("isSidechain"):
            return cast("str | None", entry.get("uuid"))
    return None


async def last_exchange(store: SessionStore, session: SessionId) -> list[dict[str, Any]]:
    """What followed the last prompt, as messages: texts, tool calls and their results.

    Nothing where no tool was called, or no transcript is kept: then the reply is all there is to tell.
    """
    found: list[dict[str, Any]] = []
    ids: list[Any] = []
    for entry in cast("list[dict[str, Any]]", await store.load({"project_key": PROJECT, "session_id": session}) or []):
        message = entry.get("message") or {}
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        if entry.get("type") not in ("user", "assistant") or entry.get("isSidechain") or entry.get("isMeta"):
            continue
        results = [block for block in blocks if block.get("type") == "tool_result"]
        if entry["type"] == "user" and not results:
            found, ids = [], []  # a prompt
            continue
        kept = results or [block for block in blocks if block.get("type") in ("text", "tool_use")]
        of = message.get("id") if entry["type"] == "assistant" else "user"
        if not kept:
            continue
        if ids and ids[-1] == of:
            found[-1]["content"] += kept
        else:
            found.append({"role": entry["type"], "content": list(kept)})
            ids.append(of)
    return found if any(block["type"] == "tool_use" for message in found for block in message["content"]) else []


def jail_config() -> dict[str, str]:
    """What the SDK has to know to recognise transcripts from inside the jail."""
    from toolkit.sandbox.jail import CLI_HOME

    return {"CLAUDE_CONFIG_DIR": f"{CLI_HOME}/{_CONFIG}"}


def forget(root: Path, session: str) -> None:
    """Remove what is kept of a conversation; one in which a prompt is under way is left alone."""
    folder = transcripts(root, PROJECT, session)
    if not folder.is_dir():
        return
    with contextlib.suppress(BlockingIOError), held(root, session):
        shutil.rmtree(folder, ignore_errors=True)
        (heads_folder(root) / session).unlink(missing_ok=True)
        for seen in (root / "seen").glob("*"):
            with contextlib.suppress(OSError):
                if seen.read_text(encoding="utf-8").partition("\n")[0] == session:
                    seen.unlink()


def _write(path: Path, entries: list[SessionStoreEntry]) -> None:
    # The CLI looks for the type at the start of a line, and for the result of a deferred call as it writes that itself,
    # without spaces. A call whose result it does not find it runs again.
    lines = [json.dumps({"type": entry["type"], **entry}, separators=(",", ":")) for entry in entries]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
