"""`Conversation`: give the whole history every time; what the model has seen already is not sent again.

A fingerprint of the history, our own replies included, tells whether the stored
session has seen exactly that. If it has, the session is resumed and only the new
message goes out; what a turn left in it that failed is left behind. If anything
differs (edited, compacted, from another machine), a new session starts with the
whole history told in its first message: texts, tool calls with their results, pictures.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolkit._base.files import write_whole
from toolkit.errors import RunError
from toolkit.runs.kinds import OptionError, wrong
from toolkit.runs.launch import run, run_on
from toolkit.runs.outcome.result import RunResult
from toolkit.runs.prompts import Part, as_asked, check_parts
from toolkit.runs.sessions.heads import Head, head_of
from toolkit.runs.sessions.retelling import SENDABLE, as_prompt, blocks_of, text_of, with_history
from toolkit.runs.sessions.transcripts import (
    SessionId,
    default_store,
    last_entry,
    last_exchange,
    one_at_a_time,
    sessions_home,
)
from toolkit.runs.spec import make_spec

if TYPE_CHECKING:
    from claude_agent_sdk import SessionStore

Message = Mapping[str, Any]
"""`{"role": "user" | "assistant", "content": text or content blocks}`."""
_ROLES = ("user", "assistant")
_OURS = ("resume", "fork", "at")
"""Options of `run` that a conversation decides itself."""


def fingerprint(messages: Sequence[Message]) -> str:
    """SHA-256 of the history in canonical form: the order of keys and the spelling of plain text do not matter."""
    canonical = [{"role": message["role"], "content": blocks_of(message["content"])} for message in messages]
    text = json.dumps(canonical, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Conversation:
    """A conversation with an agent, from its messages so far. The options are those of `run`.

    Raises:
        RunError: a message without a known role or without content, or an option that a conversation cannot have.
    """

    def __init__(self, messages: Sequence[Message] = (), **options: Any) -> None:
        for name in _OURS:
            if name in options:
                raise RunError(f"a conversation has no option '{name}': it finds its session by its messages")
        make_spec("…", options)
        if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
            fix = 'Write for example: Conversation([{"role": "user", "content": "Hello."}])'
            raise wrong("messages", messages, "it is a list of messages", fix)
        messages = list(messages)
        for number, message in enumerate(messages, 1):
            _check(number, message)
        self.messages: list[Message] = messages
        """The history; after a turn that is ok it holds the new message and the reply."""
        self._options = options

    async def send(self, text: str | Sequence[Part]) -> RunResult[Any]:
        """Say something, as text or in parts, and get the answer; history and session go on only if the turn is ok."""
        return await Conversation.reply(self._with(text), into=self)

    async def reply(self, *, into: Conversation | None = None) -> RunResult[Any]:
        """Answer the last message of the history.

        Raises:
            RunError: the history is empty, or its last message is not the user's, or not text.
        """
        if not self.messages:
            raise RunError("the history is empty", fix='Say something: conversation.send("…")')
        if self.messages[-1]["role"] != "user":
            raise RunError("the last message is not from the user", fix='Add one: conversation.send("…")')
        past, new = self.messages[:-1], self.messages[-1]
        for block in blocks_of(new["content"]):
            if block["type"] not in SENDABLE:
                what = f"the last message has a block of type '{block['type']}'"
                raise RunError(what, fix=f"What can be sent: {', '.join(SENDABLE)}")
        index = _Index(self._options.get("home"))
        # Histories that are the same are the same conversation: one at a time.
        async with one_at_a_time(fingerprint(past) if past else "new-" + os.urandom(8).hex(), index.home):
            result = await self._resumed(index.find(past), new)
            if result is None:
                result = await run(with_history(past, new), **self._options)
            if result.ok and result.session is not None:
                session = SessionId(result.session)
                seen = Seen(session, await last_entry(self._store, session))
                # Found by its texts alone as well: a caller may keep no more than what was said.
                said = [*self.messages, {"role": "assistant", "content": result.text}]
                done = await last_exchange(self._store, session)
                history = [*self.messages, *done] if done else said
                index.moved(past, history, seen)
                index.moved(past, said, seen)
                (into or self).messages[:] = history
        return result

    async def _resumed(self, seen: Seen | None, new: Message) -> RunResult[Any] | None:
        """The answer in the session that has seen the history; None where there is none."""
        if seen is None:
            return None
        back: dict[str, Any] = {}
        # Also where it was taken back since: the history that was given counts.
        if seen.last is not None and (await self._head(seen.session)).at != seen.last:
            back = {"fork": True, "at": seen.last}
        try:
            result = await run_on(as_prompt(new), resume=seen.session, **back, **self._options)
        except OptionError as error:
            if error.option != "at":
                raise
            return None  # the store has lost that part of it
        return None if result.code == "no_session" else result

    async def _head(self, session: SessionId) -> Head:
        return await head_of(self._store, session, self._options.get("home"))

    @property
    def _store(self) -> SessionStore:
        return self._options.get("store") or default_store(self._options.get("home"))

    def _with(self, text: str | Sequence[Part]) -> Conversation:
        content = text if isinstance(text, str) else list(as_asked(_parts(text)).content)
        return Conversation([*self.messages, {"role": "user", "content": content}], **self._options)


def _parts(given: Any) -> tuple[Part, ...]:
    """A message that is no text, as its parts."""
    if not isinstance(given, list | tuple):
        what, fix = "a message is a text, or a list of texts and Images", 'Say what to do: conversation.send("…")'
        raise wrong("prompt", given, what, fix)
    return check_parts("prompt", given)


class Seen(NamedTuple):
    """A session that has seen a history."""

    session: SessionId
    last: str | None
    """The entry of its transcript that the history ends with; None where no transcript is kept."""


class _Index:
    """Which session has seen exactly which history: one small file for each."""

    def __init__(self, home: Path | str | None) -> None:
        self.home = home
        self._folder = sessions_home(home) / "seen"

    def find(self, past: Sequence[Message]) -> Seen | None:
        if not past:
            return None
        try:
            session, _, last = (self._folder / fingerprint(past)).read_text(encoding="utf-8").strip().partition("\n")
            return Seen(SessionId(session), last or None)
        except (OSError, ValueError, RunError):
            return None

    def moved(self, past: Sequence[Message], history: Sequence[Message], seen: Seen) -> None:
        """The session has seen more now: its old place must not be found any more."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._folder / fingerprint(history), f"{seen.session}\n{seen.last or ''}\n")
        before = self.find(past)
        if before is not None and before.session == seen.session:
            (self._folder / fingerprint(past)).unlink(missing_ok=True)


def _check(number: int, message: Message) -> None:
    role = message.get("role") if isinstance(message, Mapping) else None
    if role not in _ROLES:
        raise RunError(f"message {number} has the role {role!r}", fix=f"Roles are: {', '.join(_ROLES)}")
    if not _is_readable(message.get("content")):
        raise RunError(
            f"message {number} has no content that can be read",
            fix='Give a text, or a list of blocks such as {"type": "text", "text": "…"}',
        )
    if not any(text_of(block).strip() for block in blocks_of(message.get("content")) or ()):
        raise RunError(f"message {number} is empty", fix="Leave it out, or give it content")


def _is_readable(content: Any) -> bool:
    if content is None or isinstance(content, str):
        return True
    return isinstance(content, Sequence) and all(
        isinstance(block, Mapping)
        and isinstance(block.get("type"), str)
        and (block["type"] != "text" or isinstance(block.get("text"), str))
        and (block["type"] != "tool_result" or _is_readable(block.get("content")))
        for block in content
    )
