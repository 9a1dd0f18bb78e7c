"""What happens in a run, as one flat list of events.

| stream | kinds | `id` is | what `data` holds |
|---|---|---|---|
| lifecycle | started | the run | turn, prompt, attachments (of the prompt, each with its file), message, model, |
| | | | session, cwd, tools, servers, mode, cli, trace, unenforced, limits (those that |
| | | | were given), verify (what verifies, in words) |
| | continued | the run | the same, of a further try of the same turn |
| | retry | the run | attempt, delay_ms, status, error; of a try of the launcher's also of, code, |
| | | | used (what the turn used beside its calls) |
| | warning | the run | what |
| | changed | the run | what (mode, model, thinking or servers), value: set while the run goes on |
| | checkpoint | the run | number, label, taken, turn, changed, snapshot, before, at: taken by the caller |
| | finished | the run | turn, ok, code, message, cause, text, output, session, model, stop, ms, cost, |
| | | | known_cost, gate_tokens, total, unattributed, models, turns, pending, |
| | | | denied (by the CLI itself, where no tool.ended says so), unenforced, verified, debug |
| | delivered | the run | branches, left, marks, or why there is no branch: after the last turn, if one was asked for |
| assistant | started | the message | model |
| | text, thinking | the message | text (one delta) |
| | block | the message | type (text or thinking), text (the whole block) |
| | ended | the message | stop, text (all its text) |
| tool | started | the call | name, arguments |
| | progress | the call | done, total, message; of a long tool of the CLI: the seconds it runs, None, "running" |
| | ended | the call | name, ok, text, ms, denied, reason (of a refusal), interrupted, |
| | | | deferred (only where it is) |
| usage | call | the message | the fields of a `Call` |
| approval | asked | the request | call, tool, input, read_only, reason, subject, remembers, suggestions, |
| | | | title, agent, blocked_path, cli_suggestions |
| | answered | the request | decision, message, by |
| gate | refused | the run | what, rule, why, fix (how to allow it), times (in this turn, until now) |
| compaction | started | the run | trigger |
| | ended | the run | trigger, before, after (tokens; None where it failed) |
| setup | started | the run | command, key, domains, inputs (the files it depends on), deadline |
| | output | the run | text (the lines it printed since) |
| | ended | the run | ok, command, key, made (or kept from before), ms; places, bytes and files of the |
| | | | layer, or why there is none |
| verify | started | the run | attempt, of, what, used (what the turn used beside its calls) |
| | ended | the run | attempt, passed, exit_code, output (its end), ms, ended_by, error (why it |
| | | | could not be judged), tokens, cost (of this attempt) |
| server | failed | the server | error, stderr (of one that is optional) |
| | changed | the server | tools (that it did not have when the run began) |

Order: a setup comes before the first turn; where its layer was there, it has only `ended`.
A turn begins with `lifecycle.started` and ends with `lifecycle.finished`. Where the
launcher tries again or verifies, several tries make up one turn: each further one begins
with `lifecycle.continued`.
A message's events stand between its `started` and `ended`, in the order the model
wrote them; the text before a tool call is complete (`block`) before that call's
`tool.started`. A tool starts and may end before the message that asked for it ends.
Every tool that started has ended before the turn is finished. What the gate refuses has
an event when it happens first, and one with the count at the end of the turn if it was
repeated; what it refuses after the last turn has none. `parent` is the tool
call a subagent works for, None for the main conversation.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Stream = Literal[
    "lifecycle", "assistant", "tool", "usage", "approval", "gate", "compaction", "setup", "server", "verify"
]

KINDS: dict[str, tuple[str, ...]] = {
    "lifecycle": ("started", "continued", "retry", "warning", "changed", "checkpoint", "finished", "delivered"),
    "assistant": ("started", "text", "thinking", "block", "ended"),
    "tool": ("started", "progress", "ended"),
    "usage": ("call",),
    "approval": ("asked", "answered"),
    "gate": ("refused",),
    "compaction": ("started", "ended"),
    "setup": ("started", "output", "ended"),
    "server": ("failed", "changed"),
    "verify": ("started", "ended"),
}


def as_line(value: Any) -> str:
    """A value as JSON on one line, in letters that every encoding of Unicode can write."""
    return line_bytes(value).decode()


def line_bytes(value: Any) -> bytes:
    """The same in UTF-8."""
    if _to_json is None and (plain := _plain_line(value)) is not None:
        return plain
    serialise = _to_json or _load_serialiser()
    try:
        return serialise(value)
    except ValueError:  # half a surrogate pair, as a model may send it
        from pydantic_core import to_jsonable_python

        return json.dumps(value, separators=(",", ":"), default=to_jsonable_python).encode()


_to_json: Callable[..., bytes] | None = None
"""The quicker serialiser, once it is there: a run has a line for every few letters of an answer."""


def _load_serialiser() -> Callable[..., bytes]:
    global _to_json
    from pydantic_core import to_json

    _to_json = to_json
    return to_json


def _plain_line(value: Any) -> bytes | None:
    """The same of plain values, without the quicker serialiser: loading that takes as long as a thousand lines.

    It comes with the SDK, while the model thinks. None where it is there, or where the value is not plain.
    """
    if "pydantic_core" in sys.modules:
        return None
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened in a run."""

    stream: Stream
    kind: str
    t: float
    """When, in seconds since the epoch."""
    run: str
    id: str
    """What it is about: a message, a tool call, an approval request, or the run."""
    parent: str | None = None
    """The tool call a subagent works for."""
    data: dict[str, Any] = field(default_factory=dict)
    trace: str | None = None
    """The caller's own id for the run, where one was given."""

    @property
    def name(self) -> str:
        """`stream.kind`, as the table above writes it."""
        return f"{self.stream}.{self.kind}"

    def to_json(self) -> str:
        """One line of `events.jsonl`."""
        return self.to_bytes().decode()

    def to_bytes(self) -> bytes:
        """The same in UTF-8."""
        plain = {
            "stream": self.stream,
            "kind": self.kind,
            "t": self.t,
            "run": self.run,
            "id": self.id,
            "parent": self.parent,
            "data": self.data,
        }
        return line_bytes(plain if self.trace is None else plain | {"trace": self.trace})

    @classmethod
    def from_json(cls, line: str | bytes) -> Event:
        """The event on one line of `events.jsonl`."""
        return cls(**json.loads(line))


