"""Running tools: threads, timeouts, cancellation, and tools that behave badly."""

from __future__ import annotations

import asyncio
import ctypes
import sys
import threading
import time
from typing import Any

import anyio
import pytest
import trio

from toolkit import Toolbox, ToolContext, tool
from toolkit.tools import Deadline
from toolkit.tools.calling import Workers, workers

SOON = 30.0
"""Seconds any of these waits may take before the test fails."""


@pytest.fixture
def gate() -> Any:
    """Holds sync tools until the test opens it; opened at the end in any case."""
    event = threading.Event()
    yield event
    event.set()


async def _until(condition: Any) -> None:
    with anyio.fail_after(SOON):
        while not condition():
            await anyio.lowlevel.checkpoint()


async def test_a_sync_tool_does_not_block_the_others(gate: threading.Event) -> None:
    @tool
    def wait() -> str:
        return str(gate.wait(SOON))

    @tool
    async def quick() -> str:
        gate.set()
        return "quick"

    box = Toolbox("box", [wait, quick])
    first, second = await asyncio.gather(box.call("wait"), box.call("quick"))
    assert (first.text, second.text) == ("True", "quick")


async def test_64_calls_in_flight_keep_their_own_results() -> None:
    together = threading.Barrier(64)

    @tool
    def meet(number: int) -> str:
        together.wait(SOON)
        return f"number {number}"

    box = Toolbox("box", [meet])
    replies = await asyncio.gather(*(box.call("meet", {"number": n}) for n in range(64)))
    assert [reply.text for reply in replies] == [f"number {n}" for n in range(64)]


async def test_a_timeout_answers_for_a_sync_tool_and_gives_its_thread_up(gate: threading.Event) -> None:
    told = threading.Event()

    @tool(timeout=0.05)
    def hang(ctx: ToolContext) -> str:
        gate.wait(SOON)
        if ctx.cancelled:
            told.set()
        return "late"

    before = workers.given_up
    reply = await Toolbox("box", [hang]).call("hang")
    assert (reply.is_error, reply.text) == (True, "hang was stopped: it took longer than 0.05 s")
    assert workers.given_up == before + 1
    gate.set()
    await _until(lambda: workers.given_up == before)
    assert told.is_set()


async def test_a_timeout_answers_for_an_async_tool() -> None:
    @tool(timeout=0.05)
    async def hang() -> None:
        await anyio.sleep_forever()

    reply = await Toolbox("box", [hang]).call("hang")
    assert reply.text == "hang was stopped: it took longer than 0.05 s"


async def test_the_deadline_of_the_run_bounds_a_call_too() -> None:
    @tool(timeout=60)
    async def hang() -> None:
        await anyio.sleep_forever()

    reply = await hang.invoke({}, ToolContext(deadline=Deadline.after(0.01)))
    assert reply.text.startswith("hang was stopped: it took longer than 0")


async def test_cancelling_takes_effect_at_once_and_the_next_call_is_not_delayed(gate: threading.Event) -> None:
    started = threading.Event()
    contexts: list[ToolContext] = []

    @tool
    def hang(ctx: ToolContext) -> None:
        contexts.append(ctx)
        started.set()
        gate.wait(SOON)

    @tool
    def quick() -> str:
        return "quick"

    box = Toolbox("box", [hang, quick])
    before = workers.given_up
    call = asyncio.ensure_future(box.call("hang"))
    await _until(started.is_set)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(call, SOON)
    assert contexts[0].cancelled
    assert workers.given_up == before + 1
    assert (await asyncio.wait_for(box.call("quick"), SOON)).text == "quick"


async def test_hundreds_of_abandoned_threads_do_not_use_up_the_workers(gate: threading.Event) -> None:
    pool = Workers(most_at_once=4)
    for _ in range(75):
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(pool.run, lambda: gate.wait(SOON * 4))
            await _until(lambda: pool.running == 4)
            group.cancel_scope.cancel()
    assert (pool.running, pool.given_up) == (0, 300)
    assert await asyncio.wait_for(pool.run(lambda: "still here"), SOON) == "still here"
    gate.set()
    await _until(lambda: pool.given_up == 0)


async def test_a_call_cancelled_just_after_its_thread_is_done_is_not_counted_as_given_up() -> None:
    pool = Workers()
    call = asyncio.create_task(pool.run(lambda: "done"))
    await asyncio.sleep(0)  # the call has started
    end = time.monotonic() + SOON
    while pool.running and time.monotonic() < end:
        pass  # the event loop must not learn yet that the thread is done
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (pool.running, pool.given_up) == (0, 0)


async def test_more_calls_than_workers_wait_their_turn_and_all_arrive() -> None:
    pool = Workers(most_at_once=2)
    values = await asyncio.gather(*(pool.run(lambda n=n: n * n) for n in range(50)))  # type: ignore[misc]
    assert values == [n * n for n in range(50)]
    assert pool.running == 0


