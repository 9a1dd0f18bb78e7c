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
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import RunError
from toolkit.runs.agents import plugin_names
from toolkit.runs.asking.approvals import Approvals
from toolkit.runs.asking.guard import Guard, before_deadline, only_offered, only_skills_of, within_budget
from toolkit.runs.asking.own_hooks import OwnHooks
from toolkit.runs.asking.subjects import git_setup
from toolkit.runs.checkpoints.taking import Checkpoints
from toolkit.runs.outcome.codes import Code, End
from toolkit.runs.outcome.events import Event, Stream, Tokens
from toolkit.runs.outcome.result import PendingCall
from toolkit.runs.prompts import Asked
from toolkit.runs.sessions.transcripts import SessionId, held, sessions_home
from toolkit.runs.spec import RunSpec
from toolkit.runs.storage.place import Place
from toolkit.runs.turn.controls import Controls
from toolkit.runs.turn.ends import TurnEnd, debug_of, end_of, finished, refusal_of_prompt
from toolkit.runs.turn.options import (
    confine_run,
    native_tools,
    offered,
    run_options,
    sdk_options_of,
    session_options,
    without,
)
from toolkit.runs.turn.process import PATIENCE, CLIProcess
from toolkit.runs.turn.refusals import GateRefusals
from toolkit.runs.turn.servers import Definitions, Servers, check_patterns, definition_in
from toolkit.runs.turn.translate import Translator, Work
from toolkit.tools import Budget, Deadline, ToolContext

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeSDKClient, ResultMessage

    from toolkit.sandbox import Confinement
    from toolkit.telemetry import RunTrace
    from toolkit.tools import Toolbox
    from toolkit.tools.asking import Asking

TICK = 5.0
"""Seconds after which a tool of the CLI that still runs is told to do so, and again after as many."""

UNTIL_TAKEN_UP = 60.0
"""Seconds in which a CLI has to begin with a deferred call that its session left over."""

Emit = Callable[..., None]
"""Takes events, in order."""