PIECES = ("text", "thinking")
"""The kinds of a piece of an answer."""


class _Unfrozen:
    """An event in the making: a third of the time that one takes which is frozen from the first of its fields on."""

    __slots__ = Event.__slots__

    def __init__(self, kind: str, t: float, run: str, id: str, parent: str | None, text: str) -> None:
        self.stream = "assistant"
        self.kind = kind
        self.t = t
        self.run = run
        self.id = id
        self.parent = parent
        self.data = {"text": text}
        self.trace = None


def piece_of(kind: str, t: float, run: str, id: str, parent: str | None, text: str) -> Event:
    """A few letters of an answer: by far the most of the events there are."""
    piece: Any = _Unfrozen(kind, t, run, id, parent, text)
    piece.__class__ = Event
    return piece  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one model call, or of many."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        """All of them together."""
        return self.input + self.output + self.cache_read + self.cache_write

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(*(getattr(self, name) + getattr(other, name) for name in Tokens.__slots__))

    def __sub__(self, other: Tokens) -> Tokens:
        return Tokens(*(getattr(self, name) - getattr(other, name) for name in Tokens.__slots__))


@dataclass(frozen=True, slots=True)
class ModelUse:
    """What a run used of one model, subagents included, as the CLI counts it: calls that were cut off are not in it."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None
    """In US dollars; None where the CLI does not tell."""
    context_window: int | None = None
    """Tokens that the model can read at once."""
    max_output: int | None = None
    """Tokens that the model may write in one call."""

    @property
    def tokens(self) -> Tokens:
        """Its tokens alone."""
        return Tokens(self.input, self.output, self.cache_read, self.cache_write)

    def since(self, before: ModelUse | None) -> ModelUse:
        """What was used after `before`, of one running total."""
        return self if before is None else self._with(self.tokens - before.tokens, self.cost, -(before.cost or 0.0))

    def plus(self, more: ModelUse | None) -> ModelUse:
        """What was used in two turns together."""
        return self if more is None else self._with(self.tokens + more.tokens, self.cost, more.cost)

    def _with(self, tokens: Tokens, cost: float | None, change: float | None) -> ModelUse:
        cost = None if cost is None or change is None else cost + change
        counts = (tokens.input, tokens.output, tokens.cache_read, tokens.cache_write)
        return ModelUse(*counts, cost, self.context_window, self.max_output)


@dataclass(frozen=True, slots=True)
class Call:
    """One billable model call."""

    id: str
    """The message id the API gave it."""
    model: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    run: str
    attempt: int = 0

    @property
    def key(self) -> str:
        """The same for the same call whenever it is replayed, and for no other: what a bill may be keyed by."""
        return f"{self.run}/{self.attempt}/{self.id}"

    @property
    def tokens(self) -> Tokens:
        """Its tokens alone."""
        return Tokens(self.input, self.output, self.cache_read, self.cache_write)

    def as_data(self) -> dict[str, Any]:
        """The data of a `usage.call` event."""
        return asdict(self)
