"""A run under way: its events to follow, its result to wait for, and the few things one can do to it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from toolkit.errors import RunError
from toolkit.runs.agents import check_tool_names
from toolkit.runs.asking.approvals import Approvals
from toolkit.runs.asking.policy import Policy
from toolkit.runs.asking.run_socket import RunSocket
from toolkit.runs.attempts.engines import Engines
from toolkit.runs.attempts.loop import Attempts
from toolkit.runs.attempts.protect import Protected, protect
from toolkit.runs.boxes import doubts_about, load_boxes, make_offer, without_disabled
from toolkit.runs.checkpoints.checkpoint import Checkpoint
from toolkit.runs.checkpoints.taking import Checkpoints
from toolkit.runs.kinds import OptionError
from toolkit.runs.listeners import Bus, answer_of
from toolkit.runs.live.approving import make_approvals
from toolkit.runs.live.ending import Ending
from toolkit.runs.live.prompts import Prompts
from toolkit.runs.outcome.events import Event, Stream
from toolkit.runs.outcome.fold import Fold, is_refusal
from toolkit.runs.outcome.result import RunResult
from toolkit.runs.prompts import Asked, Part, Prompt
from toolkit.runs.sessions.transcripts import SessionId, one_at_a_time
from toolkit.runs.spec import RunSpec
from toolkit.runs.storage.event_log import EventLog
from toolkit.runs.storage.place import Place, find_place
from toolkit.runs.storage.run_folder import RunFolder, cannot_store, new_run
from toolkit.runs.turn.engine import Engine
from toolkit.runs.turn.steering import Steering

if TYPE_CHECKING:
    from toolkit.runs.job import SettingUp
    from toolkit.runs.layers.layer import Layer
    from toolkit.telemetry import RunTrace

OutputT = TypeVar("OutputT")
T = TypeVar("T")
_log = logging.getLogger("toolkit.runs")


class LiveRun(Steering, Generic[OutputT]):
    """One run, from its prompt to its end. Use it with `async with`; leaving ends the turn under way, if there is one.

    Leaving waits until every listener has had every event, at most `listener_timeout` seconds.
    """

    def __init__(self, spec: RunSpec, *, looks_early: bool = True) -> None:
        self.spec = spec
        self._looks_early = looks_early
        """Whether to look for changes after each turn already, for whoever asks while the jail still lives."""
        self.id = spec.run_id
        self._engines: Engines | None = None
        self._attempts: Attempts | None = None
        self._task: asyncio.Task[None] | None = None
        self._sent: asyncio.Queue[tuple[Asked, asyncio.Future[RunResult[Any]]] | None] = asyncio.Queue()
        self._prompts = Prompts(spec)
        self._fold = Fold(spec.run_id)
        self._log: EventLog | None = None
        self._batches: AsyncIterator[list[Event]] | None = None
        self._unread: deque[Event] = deque()
        self._bus: Bus | None = None
        self._approvals: Approvals | None = None
        self._socket: RunSocket | None = None
        self._latest: asyncio.Future[RunResult[Any]] | None = None
        self._is_over = False
        self._is_stopped = False
        self._has_begun = False
        """Whether its task has made its first step."""
        self._is_left = False
        self._stopping: asyncio.Task[None] | None = None
        self._opened = asyncio.Event()
        self._is_idle = False
        """Whether it waits for the next prompt."""
        self._causes: Engines | None = None
        self._place: Place | None = None
        self._protected = Protected()
        self._trace: RunTrace | None = None
        self._locks = AsyncExitStack()
        """What holds the conversation, until others can have its workspace too."""

    async def __aenter__(self) -> Self:
        boxes = load_boxes(self.spec)
        offer = make_offer(self.spec, boxes)
        policy = self.spec.rules(self._is_read_only).about(offer)
        check_tool_names(self.spec, offer)
        self._boxes = self._prompts.boxes = without_disabled(boxes, policy)
        if self.spec.transport is None:
            self.spec.check_key()
        self._folder: RunFolder = new_run(self.spec)
        log = self._log = await self._open_folder(policy)
        self._batches = log.batches()
        self._bus = Bus(log)
        if self.spec.telemetry is not None:
            self._trace = self.spec.telemetry.begin(self.id)
            self._bus.subscribe(self._trace.listener)
        self._ending = Ending(self._fold, log, self._folder)
        self._setup = self._make_setup()
        self._latest = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._drive(self._latest, log))
        return self

    async def _open_folder(self, policy: Policy) -> EventLog:
        """The log of the run, and the socket by which others speak to it.

        Raises:
            RunError: the folder takes no log or no socket.
        """
        asks = self.spec.approve is not None
        log: EventLog | None = None
        try:
            log = EventLog(self._folder.events, self._fold, trace=self.spec.trace)
            self._approvals = make_approvals(self.spec, log, policy, self._tell_elsewhere)
            self._socket = RunSocket(self._folder.folder, self._approvals, asks=asks, ends=self._ends())
            await self._socket.open()
            return log
        except OSError as error:
            if log is not None:
                log.close()
            self._folder.let_go()
            raise cannot_store(error, self._folder.folder) from error

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task = self._begun(self._task)
        if kind is not None or (self._latest is not None and not self._latest.done()):
            self._leave(task)
        self._sent.put_nowait(None)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:  # whoever leaves does not even want to wait for the end
            self.bus.let_go()
            raise
        try:
            await self.bus.drain(self.spec.listener_timeout)
        finally:
            if self._trace is not None:
                self._trace.end()

    def _leave(self, task: asyncio.Task[None]) -> None:
        """End a turn that is under way."""
        self._is_left = True
        # A task that is cancelled before its first step does nothing at all, not even what ends a run.
        if self._has_begun:
            task.cancel()

    @property
    def bus(self) -> Bus:
        """`live.bus.subscribe(listener)`: every event, from the first on.

        Raises:
            RunError: the block was not entered yet.
        """
        return self._begun(self._bus)

    @property
    def approvals(self) -> Approvals:
        """The questions that wait for an answer, and `answer` for them; raises as `bus` does."""
        return self._begun(self._approvals)

    def _begun(self, part: T | None) -> T:
        """A part of the run that is there once the block was entered."""
        if part is None:
            raise RunError(f"run {self.id} has not begun", fix="Enter it first: async with start(…) as live: …")
        return part

    async def __aiter__(self) -> AsyncIterator[Event]:
        """The events from where one last looked, the first at first, until the turn is over.

        Once the run is over, and where its prompts come from an iterator, those of all its turns that are left.
        """
        batches = self._begun(self._batches)
        while True:
            while self._unread:
                event = self._unread.popleft()
                yield event
                is_end = event.kind == "finished" and event.stream == "lifecycle"
                if is_end and not self._is_over and not self._prompts.are_coming:
                    return
            try:
                self._unread.extend(await anext(batches))
            except StopAsyncIteration:
                return

    async def result(self) -> RunResult[OutputT]:
        """The result of the turn that was asked for last. It comes whether or not anyone reads the events.

        Where prompts come from an iterator, it is that of the last of them.

        Once the run is over, its changes are those that were left when the last process of the jail was gone.

        Raises:
            ToolkitError: the run cannot be as asked (a mount that is not allowed, say); no prompt was sent.
        """
        task = self._begun(self._task)
        answer = await asyncio.shield(self._begun(self._latest))
        return self._ending.with_objects(answer) if task.done() else answer

    async def send(self, prompt: str | Prompt | Sequence[Part]) -> RunResult[OutputT]:
        """Go on with the conversation: another turn in the same process, when the one before has ended.

        Raises:
            RunError: the run is over, or the prompt is empty.
        """
        try:
            asked = self._prompts.checked(prompt)
        except OptionError as error:
            raise OptionError(error.option, error.what, fix='Say what to do: live.send("Now run the tests.")') from None
        self._begun(self._task)
        if self._is_over:
            raise self._over()
        future: asyncio.Future[RunResult[Any]] = asyncio.get_running_loop().create_future()
        self._latest = future
        self._sent.put_nowait((asked, future))
        return await asyncio.shield(future)

    async def checkpoint(self, label: str = "") -> Checkpoint:
        """Remember the files and the conversation as they are now; `load_run(id).rewind(number)` goes back to that.

        In the middle of a turn the files are as they are, and the conversation ends with the last tool call that has
        its result. The start of every turn is remembered without asking.

        Raises:
            RunError: the run is over, works on no copy, or keeps no conversation.
            WorkspaceError: the copy cannot be read, or what it holds cannot be kept.
        """
        engine = await self._open()
        ended = [one.id for one in self._fold.turn().tools if one.parent is None and not one.interrupted]
        sent = engine.prompts[-1] if engine.prompts else None
        taken = await engine.checkpoints.now(
            str(label), self._begun(self._attempts).number, engine.session, sent, ended
        )
        told = Event("lifecycle", "checkpoint", taken.taken, self.id, self.id, None, taken.to_data())
        self._begun(self._log).append(told)
        return taken

    async def _open(self) -> Engine:
        """The engine, once it is open.

        Raises:
            RunError: the run ended before it was.
        """
        task = self._begun(self._task)
        await _first(self._opened.wait(), task)
        engines = self._engines
        if engines is not None and engines.current is None:
            if self._is_idle:
                fix = "It is started again with the next prompt: live.send(…)"
                raise RunError(f"the CLI of run {self.id} has ended, and its work was verified", fix=fix)
            await _first(engines.ready.wait(), task)  # the launcher verifies, or waits to try again
        if engines is None or engines.current is None or task.done():
            raise RunError(f"run {self.id} is over", fix=f"See: toolkit runs show {self.id}")
        return engines.current

    async def interrupt(self) -> None:
        """End the turn under way and keep what it gave; the conversation can go on with `send`."""
        if self._attempts is not None and self._attempts.is_between:
            self._attempts.interrupt()
        else:
            await super().interrupt()

    async def _drive(self, first: asyncio.Future[RunResult[Any]], log: EventLog) -> None:
        """The whole life of the run, in one task: the SDK wants to be closed where it was opened."""
        pending: asyncio.Future[RunResult[Any]] | None = first
        self._has_begun = True
        try:
            if self._is_left:
                raise asyncio.CancelledError
            await self._hold_session()
            place = await self._find_place(None if self._setup is None else await self._setup.begin())
            if self._setup is not None:
                await self._setup.confirm()
            self._folder.started(place)
            if self.spec.branch is not None and place.section is not None:
                await asyncio.to_thread(place.section.check_branch, self.spec.branch)
            engines = self._make_engines(place, log)
            try:
                prompt = await self._prompts.first(place, self._folder.told)
                await engines.open(prompt)
                if lost := await asyncio.to_thread(place.unreadable):
                    self._ending.warn(lost)
                for doubt in doubts_about(self.spec, self._boxes):  # the CLI has asked for these schemas by now
                    self._ending.warn(doubt)
                self._engines = engines
                self._opened.set()
                await self._turn(place, prompt)
                while self._prompts.are_coming and not self._ends_here(engines):
                    more = await self._prompts.next()
                    if more is None:
                        break
                    await self._turn(place, more)
                self._tell(first)
                pending = None
                while not self._prompts.are_coming and not self._ends_here(engines):
                    self._is_idle = True
                    asked = await self._sent.get()
                    self._is_idle = False
                    if asked is None:
                        break
                    prompt, pending = asked
                    await self._turn(place, prompt)
                    self._tell(pending)
                    pending = None
            finally:
                await engines.close()
        except BaseException as error:
            self._fail(error, pending)
            if not isinstance(error, Exception):
                raise
        finally:
            await self._finish()

    async def stop(self) -> None:
        """End the turn under way, keep what it gave, and take no further prompt."""
        self._is_stopped = True
        self._sent.put_nowait(None)
        with contextlib.suppress(RunError):  # it has ended by itself meanwhile
            await self.interrupt()

    def _ends(self) -> dict[str, Callable[[], None]]:
        """The ends that another process can ask for, each begun and not waited for."""

        async def interrupt() -> None:
            with contextlib.suppress(RunError):  # it has ended by itself meanwhile
                await self.interrupt()

        def begin(what: Callable[[], Coroutine[Any, Any, None]]) -> None:
            self._stopping = asyncio.create_task(what())

        return {"stop": lambda: begin(self.stop), "interrupt": lambda: begin(interrupt)}

    def _make_setup(self) -> SettingUp | None:
        """The setup phase; a run that neither has a setup nor goes on where an earlier one may have had it has none."""
        if self.spec.setup is None and self.spec.resume is None:
            return None
        from toolkit.runs.job import SettingUp

        setup = SettingUp(self.spec, self._folder, self._ending.tell, self._ending.warn)
        self._locks.callback(setup.release)
        return setup

    def _make_engines(self, place: Place, log: EventLog) -> Engines:
        home = self._folder.home
        points = Checkpoints(self._folder.folder, place.section, self._ending.warn, spec=self.spec)
        keeping = (self._locks, self._trace, points)
        engines = Engines(self.spec, self._boxes, place, home, log.append, self.approvals, *keeping)

        def tell(stream: Stream, kind: str, **data: Any) -> None:
            log.append(Event(stream, kind, time.time(), self.id, self.id, None, data))

        self._attempts = Attempts(self.spec, place, self._protected, engines, self._folder.folder, tell)
        self._causes = engines
        return engines

    def _ends_here(self, engines: Engines) -> bool:
        """Whether no further turn can be: the CLI is gone, somebody stopped it, or nothing can be written down."""
        return engines.is_over or self._is_stopped or self._ending.unstored is not None

    async def _hold_session(self) -> None:
        """Wait until nobody else works in the conversation, and keep others from it; a fork leaves it alone."""
        if self.spec.resume is not None and not self.spec.fork:
            await self._locks.enter_async_context(one_at_a_time(SessionId(self.spec.resume), self.spec.home))

    async def _find_place(self, layer: Layer | None) -> Place:
        """The place of the run; a copy under way is seen through when nobody wants it any more, to let go of it."""
        preparing = asyncio.ensure_future(asyncio.to_thread(find_place, self.spec, self._folder, layer))
        try:
            await asyncio.wait({preparing})
        except asyncio.CancelledError:
            await asyncio.wait({preparing})
            if preparing.exception() is None:
                self._place = preparing.result()
            raise
        self._place = preparing.result()
        place, self._protected = await asyncio.to_thread(protect, self.spec, self._place, self._folder.folder)
        self._place = place
        for what in await asyncio.to_thread(place.warnings):
            self._ending.warn(what)
        return place

    async def _turn(self, place: Place, prompt: Asked) -> None:
        kept = await asyncio.to_thread(lambda: [self._folder.attach(found) for found in prompt.attachments()])
        turn = await self._begun(self._attempts).see_through(prompt, kept)
        self._ending.changes = await self._ending.look(place) if self._looks_early else None
        end, self._ending.output = self._fold.finished(turn, self.spec.shape())
        self._ending.turn(end)

    def _tell(self, future: asyncio.Future[RunResult[Any]]) -> None:
        """Hand over the result of the turn that ended last."""
        if not future.done():
            future.set_result(self._ending.of_turn())

    def _fail(self, error: BaseException, future: asyncio.Future[RunResult[Any]] | None) -> None:
        """The end of the turn that something was raised in; between two turns there is nothing to end."""
        if future is None:
            return
        place, self._ending.output = self._place, None
        self._ending.changes = None if place is None or place.section is not None else place.changes()
        error = self._ending.in_words(error)
        self._ending.turn(self._fold.failed(error, {} if self._causes is None else self._causes.causes))
        if future.done():
            return
        if self._engines is None and is_refusal(error):
            future.set_exception(error)
            future.exception()  # nobody has to ask for the result
        else:
            # An iterator that fails has no turn of its own: its caller gets what all turns until then gave.
            future.set_result(self._ending.of_run() if self._prompts.are_coming else self._ending.of_turn())

    async def _finish(self) -> None:
        try:
            if self._socket is not None:
                await self._socket.close()
            if self._place is not None:
                await self._ending.leave(self._place, self._protected, self.spec.branch)
        finally:
            self._ending.close()
            await self._locks.aclose()
            self._refuse_what_waits()
        await self._tell_after_run()

    def _refuse_what_waits(self) -> None:
        self._is_over = True
        while not self._sent.empty():
            asked = self._sent.get_nowait()
            if asked is not None and not asked[1].done():
                asked[1].set_exception(self._over())

    async def _tell_after_run(self) -> None:
        if self.spec.after_run is None:
            return
        try:
            await answer_of(self.spec.after_run, self._ending.of_run())
        except Exception:
            _log.exception("after_run of run %s failed", self.id)

    def _over(self) -> RunError:
        return RunError(f"run {self.id} is over", fix="Start another one, or resume its session")

    def _is_read_only(self, tool: str) -> bool:
        """Whether one of our own tools says that it changes nothing."""
        return any(
            tool == f"mcp__{box.name}__{one.name}" and one.options.read_only for box in self._boxes for one in box
        )

    def _tell_elsewhere(self, event: Event) -> None:
        if self._socket is not None:
            self._socket.tell(event)


async def _first(event: Coroutine[Any, Any, Any], task: asyncio.Task[None]) -> None:
    """Wait for something, or for the end of the run."""
    waiting = asyncio.ensure_future(event)
    await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