@dataclass(frozen=True, slots=True)
class Try:
    """Which prompt this is of the run: a turn is one prompt, and the further tries of it that the launcher makes."""

    turn: int = 1
    deadline: Deadline | None = None
    """Of the turn, with all its tries."""
    has_begun: bool = False
    """Whether an earlier try has told of the turn's begin."""


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
        processes_before: int = 0,
        checkpoints: Checkpoints | None = None,
        definitions: Definitions | None = None,
    ) -> None:
        self._spec = spec
        self._boxes = boxes
        self._place = place
        self._home = home
        self._emit = emit
        self._process = CLIProcess(home)
        self.checkpoints = checkpoints or Checkpoints()
        self._locks = locks
        """Takes what holds a conversation, until nothing of the run is left."""
        self._trace = trace
        self._asked = 0
        """The prompts sent to this process."""
        self._try = Try()
        self._sent: tuple[Asked, str, float] | None = None
        """The prompt that was sent before its turn began, its message id, and when that was."""
        self._is_held = False
        """Whether the prompt waits until the CLI is done with a call that the session had left over."""
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
        self._translator = Translator(spec.run_id, time.time, processes_before)
        self._refusals = GateRefusals(lambda **data: self._tell("gate", "refused", spec.run_id, **data))
        self._servers = Servers(spec, self._tell, definitions)
        self._native = native_tools(spec, approvals.policy)
        names = [box.name for box in boxes]
        self.controls = Controls(approvals, names, self._servers, offered(self._native, boxes))
        self.controls.on_change = lambda what, value: self._tell(
            "lifecycle", "changed", spec.run_id, what=what, value=value
        )
        rules = [
            only_offered(self.controls.offered),
            only_skills_of(plugin_names(spec)),
            before_deadline(lambda: self.deadline),
            within_budget(self._counted),
            approvals.rule,
            self.checkpoints.rule,
        ]
        self.guard = Guard(rules, self._translator.denied)
        self.guard.own = OwnHooks(spec.hooks) if spec.hooks else None
        if self.guard.own is not None:
            self.guard.own.on_failure = lambda what: self._tell("lifecycle", "warning", spec.run_id, what=what)
        self._approvals = approvals
        approvals.on_refusal, approvals.agent_of = self.guard.refused, self.guard.agents.get
        self.guard.resumed_in = None if spec.resume is None else approvals.policy.cli_mode
        self.guard.on_left_over = self._translator.take_up
        self._translator.deferred = self.guard.deferred
        if spec.transport is None:  # frames that somebody wrote have run nothing
            self._translator.judged = self.guard.judged
        approvals.doubt = self._servers.doubt
        approvals.definition = lambda tool: self._servers.definition(tool) or definition_in(boxes, tool)
        approvals.git_setup = lambda: git_setup(self._reached_place().reached)

    async def open(self, first: Asked | None = None) -> None:
        """Start the CLI, with the session it is to go on with.

        `first` is what its first turn asks: where nothing has to be asked of the CLI before, it is sent while the SDK
        is still being loaded. What comes of it waits for the turn.

        Raises:
            UnconfinedError: the jail is not certain; nothing was sent.
            NoSessionError: there is no such session.
            ServerFailedError: a server that the run needs did not start.
            OptionError: a pattern about a server that means none of its tools.
            ClaudeSDKError: the CLI could not be started.
        """
        spec = self._spec
        more, self._is_held = await session_options(spec, self._home, self._place.start)
        if spec.transport is None:
            given = await self._begin(more, first)
        else:
            given = self._options(None, more)
        options = sdk_options_of(given, spec, self._boxes, self._context)
        await self._process.start(options, spec.transport)
        if spec.transport is None:  # a transport that starts nothing has no servers to wait for
            await self._servers.start(self.client, self._home)
        await check_patterns(self.client, spec, self._approvals.policy, self._servers.failed)

    async def _begin(self, more: Mapping[str, Any], first: Asked | None) -> dict[str, Any]:
        """Start the CLI in its jail, and send it the first prompt if that can be; the SDK is loaded meanwhile."""
        spec = self._spec
        jail = confine_run(spec, self._native, self._place, self._home, self._servers.hear)

        def given() -> dict[str, Any]:
            jail.gate.on_refused = self._refusals.take
            return self._options(jail, more)

        # A session that goes on may have a call left over, and servers are asked what they offer before anything.
        has_prompt = first is not None and spec.resume is None and not self._boxes and not spec.servers
        is_alone = not spec.servers and not spec.plugins
        await self._process.enter(jail, given, is_alone=is_alone, has_prompt=has_prompt)
        if first is not None and has_prompt:
            message = str(uuid.uuid4())
            if await self._process.say({**_frame(first, message), "client_composed": True}):
                self._sent = (first, message, time.monotonic())
        await self._process.loaded()
        return given()

    def _options(self, jail: Confinement | None, more: Mapping[str, Any]) -> dict[str, Any]:
        return run_options(
            self._spec,
            self._boxes,
            self.guard,
            self._approvals,
            native=self._native,
            jail=jail,
            folder=self._place.folder,
            stderr=self._process.hear,
            more=more,
            variables=None if self._trace is None else self._trace.variables(),
        )

    async def close(self) -> None:
        """End the process and everything in its jail; nothing survives."""
        await self._process.close(is_under_way=self.is_over)  # over without a result: that turn may go on in there

    @property
    def client(self) -> ClaudeSDKClient:
        """The SDK's client, once open."""
        return self._process.client

    @property
    def session(self) -> str | None:
        """The conversation, once the CLI has named it."""
        return self._session

    @property
    def has_begun(self) -> bool:
        """Whether the CLI has begun with the prompt that it was sent last."""
        return 0 < self._asked == self._greeted

    @property
    def used(self) -> Tokens:
        """All tokens of this process so far, calls under way included."""
        return self._translator.meter.used

    def budget_used(self) -> int:
        """What a limit on tokens counts of this process."""
        return self._counted().used

    @property
    def retry_after(self) -> float | None:
        """Seconds that the model API asked to wait when it refused last; None where it said nothing of it."""
        return None if self._process.jail is None else self._process.jail.gate.retry_after

    async def turn(
        self, prompt: Asked, attachments: Sequence[Mapping[str, Any]] = (), this: Try | None = None
    ) -> TurnEnd:
        """Send a prompt and see it through to its end, within the deadline; `attachments` are where they are kept."""
        self._asked += 1
        self._try = this or Try(self._asked)
        self._prompt = {"prompt": prompt.text, "attachments": list(attachments)}
        sent_as, began = self._message_of(prompt)
        self.prompts.append(sent_as)
        self.deadline = self._try.deadline
        self.guard.begin_turn()
        self._approvals.begin()
        if not self._try.has_begun:
            self.checkpoints.begin_turn(self._try.turn, self.prompts[-1])
        pump, ticking = asyncio.create_task(self._pump(prompt)), asyncio.create_task(self._tick())
        try:
            await asyncio.wait({pump}, timeout=None if self.deadline is None else self.deadline.remaining())
            if not pump.done():
                await self._stop(pump, "deadline")
            elif self.deadline is not None and self.deadline.remaining() <= 0:
                self.guard.stop("deadline")  # a tool that the deadline ended let the model go on for a moment
        finally:
            ticking.cancel()
            self._approvals.cancel()
            message, end = await finished(pump)
            await self.checkpoints.settled()
            # Without its result a turn may still be under way in there, and its end would pass for that of the next.
            self.is_over = message is None
            self._is_unwanted = False
            self.greeted.set()
            self._refusals.end()
            for warning in self._process.new_warnings():
                self._tell("lifecycle", "warning", self._spec.run_id, what=f"the CLI says: {warning}")
            if killed := self._process.new_kills():
                what = f"the limit on memory was reached: the kernel ended {killed} of the agent's processes"
                self._tell("lifecycle", "warning", self._spec.run_id, what=what)
            self._emit(*self._translator.close())
            if self._process.jail is not None:
                self._process.jail.tidy()
        return self._turn_end(message, end, round((time.monotonic() - began) * 1000))

    @property
    def head_start(self) -> float:
        """Seconds since the prompt of the next turn was sent; 0 where it was not."""
        return 0.0 if self._sent is None else time.monotonic() - self._sent[2]

    def _message_of(self, prompt: Asked) -> tuple[str, float]:
        """The message id of a prompt, and when it was sent; both are known of one that was sent already."""
        sent, self._sent = self._sent, None
        return sent[1:] if sent is not None and sent[0] is prompt else (str(uuid.uuid4()), time.monotonic())

    def _turn_end(self, message: ResultMessage | None, end: End, ms: int) -> TurnEnd:
        reported = (message.model_usage, message.total_cost_usd) if message is not None else (None, None)
        return TurnEnd(
            end=self._judged(end),
            message=message,
            used=self._translator.meter.close_turn(
                *reported,
                has_begun=self.has_begun,
                is_aborted=message is None or (message.terminal_reason or "").startswith("aborted"),
                through_gate=self._process.gate_tokens,
            ),
            gate_tokens=self._process.new_gate_tokens(),
            ms=ms,
            unenforced=self._process.unenforced(),
            debug=debug_of(message, end) | self.raw_causes(),
            pending=tuple(PendingCall(call, *asked) for call, asked in self.guard.deferred.items()),
            rounds=None if message is None else message.num_turns,
        )

    async def interrupt(self) -> None:
        """End the turn under way, or about to begin; the conversation goes on."""
        if self._greeted < max(1, self._asked):  # the prompt is on its way, and an interrupt before it would be lost
            self._is_unwanted = True
        else:
            await self._interrupt_now()

    async def _interrupt_now(self) -> None:
        self._approvals.cancel()
        self._translator.interrupting()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.client.interrupt(), PATIENCE)

    async def _tick(self) -> None:
        """Tell that a tool of the CLI goes on: the SDK drops what the CLI says of it."""
        rest = TICK
        while True:
            await asyncio.sleep(rest)
            events, rest = self._translator.tick(TICK, {question.call for question in self._approvals.pending})
            with contextlib.suppress(OSError):  # a full disk: the next event of the turn says so
                if events:
                    self._emit(*events)

    async def _pump(self, prompt: Asked) -> tuple[ResultMessage | None, End]:
        from claude_agent_sdk import ResultMessage, StreamEvent, SystemMessage

        work, early, kept_back = Work(), list[Event](), None
        late = asyncio.create_task(self._ask_late(prompt)) if self._is_held else None
        try:
            if late is None:
                await self._ask(prompt)
            async for message in self.client.receive_messages():
                if isinstance(message, StreamEvent) and self._is_under_way and not early:
                    # By far the most of a run, and none of what is asked below.
                    if events := self._translator.feed_stream(message):
                        self._emit(*events)
                    continue
                if isinstance(message, SystemMessage) and message.subtype == "init":
                    self._greet(message.data)
                kept_back = kept_back or refusal_of_prompt(message)
                is_left_over = self._is_held or self.guard.continues
                if isinstance(message, ResultMessage) and is_left_over and self._goes_on(message):
                    self._end_left_over()
                    if self._is_held:
                        self._is_held = False
                        await self._ask(prompt)
                    work = Work()
                    continue
                events, result = self._translator.feed(message), work.done(message)
                if self._translator.unasked is not None:
                    self._end_unasked(self._translator.unasked)
                early += events
                if early and (self._greeted == self._asked or not self.guard.continues):
                    self._emit(*early)  # a call that was left over comes before the greeting, and is told after it
                    early.clear()
                if self._distrust is not None:
                    return None, self._distrust
                if result is not None:
                    return result, dataclasses.replace(end_of(result), kept_back=kept_back)
        except Exception as error:
            return None, End(error=type(error).__name__, detail=f"{error}\n{self._process.stderr}".rstrip())
        finally:
            if late is not None:
                late.cancel()
            self._emit(*early)
        return None, End(error="ProcessError", detail=self._process.stderr)

    @property
    def _is_under_way(self) -> bool:
        """Whether the CLI has greeted, and is trusted."""
        return self._greeted == self._asked and self._distrust is None

    async def _ask(self, prompt: Asked) -> None:
        await self.client.query(_frames(prompt, self.prompts[-1]))

    async def _ask_late(self, prompt: Asked) -> None:
        """Send a prompt that waits for a call which the CLI does not take up, whatever the reason."""
        await asyncio.sleep(UNTIL_TAKEN_UP)
        if self._is_held and not self.guard.continues:
            self._is_held = False
            await self._ask(prompt)

    def _goes_on(self, left_over: ResultMessage) -> bool:
        """Whether the prompt comes, now that the CLI is done with what the session had left over."""
        reason = left_over.terminal_reason or ""
        is_over = self.guard.stopped is not None or reason.startswith(("tool_deferred", "aborted"))
        if not (self._is_held and is_over):
            return True
        self._is_held = self.guard.continues = False
        what = "the prompt was not sent: the turn ended with what the conversation had left over"
        self._tell("lifecycle", "warning", self._spec.run_id, what=what)
        return False

    def _end_left_over(self) -> None:
        """What the session had left over is over, whatever became of it; the prompt of this run comes now."""
        self.guard.continues = False
        self.guard.deferred.clear()

    def _greet(self, init: Mapping[str, Any]) -> None:
        """Check that the CLI runs as it was told to; only then may tools run."""
        servers = {server["name"]: server["status"] for server in init.get("mcp_servers", ())}
        missing = sorted(name for name in self.controls.wanted if servers.get(name) not in ("connected", "pending"))
        mode = init.get("permissionMode")
        self._session = init.get("session_id")
        if self._greeted < self._asked:  # the CLI greets again when a subagent's end wakes it
            is_first, self._greeted = self._greeted == 0, self._asked
            if is_first:
                self._hold(self._session)
            if self._is_unwanted:
                self._is_unwanted = False
                self._interrupting = asyncio.ensure_future(self._interrupt_now())
            self._started(init, servers)
            if is_first:
                self._tell_without(init.get("tools", ()))
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

    def _tell_without(self, tools: Iterable[str]) -> None:
        """Warn of tools that were asked for by name and are not there."""
        missing = () if self._spec.native is None else without(self._native, tools)
        if missing:
            what = f"native: the CLI does not offer {', '.join(missing)} in this run"
            self._tell("lifecycle", "warning", self._spec.run_id, what=what)

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
        facts: dict[str, Any] = {"turn": self._try.turn, **self._prompt, "message": self.prompts[-1]}
        facts |= {"model": init.get("model"), "session": self._session, "cwd": init.get("cwd")}
        facts |= {"tools": init.get("tools", []), "servers": servers, "mode": init.get("permissionMode")}
        facts |= {
            "cli": init.get("claude_code_version"),
            "trace": self._spec.trace,
            "unenforced": list(self._process.unenforced()),
            "limits": self._spec.limits.given(),
            "verify": None if self._spec.verify is None else self._spec.verify.name,
        }
        self._tell("lifecycle", "continued" if self._try.has_begun else "started", self._spec.run_id, **facts)

    def _tell(self, stream: Stream, kind: str, id: str, **data: Any) -> None:
        self._emit(self._translator.event(stream, kind, id, **data))

    async def _stop(self, pump: asyncio.Task[Any], code: Code) -> None:
        """Ask, wait, then make it: whatever was said until now is kept."""
        self.guard.stop(code)
        await self._interrupt_now()
        await asyncio.wait({pump}, timeout=PATIENCE)

    def _judged(self, end: End) -> End:
        """The end, with our own reasons first."""
        guard = self.guard.stopped
        if guard is None and self._process.exceeded is not None:
            guard = "budget"
        if guard is None and end.is_error and self._counted().remaining() == 0:
            guard = "budget"  # the gate passed no further request on
        return dataclasses.replace(end, guard=end.guard or guard)

    def raw_causes(self) -> dict[str, Any]:
        """What the process and its jail told beside the messages."""
        return dict(self._process.causes())

    def _context(self, call: str) -> ToolContext:
        """What one call of an in-process tool can know and report.

        Raises:
            MCPError: the guard did not let this call pass; so it is not run.
        """
        if not self.guard.judged.get(call, False):
            self._end_unasked("a tool of this process")
            from mcp.shared.exceptions import MCPError
            from mcp_types import INVALID_REQUEST

            raise MCPError(INVALID_REQUEST, "The call was not permitted")
        if self._trace is not None:
            self._trace.enter(call)

        def on_progress(done: float, total: float | None, message: str | None) -> None:
            self._tell("tool", "progress", call, done=done, total=total, message=message)

        place = self._reached_place()
        return ToolContext(
            call_id=call,
            on_progress=on_progress,
            asking=lambda: self._asking(call),
            deadline=self.deadline,
            budget=self._counted(),
            session=self._session,
            workspace=place.working_folder,
            env=dict(self._spec.env),
            paths=place if self._is_read_only(call) else place.for_writing(),
        )

    def _reached_place(self) -> Place:
        """The place as tools of this process reach it: of an overlay, through the jail that has it mounted."""
        whole = None if self._process.jail is None else self._process.jail.whole
        return self._place if whole is None else dataclasses.replace(self._place, whole=whole)

    def _asking(self, call: str) -> Asking:
        """Who answers what the tool of a call asks: whoever approves the calls of this run."""
        from toolkit.runs.asking.answering import RunAsking

        return RunAsking(self._approvals, self.guard.tools.get(call, "a tool"), call, self._place.working_folder)

    def _is_read_only(self, call: str) -> bool:
        """Whether a call is of a tool of ours that says it changes nothing."""
        name = self.guard.tools.get(call, "")
        return any(
            name == f"mcp__{box.name}__{one.name}" and one.options.read_only for box in self._boxes for one in box
        )

    def _counted(self) -> Budget:
        """The budget with what is used up to now: by the calls we saw, or by all that went through the gate."""
        self.budget.used = max(self._translator.meter.used.total, self._process.gate_tokens)
        return self.budget


async def _frames(prompt: Asked, message: str) -> AsyncIterator[dict[str, Any]]:
    """The prompt as one frame."""
    yield _frame(prompt, message)


def _frame(prompt: Asked, message: str) -> dict[str, Any]:
    """The prompt with an id of ours, so that files can be set back to it."""
    return {
        "type": "user",
        "uuid": message,
        "message": {"role": "user", "content": prompt.content},
        "parent_tool_use_id": None,
        "session_id": "",
    }
