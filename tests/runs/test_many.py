"""Many runs in one process: side by side, in order, undisturbed, under one limit."""

from __future__ import annotations

import asyncio
import dataclasses
import pickle
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from toolkit.errors import RunError, WorkspaceError
from toolkit.runs import InPlace, Limits, RunResult, RunSpec, Tokens, load_run, run_many
from toolkit.runs.many.purse import Purse
from toolkit.testing import FakeCLI, Status, Turn, text
from toolkit.workspace import HostMount, WorkspaceSection

THOUSAND = {"input_tokens": 900, "output_tokens": 100}


def spec(said: str, **options: Any) -> RunSpec:
    return RunSpec("Go.", transport=FakeCLI(Turn([text(said)], usage=THOUSAND)), run_id=f"run-{said}", **options)


class Meeting(FakeCLI):
    """A CLI that answers once `others` CLIs have started; it counts how many live at once."""

    alive = most = 0

    def __init__(self, gate: asyncio.Event, others: int) -> None:
        super().__init__([text("hi")])
        self._gate, self._others = gate, others

    async def connect(self) -> None:
        Meeting.alive += 1
        Meeting.most = max(Meeting.most, Meeting.alive)
        if Meeting.alive >= self._others:
            self._gate.set()
        await asyncio.wait_for(self._gate.wait(), 60)
        await super().connect()

    async def close(self) -> None:
        Meeting.alive -= 1
        await super().close()


async def test_results_come_in_the_order_of_the_specs() -> None:
    order: list[str] = []
    others = asyncio.Event()

    async def wait_for_others(cli: FakeCLI) -> None:
        await asyncio.wait_for(others.wait(), 30)

    def ended(result: RunResult[Any]) -> None:
        order.append(result.text)
        if len(order) == 2:
            others.set()

    slow = RunSpec("Go.", transport=FakeCLI(wait_for_others, [text("slow")]), run_id="run-slow")
    results = await run_many([slow, spec("b"), spec("c")], on_result=ended)
    assert [result.text for result in results] == ["slow", "b", "c"]
    assert order[-1] == "slow"
    assert sorted(order) == ["b", "c", "slow"]


async def test_as_many_run_at_once_as_were_allowed_and_no_more() -> None:
    Meeting.alive = Meeting.most = 0
    gate = asyncio.Event()
    results = await run_many([RunSpec("Go.", transport=Meeting(gate, 3)) for _ in range(7)], concurrency=3)
    assert all(result.ok for result in results)
    assert Meeting.most == 3


async def test_a_failing_run_does_not_disturb_the_others() -> None:
    broken = RunSpec("Go.", transport=FakeCLI(Status(500)))
    nowhere = spec("nowhere", workspace=InPlace("/proc/no/such/folder"))
    untooled = spec("untooled", tools=["no_such_file.py"])
    results = await run_many([spec("a"), broken, "  ", nowhere, untooled, spec("a"), spec("z")])
    codes = [result.code for result in results]
    assert codes == ["ok", "api_error", "bad_request", "bad_request", "bad_request", "bad_request", "ok"]
    assert "the prompt is empty" in results[2].debug["detail"]
    assert "there is a run 'run-a' already" in results[5].debug["detail"]


async def test_a_run_without_a_key_is_a_bad_request() -> None:
    [result] = await run_many(["Go."])
    assert (result.code, result.run) == ("bad_request", result.run)
    assert "ANTHROPIC_API_KEY" in result.debug["detail"]


async def test_an_on_result_that_raises_is_logged_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def on_result(result: RunResult[Any]) -> None:
        raise ValueError("no")

    results = await run_many([spec("a"), spec("b")], on_result=on_result)
    assert [result.ok for result in results] == [True, True]
    assert caplog.text.count("on_result failed on run") == 2


async def test_no_specs_are_no_results() -> None:
    assert await run_many([]) == []


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"concurrency": True}, {"usd": -1}, {"tokens": 0.5}])
async def test_a_limit_that_cannot_be_is_refused_before_anything_starts(options: dict[str, Any]) -> None:
    with pytest.raises(RunError):
        await run_many([spec("a")], **options)


async def test_when_the_shared_tokens_are_used_up_the_rest_does_not_start() -> None:
    specs = [spec(name) for name in "abcdef"]
    results = await run_many(specs, concurrency=1, tokens=3500)
    assert [result.code for result in results] == ["ok", "ok", "ok", "ok", "budget", "budget"]
    assert [result.total.total for result in results] == [1000, 1000, 1000, 1000, 0, 0]
    assert "all runs together" in results[4].debug["detail"]
    assert not [cli for cli in (spec.transport for spec in specs[4:]) if getattr(cli, "requests", None)]


