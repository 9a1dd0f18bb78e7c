"""One CLI process of a run: opened in its jail, asked turn by turn, and gone when it is closed.

The engine gives facts: the events as they happen and how each turn ended. What
they mean for the caller is decided in `outcome`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claude_agent_sdk import ClaudeSDKClient, ResultMessage, SystemMessage
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST

from toolkit._base.handles import remove_folder
from toolkit.errors import RunError
from toolkit.runs.asking.approvals import Approvals
from toolkit.runs.asking.guard import Guard, before_deadline, only_offered, within_budget
from toolkit.runs.asking.own_hooks import OwnHooks
from toolkit.runs.outcome.codes import Code, End
from toolkit.runs.outcome.events import Event, Stream
from toolkit.runs.outcome.result import PendingCall
from toolkit.runs.prompts import Asked
from toolkit.runs.sessions.transcripts import SessionId, held, sessions_home
from toolkit.runs.spec import RunSpec
from toolkit.runs.storage.place import Place
from toolkit.runs.turn.controls import Controls
from toolkit.runs.turn.meter import TurnUsage
from toolkit.runs.turn.options import confine_run, make_options, native_tools, offered, session_options
from toolkit.runs.turn.refusals import GateRefusals
from toolkit.runs.turn.servers import Servers, check_patterns
from toolkit.runs.turn.translate import Translator, Work
from toolkit.sandbox import Confinement
from toolkit.tools import Budget, Deadline, Toolbox, ToolContext

if TYPE_CHECKING:
    from toolkit.telemetry import RunTrace

_PATIENCE = 2.0
"""Seconds between asking the CLI to stop and making it."""
TICK = 5.0
"""Seconds after which a tool of the CLI that still runs is told to do so, and again after as many."""
_STDERR_LINES, _STDERR_WIDTH = 50, 500


Emit = Callable[..., None]
"""Takes events, in order."""


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How one turn ended: all that its events do not tell."""

    end: End
    message: ResultMessage | None
    used: TurnUsage
    gate_tokens: int | None
    """Tokens that went through the gate since the turn before; None without a gate."""
    ms: int
    unenforced: tuple[str, ...]
    debug: dict[str, Any]
    pending: tuple[PendingCall, ...] = ()
    """The tool calls that were left to the caller."""


