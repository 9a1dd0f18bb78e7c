"""A result is a fold over the events of a run.

It is the same fold for a run that goes on, one that has finished, one that an exception
ended, one that was killed and one that is read from disk, so these cannot disagree.
Whatever only the end of a turn knows is in the event that ends it, `lifecycle.finished`,
and `Fold.end` makes that event. A turn without it has crashed.

Two things are not in the events, as no file can hold them: `changes`, which can be asked
of the workspace, and the Python type of `output`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from toolkit.errors import ToolkitError
from toolkit.runs.outcome.cause import cause_of
from toolkit.runs.outcome.codes import MESSAGES, Code, End, code_of
from toolkit.runs.outcome.events import Call, Event, ModelUse, Tokens
from toolkit.runs.outcome.result import (
    REFUSED_BY_CLI,
    Attempt,
    DeniedCall,
    FailedServer,
    PendingCall,
    RefusedRequest,
    RunResult,
    SetupUse,
    ToolUse,
)

if TYPE_CHECKING:
    from toolkit.runs.outcome.output import OutputShape
    from toolkit.runs.turn.ends import TurnEnd


@dataclass(slots=True)
class _Turn:
    """What the events of one turn tell."""

    facts: dict[str, Any] = field(default_factory=dict)
    """The latest known of what has one value: session, model, stop, unenforced."""
    said: str = ""
    saying: list[str] = field(default_factory=list)
    """The words of the message under way."""
    streaming: str | None = None
    """The message under way."""
    calls: list[Call] = field(default_factory=list)
    unattributed: Tokens = field(default_factory=Tokens)
    """Tokens of the turn that no call explains; only its end tells."""
    total: Tokens = field(default_factory=Tokens)
    open_calls: dict[str, None] = field(default_factory=dict)
    tools: list[ToolUse] = field(default_factory=list)
    open_tools: dict[str, Event] = field(default_factory=dict)
    denied: list[DeniedCall] = field(default_factory=list)
    refused: dict[tuple[str, str], RefusedRequest] = field(default_factory=dict)
    """What the gate refused, by request and rule, with the latest count."""
    failed_servers: dict[str, FailedServer] = field(default_factory=dict)
    setup: SetupUse | None = None
    began: float | None = None
    last: float = 0.0
    attempts: list[Attempt] = field(default_factory=list)
    retries: list[str] = field(default_factory=list)
    spent: dict[str, Any] = field(default_factory=dict)
    """What its tries used beside their calls, as far as that was told before the end."""
    end: dict[str, Any] | None = None
    """The data of `lifecycle.finished`."""

    @property
    def ms(self) -> int:
        if self.end is not None:
            return int(self.end["ms"])
        return 0 if self.began is None else round((self.last - self.began) * 1000)

    def verified(self, code: Code | None = None) -> bool | None:
        """Whether the verification passed, with which the turn ended; None where none was asked for."""
        if not self.attempts and not self.facts.get("verify"):
            return None
        return code == "ok" and bool(self.attempts) and self.attempts[-1].passed

    def known(self, name: str) -> Any:
        """What its end tells of its use, or what was told before one that did not come."""
        return (self.spent if self.end is None else self.end).get(name)

    def all_tools(self) -> list[ToolUse]:
        """The tools that ended, and those that were cut off."""
        cut_off = [
            ToolUse(id, event.data["name"], False, round((self.last - event.t) * 1000), event.parent, interrupted=True)
            for id, event in self.open_tools.items()
        ]
        return [*self.tools, *cut_off]

    def all_denied(self) -> list[DeniedCall]:
        """What was refused: as the calls ended, and what only the end of the turn tells."""
        return [*self.denied, *(DeniedCall(**each) for each in (self.end or {}).get("denied", ()))]


class Fold:
    """Fed the events of a run in order, it knows what the run came to until then."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._turns = [_Turn()]

    def feed(self, events: Iterable[Event]) -> None:
        """Take events in."""
        for event in events:
            take = _TAKERS.get((event.stream, event.kind))
            if take is not None:
                take(self._under_way(), event, event.data)
            self._turns[-1].last = event.t

    def feed_piece(self, piece: Event) -> None:
        """The same for a piece of an answer: by far the most of the events there are."""
        turn = self._turns[-1]
        if turn.end is not None:
            self.feed([piece])
            return
        if piece.kind == "text" and piece.parent is None:
            turn.saying.append(piece.data["text"])
        turn.last = piece.t

    def _under_way(self) -> _Turn:
        """The turn under way; a new one where the last has ended."""
        if self._turns[-1].end is not None:
            self._turns.append(_Turn())
        return self._turns[-1]

    def turn(self) -> RunResult[Any]:
        """The result of the last turn alone."""
        return self._result(self._turns[-1:])

    def result(self) -> RunResult[Any]:
        """The result of the run: how its last turn ended, and everything all turns used."""
        return self._result(self._turns)

    def _result(self, turns: list[_Turn]) -> RunResult[Any]:
        last = turns[-1]
        end = last.end or {}
        # Between two turns a run can fail, too; what it said and where it goes on is that of the turn before.
        heard = next((turn for turn in reversed(turns) if turn.began is not None), last)
        told = heard.end or {}
        total, unattributed = Tokens(), Tokens()
        for turn in turns:
            apart = Tokens() if turn.end is not None else Tokens(**turn.spent.get("unattributed", {}))
            total, unattributed = total + turn.total + apart, unattributed + turn.unattributed + apart
        through = [tokens for turn in turns if (tokens := turn.known("gate_tokens")) is not None]
        crash = {"calls_without_usage": list(last.open_calls)} if last.open_calls else {}
        return RunResult(
            run=self.run,
            code=end.get("code", "crashed"),
            cause=end.get("cause"),
            text=told.get("text", "".join(heard.saying) or heard.said),
            output=end.get("output"),
            session=told.get("session", heard.facts.get("session")),
            stop=told.get("stop", heard.facts.get("stop")),
            calls=tuple(call for turn in turns for call in turn.calls),
            total=total,
            unattributed=unattributed,
            cost=_all_of([None if turn.end is None else turn.end["cost"] for turn in turns]),
            known_cost=sum((turn.known("known_cost") or 0.0 for turn in turns), 0.0),
            models=_models(turns),
            turns=_all_of([None if turn.end is None else turn.end.get("turns") for turn in turns]),
            gate_tokens=sum(through) if through else None,
            ms=sum(turn.ms for turn in turns),
            tools=tuple(use for turn in turns for use in turn.all_tools()),
            denied=tuple(each for turn in turns for each in turn.all_denied()),
            refused=_together(each for turn in turns for each in turn.refused.values()),
            failed_servers=tuple({name: one for turn in turns for name, one in turn.failed_servers.items()}.values()),
            pending=tuple(PendingCall(**each) for each in end.get("pending", ())),
            setup=next((turn.setup for turn in turns if turn.setup is not None), None),
            unenforced=tuple(end.get("unenforced", last.facts.get("unenforced", ()))),
            model=told.get("model", heard.facts.get("model")),
            debug=end.get("debug", crash),
            verified=end.get("verified", last.verified()),
            attempts=tuple(one for turn in turns for one in turn.attempts),
            retries=tuple(code for turn in turns for code in turn.retries),
        )

    def end(self, code: Code, so_far: RunResult[Any] | None = None, **known: Any) -> Event:
        """The event that ends the turn: what its events tell, and what is known only now."""
        under_way = self._under_way()
        so_far = so_far or self._result([under_way])
        data: dict[str, Any] = {"turn": len(self._turns), "ok": code == "ok", "code": code, "message": MESSAGES[code]}
        data["cause"] = cause_of(code, known.get("debug", {}))
        data |= {name: getattr(so_far, name) for name in ("text", "session", "model", "stop", "ms")}
        # A turn that has not begun asked the model for nothing; what one cost that broke off nobody knows.
        data |= {
            "cost": 0.0 if under_way.began is None else None,
            "known_cost": under_way.spent.get("known_cost", 0.0),
            "models": under_way.spent.get("models", {}),
            "turns": None,
            "gate_tokens": under_way.spent.get("gate_tokens"),
            "verified": under_way.verified(code),
        }
        data |= {"output": None, "denied": [], "pending": [], "unenforced": list(so_far.unenforced), "debug": {}}
        unattributed = known.pop("unattributed", Tokens(**under_way.spent.get("unattributed", {})))
        data |= {"unattributed": asdict(unattributed), "total": asdict(under_way.total + unattributed)}
        return Event("lifecycle", "finished", time.time(), self.run, self.run, None, data | known)

    def failed(self, error: BaseException, more: dict[str, Any] | None = None) -> Event:
        """The event that ends a turn in which something was raised; `more` are raw texts that tell of it."""
        more = more or {}
        # What the jail was ended for is why the CLI, which could not even begin, is gone.
        guard: Code | None = "budget" if more.get("exceeded") and not isinstance(error, ToolkitError) else None
        end = End(error=type(error).__name__, guard=guard, detail=f"{error}\n{more.get('stderr', '')}".rstrip())
        code = "bad_request" if is_refusal(error) else code_of(end)
        return self.end(code, debug={"error": end.error, "detail": str(error), **more})

    def finished(self, turn: TurnEnd, shape: OutputShape | None) -> tuple[Event, Any]:
        """The event that ends a turn which was seen through, and its output as the type that was asked for."""
        message, end, debug = turn.message, turn.end, dict(turn.debug)
        used = turn.used
        known: dict[str, Any] = {"ms": turn.ms, "cost": used.cost, "known_cost": used.known_cost}
        known |= {"unattributed": used.unattributed, "models": {name: asdict(one) for name, one in used.models.items()}}
        known |= {"gate_tokens": turn.gate_tokens, "unenforced": list(turn.unenforced), "debug": debug}
        if message is None:
            return self.end(code_of(end), **known), None
        output = None
        if shape is not None and not message.is_error:
            try:
                output = shape.parse(message.structured_output)
                known["output"] = _plain(output, message.structured_output)
            except ValueError as error:
                end = dataclasses.replace(end, output_missing=True)
                debug |= {"output": str(error), "said": message.result}
        so_far = self._result([self._under_way()])
        # The CLI's result holds only the last block of the last message: taken where it is not the end of the text.
        is_answer = not message.is_error and end.kept_back is None
        if is_answer and message.result and not so_far.text.endswith(message.result):
            known["text"] = message.result
        known["session"] = message.session_id or so_far.session
        known["turns"] = turn.rounds
        # The CLI gives its own text for an API error a stop reason, and tells the one before for a call cut off.
        is_no_answer = (message.is_error and message.subtype == "success") or end.terminal_reason == "aborted_streaming"
        known["stop"] = None if is_no_answer else message.stop_reason or so_far.stop
        told = {call.id for call in so_far.denied}
        known["denied"] = [
            asdict(DeniedCall(denial["tool_use_id"], denial["tool_name"], REFUSED_BY_CLI))
            for denial in message.permission_denials or ()
            if denial["tool_use_id"] not in told
        ]
        known["pending"] = [asdict(call) for call in turn.pending]  # the CLI tells of the last one only
        return self.end(code_of(end), so_far, **known), output