async def test_a_run_is_bounded_by_its_part_of_what_is_left() -> None:
    taken: list[Limits] = []

    def watched(name: str, **options: Any) -> RunSpec:
        def before(bounded: RunSpec) -> None:
            taken.append(bounded.limits)

        return spec(name, before_run=before, **options)

    await run_many(
        [watched("a"), watched("b", limits=Limits(tokens=500, seconds=60))], concurrency=2, tokens=10_000, usd=1
    )
    parts = {(limits.tokens, limits.usd, limits.seconds) for limits in taken}  # side by side, in no order
    assert parts == {(5000, 0.5, None), (500, 0.5, 60)}
    taken.clear()
    await run_many([watched("c"), watched("d", limits=Limits(usd=2))], concurrency=1, tokens=10_000, usd=1)
    assert [limits.tokens for limits in taken] == [10_000, 9_000]
    assert taken[1].usd is not None
    assert taken[1].usd < 1


@settings(max_examples=60, deadline=None)
@given(
    uses=st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 5)), min_size=1, max_size=12),
    places=st.integers(1, 5),
    limit=st.integers(1, 10_000),
)
def test_promises_never_add_up_to_more_than_the_limit(uses: list[tuple[int, int]], places: int, limit: int) -> None:
    spent = promised = 0

    async def one(number: int, wanted: int, steps: int, purse: Purse, free: asyncio.Semaphore) -> None:
        nonlocal spent, promised
        async with free:
            part = await purse.take(str(number), Limits())
            if part is None:
                assert spent >= limit
                return
            assert part.tokens is not None
            promised += part.tokens
            assert spent + promised <= limit
            for _ in range(steps):
                await asyncio.sleep(0)
            used = min(wanted, part.tokens)
            promised, spent = promised - part.tokens, spent + used
            result: RunResult[Any] = RunResult(run=str(number), code="ok", total=Tokens(input=used))
            await purse.give_back(str(number), result, is_known=True)

    async def all_of_them() -> None:
        purse, free = Purse(Limits(tokens=limit), places=places, runs=len(uses)), asyncio.Semaphore(places)
        await asyncio.gather(*(one(number, *use, purse, free) for number, use in enumerate(uses)))

    asyncio.run(all_of_them())


async def test_tokens_that_only_the_gate_saw_are_not_given_back() -> None:
    purse = Purse(Limits(tokens=1000, usd=10.0), places=1, runs=4)
    used: list[dict[str, Any]] = [
        {"total": Tokens(input=100), "cost": 1.0, "gate_tokens": 300},
        {"total": Tokens(input=100), "cost": 1.0, "gate_tokens": 100},
        {"total": Tokens(), "cost": 0.0, "gate_tokens": 200},
    ]
    left = []
    for number, facts in enumerate(used):
        part = await purse.take(str(number), Limits())
        assert part is not None
        left.append((part.tokens, part.usd))
        await purse.give_back(str(number), RunResult(run="r", code="ok", **facts), is_known=True)

    assert left == [(1000, 10.0), (700, 7.0), (600, 6.0)]
    assert await purse.take("3", Limits()) is None  # what the last one cost is not known, so it had its whole part


async def test_money_is_shared_like_tokens() -> None:
    [alone] = await run_many([spec("alone")])
    assert alone.cost is not None
    results = await run_many([spec(name) for name in "abcd"], concurrency=1, usd=alone.cost * 2.5)
    assert [result.code for result in results] == ["ok", "ok", "budget", "budget"]


async def test_a_run_waits_for_a_fair_part_while_others_hold_theirs() -> None:
    ends: list[str] = []
    big_is_over = asyncio.Event()

    async def wait_for_big(cli: FakeCLI) -> None:
        await asyncio.wait_for(big_is_over.wait(), 30)

    def ended(result: RunResult[Any]) -> None:
        ends.append(result.run)
        # Not at once: a run that did not wait would get the time to overtake.
        asyncio.get_running_loop().call_later(0.3, big_is_over.set)

    specs = [
        RunSpec("Go.", transport=FakeCLI(Turn([text("big")], usage={"input_tokens": 5000})), run_id="run-big"),
        RunSpec("Go.", transport=FakeCLI(wait_for_big, Turn([text("slow")], usage=THOUSAND)), run_id="run-slow"),
        spec("late"),
    ]
    results = await run_many(specs, concurrency=2, tokens=10_000, on_result=ended)
    assert [result.code for result in results] == ["ok", "ok", "ok"]
    assert ends == ["run-big", "run-slow", "run-late"]


