"""Where a conversation goes on from: its last message, unless it was taken back to an earlier one, or to its beginning.

$TOOLKIT_HOME/sessions/heads/SESSION holds that. It counts as long as nothing was said since: the next
prompt makes another branch of the transcript, in which the CLI finds its way by itself. What was taken
back stays in the transcript.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolkit._base.files import write_json
from toolkit.errors import RunError
from toolkit.runs.sessions.transcripts import (
    PROJECT,
    SessionId,
    default_store,
    heads_folder,
    last_entry,
    sessions_home,
)

if TYPE_CHECKING:
    from claude_agent_sdk import SessionStore

    from toolkit.runs.spec import RunSpec

_SAID = ("user", "assistant")
_POLL, _TRIES = 0.05, 100


@dataclass(frozen=True, slots=True)
class Head:
    """Where a conversation goes on from."""

    at: str | None
    """An entry of its transcript; None for its beginning."""
    is_set: bool = True
    """Whether it was taken back; else `at` is its end."""

    @property
    def is_beginning(self) -> bool:
        """Whether the next prompt is its first."""
        return self.is_set and self.at is None


async def head_of(store: SessionStore, session: SessionId, home: Path | str | None) -> Head:
    """Where a conversation goes on from now."""
    last = await last_entry(store, session)
    try:
        kept = json.loads((heads_folder(sessions_home(home)) / session).read_bytes())
    except FileNotFoundError:
        return Head(last, is_set=False)
    return Head(kept["at"]) if kept["last"] == last else Head(last, is_set=False)


async def begins_anew(spec: RunSpec) -> bool:
    """Whether a run goes on with a conversation that was taken back to its beginning."""
    if spec.resume is None or spec.at is not None or spec.transport is not None:
        return False
    return (await head_of(spec.store or default_store(spec.home), SessionId(spec.resume), spec.home)).is_beginning


async def set_head(store: SessionStore, session: SessionId, home: Path | str | None, at: str | None) -> None:
    """Have a conversation go on from an entry, or from its beginning."""
    folder = heads_folder(sessions_home(home))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_json(folder / session, {"at": at, "last": await last_entry(store, session)})


async def entry_before(store: SessionStore, session: SessionId, message: str, sent: float) -> str | None:
    """The entry that a conversation ended with when a prompt was sent; None for its beginning.

    A prompt that never got into the transcript is found by its time, in seconds since the epoch.
    """
    found = None
    for entry in await _entries(store, session):
        if entry.get("uuid") == message:
            return cast("str | None", entry.get("parentUuid"))
        if entry.get("type") in _SAID and not entry.get("isSidechain") and _time_of(entry) <= sent:
            found = cast("str | None", entry.get("uuid"))
    return found


async def last_whole_entry(store: SessionStore, session: SessionId, answered: Collection[str]) -> str | None:
    """The entry that a conversation ends with before the first tool call that waits for its result.

    The results of the calls in `answered` are known, and may be a moment on their way to the transcript.

    Raises:
        RunError: they do not come.
    """
    for _ in range(_TRIES):
        entries = await _entries(store, session)
        blocks = [block for entry in entries for block in _blocks(entry)]
        results = {block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"}
        if results.issuperset(answered):
            return _last_whole(entries, results)
        await asyncio.sleep(_POLL)  # the SDK does not say when
    raise RunError("the conversation is not written down up to now", fix="Ask again when the turn has ended")


def _time_of(entry: dict[str, Any]) -> float:
    return datetime.fromisoformat(entry["timestamp"]).timestamp() if "timestamp" in entry else 0.0


def _last_whole(entries: list[dict[str, Any]], results: set[str]) -> str | None:
    """The last entry of the branch that the transcript ends with which no unanswered call comes before."""
    known = {entry["uuid"]: entry for entry in entries if entry.get("uuid")}
    ends = [entry for entry in entries if entry.get("type") in _SAID and not entry.get("isSidechain")]
    branch: list[dict[str, Any]] = []
    entry = ends[-1] if ends else None
    while entry is not None:
        branch.append(entry)
        entry = known.get(entry.get("parentUuid") or "")
    branch.reverse()
    for position, one in enumerate(branch):
        if any(block.get("type") == "tool_use" and block["id"] not in results for block in _blocks(one)):
            message = one["message"].get("id")
            first = next(place for place, each in enumerate(branch) if (each.get("message") or {}).get("id") == message)
            branch = branch[: min(first, position)]
            break
    return cast("str | None", branch[-1]["uuid"]) if branch else None


async def _entries(store: SessionStore, session: SessionId) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", await store.load({"project_key": PROJECT, "session_id": session}) or [])


def _blocks(entry: dict[str, Any]) -> list[dict[str, Any]]:
    content = (entry.get("message") or {}).get("content")
    return content if isinstance(content, list) else []