def result_of(run: str, events: Iterable[Event]) -> RunResult[Any]:
    """The result that the events of a run tell; `crashed` where its last turn did not finish."""
    told = Fold(run)
    told.feed(events)
    return told.result()


def never_began(run: str, why: BaseException | Code, detail: str = "") -> RunResult[Any]:
    """The result of a run that an exception, or a code, ended before it began."""
    told = Fold(run)
    told.feed([told.end(why, debug={"detail": detail}) if isinstance(why, str) else told.failed(why)])
    return told.result()


def is_refusal(error: BaseException) -> bool:
    """Whether an error of ours says that the run cannot be as asked; one that has a code of its own is a result."""
    return isinstance(error, ToolkitError) and code_of(End(error=type(error).__name__)) == "internal"


def _all_of(parts: list[Any]) -> Any:
    """The sum; None where a part is not known."""
    return None if any(part is None for part in parts) else sum(parts)


def _models(turns: list[_Turn]) -> dict[str, ModelUse]:
    together: dict[str, ModelUse] = {}
    for turn in turns:
        for name, used in (turn.known("models") or {}).items():
            together[name] = ModelUse(**used).plus(together.get(name))
    return together


def _plain(output: Any, given: Any) -> Any:
    """An output as JSON can hold it: as its type writes it, else as the model gave it."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(output)
    except PydanticSerializationError:
        return given


def _together(refused: Iterable[RefusedRequest]) -> tuple[RefusedRequest, ...]:
    """The refusals of several turns, each once."""
    sums: dict[tuple[str, str], RefusedRequest] = {}
    for one in refused:
        before = sums.get((one.what, one.rule))
        sums[one.what, one.rule] = one if before is None else dataclasses.replace(one, times=before.times + one.times)
    return tuple(sums.values())


def _turn_started(turn: _Turn, event: Event, data: dict[str, Any]) -> None:
    turn.began = event.t
    turn.facts |= {name: data[name] for name in ("session", "model", "unenforced", "verify") if name in data}


def _try_continued(turn: _Turn, event: Event, data: dict[str, Any]) -> None:
    turn.began = event.t if turn.began is None else turn.began
    turn.facts |= {name: data[name] for name in ("session", "model", "unenforced", "verify") if name in data}


def _spent(turn: _Turn, event: Event, data: dict[str, Any]) -> None:
    turn.spent = data.get("used") or turn.spent
    if data.get("code") is not None:
        turn.retries.append(data["code"])


def _attempted(turn: _Turn, event: Event, data: dict[str, Any]) -> None:
    turn.attempts.append(Attempt.of(data))


def _turn_finished(turn: _Turn, event: Event, data: dict[str, Any]) -> None:
    turn.end, turn.unattributed, turn.total = data, Tokens(**data["unattributed"]), Tokens(**data["total"])


def _message_started(turn: _Turn, event: Event, data: dict[str, Any]) -> None:
    turn.open_calls[event.id] = None
    turn.facts["model"] = data.get("model", turn.facts.get("model"))
    if event.parent is None:
        turn.streaming, turn.saying, turn.facts["stop"] = event.id, [], None


def _piece(turn: _Turn, event: Event, data: dict[str, Any]) -> None:
    if event.parent is None:
        turn.saying.append(data["text"])


def _block(turn: _Turn, event: Event, data: dict[str, Any]) -> None:
    if event.parent is None and data["type"] == "text" and event.id != turn.streaming:
        turn.said = data["text"]


def _message_ended(turn: _Turn, event: Event, data: dict[str, Any]) -> None:
    if event.parent is None:
        turn.facts["stop"] = data["stop"]
        turn.said, turn.saying, turn.streaming = data["text"] or turn.said, [], None


def _call(turn: _Turn, event: Event, data: dict[str, Any]) -> None:
    turn.open_calls.pop(event.id, None)
    call = Call(**data)
    turn.calls.append(call)
    turn.total += call.tokens


def _tool_started(turn: _Turn, event: Event, data: dict[str, Any]) -> None:
    turn.open_tools[event.id] = event


def _tool_ended(turn: _Turn, event: Event, data: dict[str, Any]) -> None:
    turn.open_tools.pop(event.id, None)
    turn.tools.append(
        ToolUse(event.id, data["name"], data["ok"], data["ms"], event.parent, data.get("interrupted", False))
    )
    if data["denied"]:
        turn.denied.append(DeniedCall(event.id, data["name"], data.get("reason") or data["text"]))


def _setup_ended(turn: _Turn, event: Event, data: dict[str, Any]) -> None:
    if data["ok"]:
        known = {name: data[name] for name in ("key", "command", "made", "ms", "bytes")}
        turn.setup = SetupUse(**known, places=tuple(data["places"]))


def _refused(turn: _Turn, event: Event, data: dict[str, Any]) -> None:
    turn.refused[data["what"], data["rule"]] = RefusedRequest(**data)


def _server_failed(turn: _Turn, event: Event, data: dict[str, Any]) -> None:
    told = str(data.get("error") or ""), str(data.get("stderr") or "")
    turn.failed_servers[event.id] = FailedServer(event.id, *told)


_TAKERS = {
    ("lifecycle", "started"): _turn_started,
    ("lifecycle", "continued"): _try_continued,
    ("lifecycle", "retry"): _spent,
    ("verify", "started"): _spent,
    ("verify", "ended"): _attempted,
    ("lifecycle", "finished"): _turn_finished,
    ("assistant", "started"): _message_started,
    ("assistant", "text"): _piece,
    ("assistant", "block"): _block,
    ("assistant", "ended"): _message_ended,
    ("usage", "call"): _call,
    ("tool", "started"): _tool_started,
    ("tool", "ended"): _tool_ended,
    ("gate", "refused"): _refused,
    ("server", "failed"): _server_failed,
    ("setup", "ended"): _setup_ended,
}
