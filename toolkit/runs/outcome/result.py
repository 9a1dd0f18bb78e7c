"""`RunResult`: what a run came to, in one value."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

from toolkit.errors import RunError
from toolkit.runs.outcome.codes import MESSAGES, Code
from toolkit.runs.outcome.events import Call, ModelUse, Tokens

if TYPE_CHECKING:
    from toolkit.runs.delivery import DeliveryOptions
    from toolkit_workspace import Changes
    from toolkit_workspace.delivering import Delivered

OutputT = TypeVar("OutputT")


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One tool call of a run, without its arguments and result: those are in the events."""

    id: str
    name: str
    ok: bool
    ms: int
    parent: str | None = None
    interrupted: bool = False
    """Whether it was ended by an interrupt, a deadline, or the end of the run."""


@dataclass(frozen=True, slots=True)
class SetupUse:
    """The layer that a run worked with."""

    key: str
    """Its name: `toolkit setups show KEY`."""
    command: str
    """What made it."""
    made: bool
    """Whether it was made for this run; else it was there."""
    ms: int
    """How long that took."""
    places: tuple[str, ...] = ()
    """The folders it has, relative to the workspace."""
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class FailedServer:
    """An optional server that did not start, so that the run went on without it."""

    name: str
    error: str
    """Why, in one line."""
    stderr: str = ""
    """Its last words, as it wrote them: nothing to show without `safe_lines`."""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A tool call that was put off for the caller to answer."""

    id: str
    name: str
    arguments: dict[str, Any]


REFUSED_BY_CLI = "refused by the CLI"


@dataclass(frozen=True, slots=True)
class DeniedCall:
    """A tool call that was refused, and why."""

    id: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """Something that wanted out of the jail and was refused by the gate. The texts are safe to print."""

    what: str
    """The request, for example `CONNECT example.com:443`."""
    rule: str
    """Which rule refused it, as a word: domain, address, path, spend, …"""
    why: str
    fix: str
    """How to allow it, or why nothing does."""
    times: int = 1


@dataclass(frozen=True, slots=True)
class Attempt:
    """One verification of the agent's work, and what the work before it used."""

    passed: bool
    exit_code: int | None = None
    """Of the command; None where a function or a tool judged, or nothing could be."""
    output: str = field(default="", repr=False)
    """The end of what it printed, made safe."""
    ms: int = 0
    """How long the verification took."""
    tokens: Tokens = field(default_factory=Tokens)
    """What the agent used since the attempt before."""
    cost: float | None = None
    """The same in US dollars; None where it is not known."""
    ended_by: str | None = None
    """`deadline`, or the limit of the machine that it was ended for."""
    error: str | None = None
    """Why nothing could be judged."""

    @classmethod
    def of(cls, data: dict[str, Any]) -> Attempt:
        """The attempt of an event, or of a stored result."""
        plain = {name: value for name, value in data.items() if name in cls.__slots__}
        return cls(**{**plain, "tokens": Tokens(**data["tokens"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(Generic[OutputT]):
    """What a run came to. `ok` is true for one code only: `ok`."""

    run: str
    """The run's id: `toolkit runs show RUN`."""
    code: Code
    cause: str | None = None
    """Why it ended so, where more is known than the code says: one line, safe to show. Raw texts are in `debug`."""
    verified: bool | None = None
    """Whether the launcher's own verification passed; None where none was asked for."""
    attempts: tuple[Attempt, ...] = field(default=(), repr=False)
    """Every verification, in order."""
    retries: tuple[str, ...] = ()
    """The codes of the failures after which it was tried again."""
    text: str = ""
    """The model's last words; what it had said so far, when the run ended early."""
    output: OutputT | None = None
    """The structured output, of the type asked for."""
    session: str | None = None
    """The conversation, for resuming it."""
    stop: str | None = None
    """Why the model stopped, in the API's words."""
    calls: tuple[Call, ...] = field(default=(), repr=False)
    """Every model call of the main conversation, exact."""
    total: Tokens = field(default_factory=Tokens, repr=False)
    """All tokens of the run, subagents and compaction included."""
    unattributed: Tokens = field(default_factory=Tokens, repr=False)
    """The part of `total` that no call explains."""
    cost: float | None = None
    """In US dollars, as the CLI counts it; None where not all is known: a call was cut off, or the run crashed."""
    known_cost: float = 0.0
    """The part of the cost that is known: the run cost at least this."""
    models: dict[str, ModelUse] = field(default_factory=dict, repr=False)
    """What was used of each model, as far as the CLI told."""
    turns: int | None = None
    """Rounds of model and tools, as the CLI counts them; None where it did not tell."""
    gate_tokens: int | None = None
    """All tokens as the gate counted them, for a limit on tokens: also those of calls that the agent's own programs
    made, and an estimate for calls that were cut off. None where there was no gate, or it is not known."""
    ms: int = 0
    tools: tuple[ToolUse, ...] = field(default=(), repr=False)
    denied: tuple[DeniedCall, ...] = field(default=(), repr=False)
    refused: tuple[RefusedRequest, ...] = field(default=(), repr=False)
    """What the gate did not let out of the jail."""
    failed_servers: tuple[FailedServer, ...] = field(default=(), repr=False)
    """The optional servers that it went on without."""
    pending: tuple[PendingCall, ...] = field(default=(), repr=False)
    changes: Changes | None = field(default=None, repr=False)
    """What the agent changed in the workspace; None where that is not known: it worked in place, or looking failed."""
    setup: SetupUse | None = field(default=None, repr=False)
    """What its setup made; None where it had none, or that failed."""
    unstored: str | None = None
    """Why the end of the run could not be written down, in words: a full disk, say. None where it was."""
    delivery: dict[str, Any] | None = field(default=None, repr=False)
    """What became of `RunSpec.branch`: its `branches`, or `why` there are none. None if it was not asked for."""
    folder: Path | None = field(default=None, repr=False, compare=False)
    """Where the run is stored; None where it is not known."""
    unenforced: tuple[str, ...] = ()
    """Limits that were asked for and cannot be enforced on this machine."""
    model: str | None = None
    debug: dict[str, Any] = field(default_factory=dict)
    """Raw causes for people who look into a failure: never shown by default."""

    @property
    def ok(self) -> bool:
        """Whether the run did what was asked."""
        return self.code == "ok"

    @property
    def message(self) -> str:
        """One fixed sentence for the code."""
        return MESSAGES[self.code]

    def raise_for_status(self) -> RunResult[OutputT]:
        """This result, if it is ok.

        Raises:
            RunFailedError: it is not; the result is its `result`.
        """
        if not self.ok:
            raise RunFailedError(self)
        return self

    def branch(self, name: str | None = None, **options: Unpack[DeliveryOptions]) -> Delivered:
        """Make its changes a branch of the host's repository, as `StoredRun.branch` does.

        Raises:
            RunError: it is not stored here, or as `StoredRun.branch`.
            WorkspaceError: as `StoredRun.branch`.
        """
        from toolkit.runs.storage.stored_run import StoredRun

        if self.folder is None:
            raise RunError(
                f"it is not known where run {self.run} is stored", fix="Write: load_run(result.run).branch()"
            )
        return StoredRun(self.folder).branch(name, **options)

    def to_data(self) -> dict[str, Any]:
        """JSON-ready: what `result.json` holds. `changes` is stored beside it, as the workspace and its record."""
        data: dict[str, Any] = {name: getattr(self, name) for name in _PLAIN}
        data["models"] = {name: asdict(used) for name, used in self.models.items()}
        data["ok"], data["message"] = self.ok, self.message
        data["total"], data["unattributed"] = asdict(self.total), asdict(self.unattributed)
        data["setup"] = None if self.setup is None else asdict(self.setup)
        for name in (*_LISTS, "attempts"):
            data[name] = [asdict(item) for item in getattr(self, name)]
        return data

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> RunResult[Any]:
        """The result that `to_data` gave; its output stays plain data."""
        plain = {name: value for name, value in data.items() if name not in ("ok", "message")}
        plain["total"], plain["unattributed"] = Tokens(**data["total"]), Tokens(**data["unattributed"])
        plain["unenforced"] = tuple(data["unenforced"])
        plain["retries"] = tuple(data.get("retries", ()))
        plain["models"] = {name: ModelUse(**used) for name, used in data.get("models", {}).items()}
        setup = data.get("setup")
        plain["setup"] = None if setup is None else SetupUse(**{**setup, "places": tuple(setup["places"])})
        for name, kind in _LISTS.items():
            plain[name] = tuple(kind(**item) for item in data.get(name, ()))
        plain["attempts"] = tuple(Attempt.of(item) for item in data.get("attempts", ()))
        return cls(**plain)


_LISTS: dict[str, Any] = {
    "calls": Call,
    "tools": ToolUse,
    "denied": DeniedCall,
    "refused": RefusedRequest,
    "failed_servers": FailedServer,
    "pending": PendingCall,
}

_PLAIN = (
    *("run", "code", "cause", "text", "output", "session", "stop", "cost", "known_cost", "gate_tokens", "turns", "ms"),
    *("unstored", "delivery", "unenforced", "model", "debug", "verified", "retries"),
)
"""The fields that JSON holds as they are."""


class RunFailedError(RunError):
    """A run that did not end well, for people who prefer exceptions."""

    def __init__(self, result: RunResult[Any]) -> None:
        where = [] if result.cause is None else [result.cause]
        super().__init__(f"run {result.run}: {result.message}", where=where, fix=f"See: toolkit runs show {result.run}")
        self.result = result
        self.code = result.code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.result,)