async def test_cancelling_ends_all_runs() -> None:
    clis = [FakeCLI(Turn([text("x")], stall_after=0)) for _ in range(3)]
    started = asyncio.Event()
    specs = [RunSpec("Go.", transport=cli, before_run=lambda spec: started.set()) for cli in clis]
    many = asyncio.create_task(run_many(specs, concurrency=2))
    await asyncio.wait_for(started.wait(), 60)
    many.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(many, 60)
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert left == []
    assert not clis[2].requests


async def test_a_section_and_its_changes_travel_between_processes(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    (source / "a.txt").write_text("old\n", encoding="utf-8")

    def edit(bounded: RunSpec) -> None:
        assert isinstance(bounded.workspace, WorkspaceSection)
        (bounded.workspace.temp_dir / "src" / "a.txt").write_text("new\n", encoding="utf-8")

    section = WorkspaceSection([HostMount(str(source))], allowed_host_roots=[tmp_path])
    sent = pickle.loads(pickle.dumps(RunSpec("Go.", workspace=section)))
    [result] = await run_many([dataclasses.replace(sent, transport=FakeCLI([text("ok")]), before_run=edit)])
    came = pickle.loads(pickle.dumps(result))

    assert came.changes is not None
    assert [(change.kind, change.path) for change in came.changes] == [("modified", "src/a.txt")]
    assert came.changes.to_json() == (result.changes or came.changes).to_json()
    assert came.changes.summary().splitlines()[0] == "M  src/a.txt"
    assert b"+new" in load_run(came.run).changes().patch()
    with pytest.raises(WorkspaceError, match="from another process"):
        came.changes.patch()


async def test_a_thread_pool_is_an_executor_too() -> None:
    with ThreadPoolExecutor(2) as pool:
        results = await run_many([spec(name) for name in "abc"], executor=pool, tokens=100_000)
    assert [(result.code, result.text) for result in results] == [("ok", "a"), ("ok", "b"), ("ok", "c")]


async def test_cancelling_reaches_the_runs_in_an_executors_workers() -> None:
    ended: list[str] = []
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    def before(spec: RunSpec) -> None:
        loop.call_soon_threadsafe(started.set)

    specs = [
        RunSpec(
            "Go.",
            transport=FakeCLI(Turn([text("x")], stall_after=0)),
            before_run=before,
            after_run=lambda result: ended.append(result.code),
        )
        for _ in range(2)
    ]
    with ThreadPoolExecutor(1) as pool:
        many = asyncio.create_task(run_many(specs, executor=pool))
        await asyncio.wait_for(started.wait(), 60)
        many.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(many, 60)
        assert ended == ["aborted"]


class Elsewhere(Executor):
    """Workers on machines that share nothing with this one: what they began cannot be seen here."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work

    def submit(self, fn: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        try:
            answer.set_result(self._work(fn, *given, **named))
        except Exception as error:
            answer.set_exception(error)
        return answer


async def test_a_run_lost_on_another_machine_is_charged_its_whole_part() -> None:
    def die(*_: Any) -> None:
        raise RuntimeError("the worker was killed")

    results = await run_many([spec(name) for name in "abcd"], concurrency=1, tokens=4000, executor=Elsewhere(die))
    assert [result.code for result in results] == ["crashed", "budget", "budget", "budget"]
    assert "whether it had started cannot be seen from here" in results[0].debug["detail"]


async def test_a_run_lost_on_another_machine_is_not_sent_again() -> None:
    sent = []

    def die(*given: Any) -> None:
        sent.append(given)
        raise RuntimeError("the worker was killed")

    await run_many([spec("a")], executor=lambda: Elsewhere(die))
    assert len(sent) == 1


async def test_an_empty_folder_on_a_worker_is_not_the_project(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    project.mkdir()
    (project / "prices.py").write_text("RATE = 1\n", encoding="utf-8")
    section = WorkspaceSection([HostMount(project)], allowed_host_roots=[tmp_path])

    def with_nothing_mounted(fn: Callable[..., Any], *given: Any) -> Any:
        (project / "prices.py").unlink()
        return fn(*given)

    [result] = await run_many([spec("a", workspace=section)], executor=Elsewhere(with_nothing_mounted))
    assert result.code == "bad_request"
    assert "does not have what the run works on" in str(result.cause)
    assert result.calls == ()