class Engine:
    """The CLI in its jail, between `open` and `close`."""

    def __init__(
        self,
        spec: RunSpec,
        boxes: list[Toolbox],
        place: Place,
        home: Path,
        emit: Emit,
        approvals: Approvals,
        locks: AsyncExitStack,
        trace: RunTrace | None = None,
    ) -> None:
        self._spec = spec
        self._boxes = boxes
        self._place = place
        self._home = home
        self._emit = emit
        self._stack = AsyncExitStack()
        self._locks = locks
        """Takes what holds a conversation, until nothing of the run is left."""
        self._trace = trace
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        """The last lines the CLI wrote there: often the only place that names a cause."""
        self._client: ClaudeSDKClient | None = None
        self._jail: Confinement | None = None
        self._gate_tokens = 0
        self._turn = 0
        self._greeted = 0
        self.greeted = asyncio.Event()
        """Set once the CLI has told how it runs, or a turn has ended without that."""
        self.is_over = False
        """Whether no further turn can be had: the CLI is gone, or is not to be trusted with one."""
        self._prompt: dict[str, Any] = {}
        self._distrust: End | None = None
        self._is_unwanted = False
        """Whether the turn is to be interrupted as soon as it has begun."""
        self._interrupting: asyncio.Future[None] | None = None
        self.prompts: list[str] = []
        """The message ids of the prompts sent so far: where `rewind` can go back to."""
        self.deadline: Deadline | None = None
        self.budget = Budget(spec.limits.tokens)
        self._session: str | None = None
        self._translator = Translator(spec.run_id, time.time)
        self._refusals = GateRefusals(lambda **data: self._tell("gate", "refused", spec.run_id, **data))
        self._servers = Servers(spec, self._tell)
        self._native = native_tools(spec, approvals.policy)
        names = [box.name for box in boxes]
        self.controls = Controls(approvals, names, self._servers, offered(self._native, boxes))
        self.controls.on_change = lambda what, value: self._tell(
            "lifecycle", "changed", spec.run_id, what=what, value=value
        )
        rules = [
            only_offered(self.controls.offered),
            before_deadline(lambda: self.deadline),
            within_budget(self._counted),
            approvals.rule,
        ]
        self.guard = Guard(rules, self._translator.denied)
        self.guard.own = OwnHooks(spec.hooks) if spec.hooks else None
        self._approvals = approvals
        approvals.on_refusal, approvals.agent_of = self.guard.refused, self.guard.agents.get
        self.guard.resumed_in = None if spec.resume is None else approvals.policy.cli_mode
        self.guard.on_left_over = self._translator.take_up
        self._translator.deferred = self.guard.deferred
        if spec.transport is None:  # frames that somebody wrote have run nothing
            self._translator.judged = self.guard.judged
        approvals.doubt = self._servers.doubt

    async def open(self) -> None:
        """Start the CLI, with the session it is to go on with.

        Raises:
            UnconfinedError: the jail is not certain; nothing was started.
            NoSessionError: there is no such session.
            ServerFailedError: a server that the run needs did not start.
            OptionError: a pattern about a server that means none of its tools.
            ClaudeSDKError: the CLI could not be started.
        """
        spec = self._spec
        more = await session_options(spec, self._home, self._place.start)
        if spec.transport is None:
            jail = confine_run(spec, self._native, self._place, self._home)
            self._jail = await self._stack.enter_async_context(jail)
            self._jail.gate.on_refused = self._refusals.take
        options = make_options(
            spec,
            self._boxes,
            self.guard,
            self._approvals,
            native=self._native,
            jail=self._jail,
            folder=self._place.folder,
            make_context=self._context,
            stderr=lambda line: self._stderr.append(line.rstrip("\n")[:_STDERR_WIDTH]),
            more=more,
            variables=None if self._trace is None else self._trace.variables(),
        )
        take_options = getattr(spec.transport, "take_options", None)
        if take_options is not None:  # a FakeCLI has no command line to read them from
            take_options(options)
        self._client = ClaudeSDKClient(options, transport=spec.transport)
        self._stack.push_async_callback(self._disconnect)
        await self._client.connect()
        if spec.transport is None:  # a transport that starts nothing has no servers to wait for
            await self._servers.start(self._client, self._home)
        await check_patterns(self._client, spec, self._approvals.policy)

    async def close(self) -> None:
        """End the process and everything in its jail; nothing survives."""
        try:
            await self._stack.aclose()
        finally:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(remove_folder, self._home)

    @property
    def client(self) -> ClaudeSDKClient:
        """The SDK's client, once open."""
        assert self._client is not None, "the engine is not open"
        return self._client

    async def turn(self, prompt: Asked, attachments: Sequence[Mapping[str, Any]] = ()) -> TurnEnd:
        """Send a prompt and see it through to its end, within the deadline; `attachments` are where they are kept."""
        self._turn += 1
        self._prompt = {"prompt": prompt.text, "attachments": list(attachments)}
        self.prompts.append(str(uuid.uuid4()))
        seconds = self._spec.limits.seconds
        self.deadline = None if seconds is None else Deadline.after(seconds)
        self.guard.begin_turn()
        self._approvals.begin()
        began = time.monotonic()
        pump, ticking = asyncio.create_task(self._pump(prompt)), asyncio.create_task(self._tick())
        try:
            await asyncio.wait({pump}, timeout=seconds)
            if not pump.done():
                await self._stop(pump, "deadline")
            elif self.deadline is not None and self.deadline.remaining() <= 0:
                self.guard.stop("deadline")  # a tool that the deadline ended let the model go on for a moment
        finally:
            ticking.cancel()
            self._approvals.cancel()
            message, end = await _finished(pump)
            # Without its result a turn may still be under way in there, and its end would pass for that of the next.
            self.is_over = message is None
            self._is_unwanted = False
            self.greeted.set()
            self._refusals.end()
            self._emit(*self._translator.close())
            if self._jail is not None:
                self._jail.tidy()
        reported = (message.model_usage, message.total_cost_usd) if message is not None else (None, None)
        used = self._translator.meter.close_turn(*reported, has_begun=self._greeted == self._turn)
        ms = round((time.monotonic() - began) * 1000)
        debug = self._debug(message, end)
        gate_tokens = self._through_the_gate()
        pending = tuple(PendingCall(call, *asked) for call, asked in self.guard.deferred.items())
        return TurnEnd(self._judged(end), message, used, gate_tokens, ms, self._unenforced(), debug, pending)

    async def interrupt(self) -> None:
        """End the turn under way, or about to begin; the conversation goes on."""
        if self._greeted < max(1, self._turn):  # the prompt is on its way, and an interrupt before it would be lost
            self._is_unwanted = True
        else:
            await self._interrupt_now()

    async def _interrupt_now(self) -> None:
        self._approvals.cancel()
        self._translator.interrupting()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.client.interrupt(), _PATIENCE)

    async def _tick(self) -> None:
        """Tell that a tool of the CLI goes on: the SDK drops what the CLI says of it."""
        while True:
            await asyncio.sleep(TICK)
            events = self._translator.tick(TICK, {question.call for question in self._approvals.pending})
            with contextlib.suppress(OSError):  # a full disk: the next event of the turn says so
                if events:
                    self._emit(*events)

    async def _pump(self, prompt: Asked) -> tuple[ResultMessage | None, End]:
        work, early = Work(), list[Event]()
        try:
            await self.client.query(_frames(prompt, self.prompts[-1]))
            async for message in self.client.receive_messages():
                if isinstance(message, SystemMessage) and message.subtype == "init":
                    self._greet(message.data)
                if isinstance(message, ResultMessage) and self.guard.continues:
                    self._end_left_over()
                    work = Work()
                    continue
                events, result = self._translator.feed(message), work.done(message)
                if self._translator.unasked is not None:
                    self._end_unasked(self._translator.unasked)
                early += events
                if early and (self._greeted == self._turn or not self.guard.continues):
                    self._emit(*early)  # a call that was left over comes before the greeting, and is told after it
                    early.clear()
                if self._distrust is not None:
                    return None, self._distrust
                if result is not None:
                    return result, _end_of(result)
        except Exception as error:
            return None, End(error=type(error).__name__, detail=f"{error}\n{self._stderr_text()}".rstrip())
        finally:
            self._emit(*early)
        return None, End(error="ProcessError", detail=self._stderr_text())

    def _end_left_over(self) -> None:
        """What the session had left over is over, whatever became of it; the prompt of this run comes now."""
        self.guard.continues = False
        self.guard.deferred.clear()

    def _stderr_text(self) -> str:
        return "\n".join(self._stderr)

    def _greet(self, init: Mapping[str, Any]) -> None:
        """Check that the CLI runs as it was told to; only then may tools run."""
        servers = {server["name"]: server["status"] for server in init.get("mcp_servers", ())}
        missing = sorted(name for name in self.controls.wanted if servers.get(name) not in ("connected", "pending"))
        mode = init.get("permissionMode")
        self._session = init.get("session_id")
        if self._greeted < self._turn:  # the CLI greets again when a subagent's end wakes it
            if self._greeted == 0:
                self._hold(self._session)
            self._greeted = self._turn
            if self._is_unwanted:
                self._is_unwanted = False
                self._interrupting = asyncio.ensure_future(self._interrupt_now())
            self._started(init, servers)
            self._refusals.begin()
            self._servers.begin()
        self._servers.look(init.get("tools", ()))
        if not self.controls.is_expected(mode):
            what = f"the permission mode is {mode}, not {self.controls.mode}"
            self._end_untrusted("unconfined", "UnconfinedError", what)
        elif missing:
            what = f"these servers do not run: {', '.join(missing)}"
            self._end_untrusted("server_failed", "ServerFailedError", what)
        else:
            self.guard.armed = True
        self.greeted.set()

    def _end_untrusted(self, code: Code, error: str, why: str) -> None:
        """Let no tool run, and end the turn: the CLI is not as it was told to be."""
        self._distrust = End(error=error, guard=code, detail=why)
        self.guard.stop(code)
        self._tell("lifecycle", "warning", self._spec.run_id, what=why)

    def _end_unasked(self, what: str) -> None:
        """A tool ran, or was about to, that the guard did not let pass: whatever the reason, its rules do not hold."""
        if self._distrust is None:
            self._end_untrusted(
                "unconfined", "UnconfinedError", f"the CLI ran {what} without permission: its hooks do not hold"
            )

    def _hold(self, session: Any) -> None:
        """Keep others from a conversation that began here: only a resumed one is held already."""
        if self._spec.transport is None and (self._spec.resume is None or self._spec.fork):
            with contextlib.suppress(RunError, OSError):  # no id, or no disk: then nobody can resume it either
                self._locks.enter_context(held(sessions_home(self._spec.home), SessionId(session)))

    def _started(self, init: Mapping[str, Any], servers: dict[str, str]) -> None:
        facts: dict[str, Any] = {"turn": self._turn, **self._prompt, "message": self.prompts[-1]}
        facts |= {"model": init.get("model"), "session": self._session, "cwd": init.get("cwd")}
        facts |= {"tools": init.get("tools", []), "servers": servers, "mode": init.get("permissionMode")}
        facts |= {
            "cli": init.get("claude_code_version"),
            "trace": self._spec.trace,
            "unenforced": list(self._unenforced()),
            "limits": self._spec.limits.given(),
        }
        self._tell("lifecycle", "started", self._spec.run_id, **facts)

    def _tell(self, stream: Stream, kind: str, id: str, **data: Any) -> None:
        self._emit(self._translator.event(stream, kind, id, **data))

    def _unenforced(self) -> tuple[str, ...]:
        """Limits asked for that this machine cannot enforce."""
        return () if self._jail is None else self._jail.report.not_enforced

    async def _stop(self, pump: asyncio.Task[Any], code: Code) -> None:
        """Ask, wait, then make it: whatever was said until now is kept."""
        self.guard.stop(code)
        await self._interrupt_now()
        await asyncio.wait({pump}, timeout=_PATIENCE)

    def _judged(self, end: End) -> End:
        """The end, with our own reasons first."""
        guard = self.guard.stopped
        if guard is None and self._jail is not None and self._jail.exceeded is not None:
            guard = "budget"
        if guard is None and end.is_error and self._counted().remaining() == 0:
            guard = "budget"  # the gate passed no further request on
        return dataclasses.replace(end, guard=end.guard or guard)

    def _debug(self, message: ResultMessage | None, end: End) -> dict[str, Any]:
        debug: dict[str, Any] = {"error": end.error, "detail": end.detail}
        if message is not None:
            debug |= {
                "subtype": message.subtype,
                "terminal_reason": message.terminal_reason,
                "api_status": message.api_error_status,
                "errors": message.errors,
                "result": message.result if message.is_error else None,
            }
        return {name: value for name, value in debug.items() if value} | self.raw_causes()

    def raw_causes(self) -> dict[str, Any]:
        """What the process and its jail told beside the messages."""
        causes: dict[str, Any] = {"stderr": self._stderr_text()}
        if self._jail is not None:
            causes["exceeded"] = None if self._jail.exceeded is None else str(self._jail.exceeded)
        return {name: value for name, value in causes.items() if value}

    def _context(self, call: str) -> ToolContext:
        """What one call of an in-process tool can know and report.

        Raises:
            MCPError: the guard did not let this call pass; so it is not run.
        """
        if not self.guard.judged.get(call, False):
            self._end_unasked("a tool of this process")
            raise MCPError(INVALID_REQUEST, "The call was not permitted")
        if self._trace is not None:
            self._trace.enter(call)

        def on_progress(done: float, total: float | None, message: str | None) -> None:
            self._tell("tool", "progress", call, done=done, total=total, message=message)

        return ToolContext(
            call_id=call,
            on_progress=on_progress,
            deadline=self.deadline,
            budget=self._counted(),
            session=self._session,
            workspace=self._place.working_folder,
            env=dict(self._spec.env),
            paths=self._place,
        )

    def _counted(self) -> Budget:
        """The budget with what is used up to now: by the calls we saw, or by all that went through the gate."""
        gate = 0 if self._jail is None else self._jail.gate.usage.tokens
        self.budget.used = max(self._translator.meter.used.total, gate)
        return self.budget

    def _through_the_gate(self) -> int | None:
        if self._jail is None:
            return None
        before, self._gate_tokens = self._gate_tokens, self._jail.gate.usage.tokens
        return self._gate_tokens - before

    async def _disconnect(self) -> None:
        """Close the client; when it does not close in time, the end of the jail makes it."""
        task = asyncio.ensure_future(self.client.disconnect())
        done, _ = await asyncio.wait({task}, timeout=_PATIENCE)
        if not done and self._jail is not None:
            await asyncio.to_thread(self._jail.kill)
            await asyncio.wait({task}, timeout=_PATIENCE * 5)
        if task.done() and not task.cancelled():
            task.exception()
        else:
            task.cancel()


async def _frames(prompt: Asked, message: str) -> AsyncIterator[dict[str, Any]]:
    """The prompt as one frame with an id of ours, so that files can be set back to it."""
    yield {
        "type": "user",
        "uuid": message,
        "message": {"role": "user", "content": prompt.content},
        "parent_tool_use_id": None,
        "session_id": "",
    }


async def _finished(pump: asyncio.Task[tuple[ResultMessage | None, End]]) -> tuple[ResultMessage | None, End]:
    if not pump.done():
        pump.cancel()
    try:
        return await pump
    except asyncio.CancelledError:
        return None, End(error="CancelledError")


def _end_of(message: ResultMessage) -> End:
    return End(
        subtype=message.subtype,
        is_error=message.is_error,
        terminal_reason=message.terminal_reason,
        api_status=message.api_error_status,
        detail="\n".join(message.errors or ()),
    )
