"""What a scripted model says: blocks, turns, and errors in place of a turn.

A block is a plain dict as the Messages API writes it, so anything the API can
send can be scripted; `text`, `thinking` and `tool_use` write the usual ones.
Whatever a user hands in as a turn passes `as_reply` once, when the script is
made: what is no turn is refused there, not in the middle of a run.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolkit.errors import TestingError
from toolkit.testing.model.request import Request

Block: TypeAlias = Mapping[str, Any]
When: TypeAlias = str | Callable[[Request], bool]

_STOP_REASONS = ("end_turn", "max_tokens", "pause_turn", "refusal", "stop_sequence", "tool_use")
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
_FIELDS = {"text": "text", "thinking": "thinking", "tool_use": "name"}
# What may stand in an answer's head; how long the body is, is the server's business.
_HEADER = re.compile(r"(?ai)(?!content-length:|transfer-encoding:)[\w!#$%&'*+.^`|~-]+:([!-~]([ -~]*[!-~])?)?")
_A_TURN_IS = 'A turn is a list of blocks ([text("hi")]), a Turn, a Status, or a function of the request.'


def text(content: str) -> dict[str, Any]:
    """A block of text, as the model would say it."""
    return {"type": "text", "text": content}


def thinking(content: str, *, signature: str = "scripted") -> dict[str, Any]:
    """A block of thinking; the CLI sends it back with its signature."""
    return {"type": "thinking", "thinking": content, "signature": signature}


def tool_use(name: str, input: Mapping[str, Any] | None = None, /, **arguments: Any) -> dict[str, Any]:
    """A call of one tool, its arguments as keywords or as one mapping.

    The call gets an id when it is served; `tool_use("x") | {"id": "toolu_1"}` chooses one.
    """
    return {"type": "tool_use", "name": name, "input": {**(input or {}), **arguments}}


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model, with everything about it that a list of blocks cannot say."""

    blocks: Sequence[Block]
    id: str | None = None
    """The message id; a fresh one if not given."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """Token counts to report, for example `{"input_tokens": 100, "output_tokens": 7}`."""
    stop_reason: str | None = None
    """`tool_use` or `end_turn` by what the blocks hold, if not given."""
    chunk: int = 24
    """How many characters each streamed delta carries."""
    delay: float = 0.0
    """Seconds to wait before the first byte."""
    pace: float = 0.0
    """Seconds to wait before every streamed event."""
    hold: threading.Event | None = None
    """Answer only after this event is set (waits at most a minute)."""
    cut_after: int | None = None
    """Drop the connection after this many whole blocks (0: right after the message began)."""
    stall_after: int | None = None
    """Go silent after this many whole blocks until the client leaves."""
    when: When | None = None
    """Use this turn for a request that contains this text, or for which this function says yes."""

    def __post_init__(self) -> None:
        _check_blocks(self.blocks)
        if not isinstance(self.usage, Mapping):
            raise TestingError(
                f"Turn: usage={self.usage!r} is no mapping", fix='Give counts, for example {"output_tokens": 7}.'
            )
        if self.stop_reason is not None and self.stop_reason not in _STOP_REASONS:
            raise TestingError(
                f"Turn: {self.stop_reason!r} is no stop reason", fix=f"Use one of: {', '.join(_STOP_REASONS)}"
            )
        if self.chunk < 1:
            raise TestingError(
                f"Turn: chunk={self.chunk} sends nothing", fix="Give the characters per delta, 1 or more."
            )
        for name in ("cut_after", "stall_after"):
            after = getattr(self, name)
            if after is not None and not 0 <= after <= len(self.blocks):
                raise TestingError(
                    f"Turn: {name}={after}, but the turn has {len(self.blocks)} blocks",
                    fix=f"Give a number from 0 to {len(self.blocks)}.",
                )
        _check_when(self.when)


@dataclass(frozen=True, slots=True)
class Status:
    """An error answer in place of a turn, in the API's own shape."""

    code: int
    type: str | None = None
    """The API's error type; the usual one for the code if not given."""
    message: str = "scripted error"
    headers: Mapping[str, str] = field(default_factory=dict)
    retry: bool = False
    """Let the client try again; without it the answer says `x-should-retry: false`."""
    when: When | None = None
    """Use this answer for a request that contains this text, or for which this function says yes."""

    def __post_init__(self) -> None:
        if not 400 <= self.code <= 599:
            raise TestingError(f"Status({self.code}) is no error", fix="Give a code from 400 to 599.")
        if self.type is None and self.code not in _ERROR_TYPES:
            known = ", ".join(map(str, _ERROR_TYPES))
            raise TestingError(
                f"Status({self.code}) has no usual error type", fix=f"Write type=…, or use one of: {known}"
            )
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(f"{name}:{value}"):
                raise TestingError(
                    f"Status: {name!r}: {value!r} is no header of an answer", fix='For example: {"retry-after": "3"}'
                )
        _check_when(self.when)

    @property
    def error_type(self) -> str:
        """The type the answer carries."""
        return self.type or _ERROR_TYPES[self.code]


Reply: TypeAlias = Turn | Status
TurnLike: TypeAlias = Sequence[Block] | Turn | Status | Callable[[Request], Sequence[Block] | Turn | Status]


def as_reply(turn: Any, *, place: str) -> Reply | Callable[[Request], Any]:
    """Return a turn in one of its three working forms; `place` names it in the error if it has none."""
    if isinstance(turn, Turn | Status) or callable(turn):
        return turn  # type: ignore[no-any-return]
    if isinstance(turn, Sequence) and not isinstance(turn, str | bytes):
        try:
            return Turn(turn)
        except TestingError as error:
            raise TestingError(f"{place}: {error.what}", where=error.where, fix=error.fix or _A_TURN_IS) from None
    raise TestingError(f"{place} is no turn: {_short(turn)}", fix=_A_TURN_IS)


def _check_blocks(blocks: Any) -> None:
    if not isinstance(blocks, Sequence) or isinstance(blocks, str | bytes):
        raise TestingError(f"a turn needs a list of blocks, not {_short(blocks)}", fix=_A_TURN_IS)
    for position, block in enumerate(blocks):
        if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
            raise TestingError(
                f"block {position} is no block: {_short(block)}",
                fix='Write text("…"), thinking("…"), tool_use("name", argument=…), or a dict with a "type".',
            )
        name = _FIELDS.get(block["type"], "type")
        if not isinstance(block.get(name), str):
            raise TestingError(
                f"block {position} needs {name!r} as str: {_short(block)}",
                fix=f"Write it with {block['type']}(…), which fills it in.",
            )


def _check_when(when: Any) -> None:
    if when is not None and not isinstance(when, str) and not callable(when):
        raise TestingError(
            f"when={_short(when)} is neither a text nor a function", fix='For example: when="the subagent\'s prompt"'
        )


def _short(value: Any) -> str:
    written = repr(value)
    return written if len(written) <= 80 else written[:77] + "..."