async def test_a_waiting_call_can_be_cancelled(gate: threading.Event) -> None:
    pool = Workers(most_at_once=1)
    first = asyncio.ensure_future(pool.run(lambda: gate.wait(SOON)))
    await _until(lambda: pool.running == 1)
    ran: list[int] = []
    second = asyncio.ensure_future(pool.run(lambda: ran.append(1)))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    gate.set()
    assert await first is True
    assert (ran, pool.running, pool.given_up) == ([], 0, 0)


def _exit() -> None:
    sys.exit(3)


def _interrupt() -> None:
    raise KeyboardInterrupt


def _killed() -> None:
    """As if someone else ended the thread: an exception from outside, in the middle of its work."""
    thread = ctypes.c_ulong(threading.get_ident())
    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(SystemExit))
    end = time.monotonic() + SOON
    while time.monotonic() < end:
        pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    ("body", "text"), [(_exit, "SystemExit: 3"), (_interrupt, "KeyboardInterrupt"), (_killed, "SystemExit")]
)
async def test_a_tool_that_exits_is_an_error_and_the_server_goes_on(body: Any, text: str) -> None:
    box = Toolbox("box", [tool(body, name="bad"), tool(lambda: "fine", name="good")])
    reply = await asyncio.wait_for(box.call("bad"), SOON)
    assert (reply.is_error, reply.text) == (True, text)
    assert (await box.call("good")).text == "fine"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
async def test_an_async_tool_that_exits_is_an_error_too(error: BaseException) -> None:
    @tool
    async def bad() -> None:
        raise error

    assert (await Toolbox("box", [bad]).call("bad")).is_error


async def test_a_cancellation_made_up_by_the_tool_is_its_own_failure() -> None:
    @tool
    async def bad() -> None:
        raise asyncio.CancelledError

    reply = await asyncio.wait_for(Toolbox("box", [bad]).call("bad"), SOON)
    assert (reply.is_error, reply.text) == (True, "CancelledError")


async def test_an_exception_whose_text_cannot_be_made_is_still_an_answer() -> None:
    class BadError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @tool
    def bad() -> None:
        raise BadError

    reply = await Toolbox("box", [bad]).call("bad")
    assert reply.text == "BadError: (its message cannot be shown)"


async def test_reports_from_a_thread_arrive_on_the_event_loop_in_order_before_the_reply() -> None:
    home = threading.get_ident()
    seen: list[Any] = []

    def on_progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((threading.get_ident() == home, done, total, message))

    @tool
    def work(ctx: ToolContext) -> str:
        for step in range(3):
            ctx.progress(step, 3, f"step {step}")
        ctx.log("done", "warning", {"n": 3})
        return "ok"

    context = ToolContext(on_progress=on_progress, on_log=lambda *said: seen.append(said))
    reply = await work.invoke({}, context)
    seen.append(reply.text)
    assert seen == [
        *[(True, step, 3, f"step {step}") for step in range(3)],
        ("warning", "done", {"n": 3}),
        "ok",
    ]


async def test_reports_after_the_end_go_nowhere(gate: threading.Event) -> None:
    seen: list[float] = []
    finished = threading.Event()

    @tool(timeout=0.02)
    def work(ctx: ToolContext) -> None:
        gate.wait(SOON)
        ctx.progress(1)
        finished.set()

    await work.invoke({}, ToolContext(on_progress=lambda done, *_: seen.append(done)))
    gate.set()
    await _until(finished.is_set)
    assert seen == []


async def test_a_sync_function_that_returns_something_to_await_is_awaited() -> None:
    async def later() -> str:
        return "later"

    assert (await Toolbox("box", [tool(lambda: later(), name="probe")]).call("probe")).text == "later"


def test_tools_run_under_trio_as_well() -> None:
    @tool
    def add(a: int, ctx: ToolContext) -> int:
        ctx.progress(1)
        return a + 1

    @tool(timeout=0.05)
    async def hang() -> None:
        await anyio.sleep_forever()

    async def main() -> list[str]:
        seen: list[float] = []
        reply = await add.invoke({"a": 1}, ToolContext(on_progress=lambda done, *_: seen.append(done)))
        return [reply.text, str(seen), (await hang.invoke({})).text]

    assert trio.run(main) == ["2", "[1]", "hang was stopped: it took longer than 0.05 s"]


def test_the_environment_of_a_run_lies_over_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "process")
    monkeypatch.setenv("TWO", "process")
    seen = ToolContext(env={"TWO": "run", "THREE": "run"}).env
    assert [seen[name] for name in ("ONE", "TWO", "THREE")] == ["process", "run", "run"]
    assert ToolContext().env["TWO"] == "process"


@pytest.mark.parametrize("arguments", [["a"], "a", 5])
async def test_arguments_that_are_no_object_are_an_error_in_words(arguments: Any) -> None:
    @tool
    def go(text: str) -> str:
        return text

    reply = await Toolbox("box", [go]).call("go", arguments)
    assert reply.is_error
    assert reply.text.startswith("go was not called: its arguments are an object, not ")
