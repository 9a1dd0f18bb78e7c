"""What a run cost: known, unknown, or known in part, and never 0 for something nobody knows."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.runs.test_many_workers import until
from tests.sandbox.jails import needs_jail
from toolkit._base.words import cost_text
from toolkit.cli.terminal.display import totals
from toolkit.errors import RunError
from toolkit.runs import InPlace, Limits, RunResult, load_run, run, run_many, start
from toolkit.runs.many.purse import Purse
from toolkit.runs.views import cogni
from toolkit.testing import FakeCLI, ScriptedAPI, Turn, text, tool_use

USAGE = {"input_tokens": 1000, "output_tokens": 50}


def dying() -> FakeCLI:
    """A CLI whose first call is complete when it dies in the second."""
    return FakeCLI(
        Turn([tool_use("Read", file_path="a")], usage=USAGE),
        Turn([text("half"), text("never")], stall_after=1, usage=USAGE),
        tools={"Read": "x"},
        strict=False,
    )


async def killed(**options: Any) -> tuple[list[Any], RunResult[Any]]:
    """The events and the result of a run whose CLI dies in its second call."""
    cli = dying()
    async with start("go", transport=cli, **options) as live:
        async for event in live:
            if event.name == "assistant.block" and event.data["text"] == "half":
                cli.die(137)
        result = await live.result()
    return list(load_run(live.id).events()), result


async def test_what_a_crashed_run_cost_is_unknown_everywhere() -> None:
    events, result = await killed(run_id="run-k")
    assert events[-1].name == "lifecycle.finished"
    assert (result.code, result.cost, result.known_cost) == ("crashed", None, 0.0)
    assert len(result.calls) == 2
    assert events[-1].data["cost"] is None
    assert load_run("run-k").result().cost is None
    assert [fact["costUsd"] for fact in cogni.usage_facts(events)] == [None, None]


async def test_a_call_that_was_cut_off_before_its_answer_has_an_unknown_cost() -> None:
    slow = Turn([text("late")], delay=30, usage=USAGE)
    result = await run("go", transport=FakeCLI(slow, strict=False), limits=Limits(seconds=0.3))
    assert (result.code, result.cost, result.known_cost) == ("deadline", None, 0.0)


@needs_jail
async def test_a_call_that_was_cut_off_before_its_answer_is_seen_at_the_gate() -> None:
    hold = threading.Event()
    held = Turn([text("late")], hold=hold, usage=USAGE)
    first = Turn([tool_use("Bash", command="true")], usage=USAGE)
    with ScriptedAPI(first, held, strict=False) as api:
        async with start("go", api_url=api.url, api_key="k") as live:
            async for event in live:
                if event.name == "tool.ended":
                    await until(lambda: len(api.requests) == 2)
                    await live.interrupt()
            result = await live.result()
        hold.set()
    assert result.code == "aborted"
    assert (result.cost, result.total.total) == (None, 1050)
    assert result.known_cost > 0
    assert (result.gate_tokens or 0) > 1050
    assert f"1,050 tokens ({result.gate_tokens:,} through the gate), at least $" in totals(result)


async def test_a_call_that_was_cut_off_leaves_a_least_cost() -> None:
    cli = FakeCLI(
        Turn([tool_use("Read", file_path="a")], usage=USAGE),
        Turn([text("half"), text("never")], stall_after=1, usage=USAGE),
        tools={"Read": "x"},
    )
    result = await run("go", transport=cli, limits=Limits(seconds=0.3))
    assert (result.code, result.cost) == ("deadline", None)
    assert result.known_cost > 0
    assert cost_text(result.cost, result.known_cost).startswith("at least $0.")


async def test_the_real_cli_leaves_a_call_that_was_cut_off_out_of_its_cost() -> None:
    with ScriptedAPI(
        Turn([tool_use("Bash", command="true")], usage=USAGE),
        Turn([text("half"), text("never")], stall_after=1, usage=USAGE),
    ) as api:
        async with start("go", api_url=api.url, api_key="none") as live:
            async for event in live:
                if event.name == "assistant.block":
                    await live.interrupt()
            result = await live.result()
    assert (result.code, result.cost, result.stop) == ("aborted", None, None)
    assert len(result.calls) == 2
    assert 0 < result.known_cost < 0.01


async def test_a_model_without_a_price_has_no_cost_with_the_real_cli() -> None:
    with ScriptedAPI(Turn([text("done")], usage=USAGE)) as api:
        result = await run("go", api_url=api.url, api_key="none", model="my-own-model")
    assert (result.code, result.cost, result.known_cost) == ("ok", None, 0.0)
    assert result.models["my-own-model"].cost is None
    assert result.models["my-own-model"].tokens == result.total


async def test_a_run_that_never_began_cost_nothing() -> None:
    with pytest.raises(RunError):
        await run("go", transport=FakeCLI(), workspace=InPlace("/proc/nowhere"), run_id="run-n")
    assert load_run("run-n").result().cost == 0.0
    [among] = await run_many([""])
    assert among.cost == 0.0


async def test_a_shared_limit_counts_a_run_of_unknown_cost_as_its_whole_part() -> None:
    purse = Purse(Limits(usd=1.0), places=1, runs=3)
    for number in range(2):
        part = await asyncio.wait_for(purse.take(f"run-{number}", Limits(usd=0.4)), 60)
        assert part is not None
        await purse.give_back(f"run-{number}", RunResult(run=f"run-{number}", code="crashed"), is_known=True)
    last = await asyncio.wait_for(purse.take("run-3", Limits()), 30)
    assert last is not None
    assert last.usd == pytest.approx(0.2)


async def test_a_result_tells_what_each_model_used_its_window_and_the_rounds() -> None:
    cli = FakeCLI(
        Turn([tool_use("Read", file_path="a")], usage=USAGE), [text("one")], [text("two")], tools={"Read": "x"}
    )
    async with start("go", transport=cli, run_id="run-m") as live:
        first = await live.result()
        await live.send("more")
    [(name, used)] = first.models.items()
    assert name == first.model
    assert used.tokens == first.total
    assert used.cost == pytest.approx(first.cost)
    assert used.context_window
    assert first.turns == 2
    whole = load_run("run-m").result()
    assert whole.models[name].tokens == whole.total
    assert whole.turns == 3


async def test_the_real_cli_tells_the_window_of_each_model() -> None:
    with ScriptedAPI(Turn([tool_use("Bash", command="true")], usage=USAGE), [text("done")], [text("more")]) as api:
        async with start("go", api_url=api.url, api_key="none") as live:
            first = await live.result()
            second = await live.send("more")
        assert (first.turns, second.turns) == (2, 1)
    [used] = first.models.values()
    assert used.tokens == first.total
    assert used.cost == pytest.approx(first.cost)
    assert (used.context_window or 0) >= 100_000
