"""Several turns of one live run, and what one can do to it at odd moments."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.runs.play import SOON
from toolkit import Toolbox, tool
from toolkit.errors import RunError
from toolkit.runs import Decision, Limits, RunResult, RunSpec, Tokens, load_run, run, run_sync, start
from toolkit.runs.turn.meter import Meter
from toolkit.testing import FakeCLI, Turn, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection


@tool
def work() -> str:
    """Work."""
    return "worked"


BOX = Toolbox("box", [work])
WORK = [tool_use("mcp__box__work")]


async def test_a_turn_that_ran_out_of_time_leaves_the_next_one_its_own() -> None:
    cli = FakeCLI(Turn([text("late")], delay=30), [text("second")], WORK, [text("third")], strict=False)
    live = start("go", tools=[BOX], transport=cli, limits=Limits(seconds=2 * SOON))
    async with live, asyncio.timeout(60):
        results = [await live.result(), await live.send("again"), await live.send("and work")]
    assert [(result.code, result.text) for result in results] == [("deadline", ""), ("ok", "second"), ("ok", "third")]


async def test_a_turn_that_a_person_stopped_leaves_the_next_one_free() -> None:
    answers = iter([Decision.deny("no", stop=True), Decision.ALLOW_ONCE])
    cli = FakeCLI(WORK, WORK, [text("done")], strict=False)
    live = start("go", tools=[BOX], transport=cli, mode="normal", approve=lambda question: next(answers))
    async with live, asyncio.timeout(60):
        assert (await live.result()).code == "stopped"
        assert (await live.send("try again")).code == "ok"


async def test_a_used_up_budget_stays_used_up() -> None:
    usage = {"input_tokens": 100, "output_tokens": 5}
    cli = FakeCLI(Turn(WORK, usage=usage), Turn(WORK, usage=usage), [text("done")], strict=False)
    live = start("go", tools=[BOX], transport=cli, limits=Limits(tokens=50))
    async with live, asyncio.timeout(60):
        assert (await live.result()).code == "budget"
        assert (await live.send("again")).code == "budget"


async def test_a_cli_that_ended_without_a_result_takes_no_further_prompt() -> None:
    class Downgraded(FakeCLI):
        def take_options(self, options: Any) -> None:
            options.permission_mode = "default"
            super().take_options(options)

    live = start("go", transport=Downgraded([text("never")], strict=False))
    async with live, asyncio.timeout(60):
        result = await live.result()
        assert (result.code, result.debug["detail"]) == (
            "unconfined",
            "the permission mode is default, not bypassPermissions",
        )
        with pytest.raises(RunError, match="is over"):
            await live.send("go on")


async def test_a_prompt_that_comes_when_the_run_ends_is_refused_and_not_left_waiting() -> None:
    said: list[str] = []

    async def late(result: RunResult[Any]) -> None:
        with pytest.raises(RunError, match="is over"):
            await asyncio.wait_for(live.send("one more thing"), 30)
        said.append(result.text)

    async with start("go", transport=FakeCLI([text("done")]), after_run=late) as live:
        await live.result()
    assert said == ["done"]


async def test_an_after_run_that_fails_is_logged_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    def fail(result: RunResult[Any]) -> None:
        raise ValueError("boom")

    with caplog.at_level(logging.ERROR, "toolkit.runs"):
        assert (await run("go", transport=FakeCLI([text("done")]), after_run=fail)).ok
    assert "after_run" in caplog.text


def test_ctrl_c_ends_a_run_that_blocks_a_running_loop() -> None:
    def press_ctrl_c(spec: RunSpec) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    async def blocked() -> None:
        slow = FakeCLI(Turn([text("late")], delay=60), strict=False)
        run_sync("go", transport=slow, run_id="run-1", before_run=press_ctrl_c)

    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(blocked())
    finally:
        loop.close()
    assert load_run("run-1").result().code == "aborted"


async def test_the_status_of_servers_is_known_from_the_first_moment() -> None:
    async with start("go", tools=[BOX], transport=FakeCLI([text("done")])) as live, asyncio.timeout(60):
        assert await live.mcp_status() == {"box": "connected"}


async def test_what_the_cli_refuses_is_an_error_of_ours() -> None:
    async with start("go", transport=FakeCLI([text("done")])) as live, asyncio.timeout(60):
        await live.result()
        with pytest.raises(RunError, match="cannot be set back to 'no-such-message'"):
            await live.rewind("no-such-message")


async def test_a_section_without_mounts_is_a_workspace_too() -> None:
    section = WorkspaceSection([], allowed_host_roots=())
    assert (await run("go", transport=FakeCLI([text("done")]), workspace=section)).ok
    section.cleanup()


async def test_a_run_cancelled_while_its_copy_is_made_lets_go_of_it(tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / str(number)).write_text("x", encoding="utf-8")
    section = WorkspaceSection([HostMount(tmp_path)], allowed_host_roots=[tmp_path])
    task = asyncio.create_task(run("go", transport=FakeCLI(strict=False), workspace=section, run_id="run-1"))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (load_run("run-1").result().code, section.is_held) == ("aborted", False)
    load_run("run-1").remove()


async def test_an_id_that_comes_twice_is_one_call_and_the_rest_is_unattributed() -> None:
    usage = {"input_tokens": 10, "output_tokens": 5}
    cli = FakeCLI(Turn(WORK, id="msg_1", usage=usage), Turn([text("done")], id="msg_1", usage=usage))
    result = await run("go", tools=[BOX], transport=cli)
    assert [call.id for call in result.calls] == ["msg_1"]
    assert (result.total, result.unattributed) == (Tokens(20, 10), Tokens(10, 5))


async def test_an_interrupt_before_the_prompt_was_sent_ends_the_turn_that_is_about_to_begin() -> None:
    cli = FakeCLI(Turn([text("half"), text("never")], stall_after=1), strict=False)
    async with start("go", transport=cli) as live, asyncio.timeout(60):
        await live.interrupt()
        result = await live.result()
    assert result.code == "aborted"


def test_a_call_that_was_cut_off_hides_nothing_of_what_subagents_used_later() -> None:
    meter = Meter("run-1")
    meter.started("msg_1", "m", {"input_tokens": 100, "output_tokens": 1})
    meter.cut_off()
    first = meter.close_turn(None, None)
    assert (first.unattributed, first.cost, first.known_cost) == (Tokens(), None, 0.0)
    assert meter.used == Tokens(100, 1)
    meter.started("msg_2", "m", {"input_tokens": 7})
    meter.ended("msg_2", {"output_tokens": 3})
    # The CLI leaves the call that was cut off out of its totals for good: 40 and 4 are a subagent's.
    second = meter.close_turn({"m": {"inputTokens": 47, "outputTokens": 7}}, 0.5)
    assert (second.unattributed, second.cost) == (Tokens(40, 4), 0.5)
    assert meter.used == Tokens(147, 8)
