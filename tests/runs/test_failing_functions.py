"""Functions of the caller's that fail in every way: each is told by its name, and none hangs a run or ends the process."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import Any

import pytest
from claude_agent_sdk import HookMatcher

from tests.runs.play import ADD, BOX
from toolkit import Verify, run_sync, tool
from toolkit.runs import Event, OptionError, RunResult, RunSpec, load_run, run, run_many, start
from toolkit.testing import FakeCLI, ScriptedAPI, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection


async def cancelled(*given: Any) -> Any:
    waiting = asyncio.ensure_future(asyncio.sleep(60))
    waiting.cancel()
    await waiting


async def cancels_itself(*given: Any) -> Any:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(60)


async def leaves(*given: Any) -> Any:
    sys.exit(3)


async def fails(*given: Any) -> Any:
    raise ZeroDivisionError("by nothing")


WAYS = {
    cancelled: "it was cancelled, and not by the run",
    cancels_itself: "it was cancelled, and not by the run",
    leaves: "SystemExit(3)",
    fails: "ZeroDivisionError",
}
WAYS_TO_FAIL = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def runs_out(*given: Any) -> Any:
    return next(iter(()))


def leaves_its_thread(*given: Any) -> Any:
    sys.exit(3)


IN_A_THREAD = {runs_out: "StopIteration()", leaves_its_thread: "SystemExit(3)"}
"""The same of functions that are not async: a future does not take these exceptions."""
WAYS_IN_A_THREAD = pytest.mark.parametrize("way", IN_A_THREAD, ids=lambda way: way.__name__)


def warnings(result: RunResult[Any]) -> list[str]:
    return [event.data["what"] for event in load_run(result.run).events() if event.name == "lifecycle.warning"]


def calling() -> FakeCLI:
    return FakeCLI([tool_use(ADD, title="x")], [text("ok")], strict=False)


@WAYS_TO_FAIL
async def test_a_hook_before_a_call_that_fails_has_refused_it(way: Any) -> None:
    result = await asyncio.wait_for(run("Go.", tools=[BOX], hooks={"PreToolUse": way}, transport=calling()), 20)
    assert result.ok
    assert [denied.reason for denied in result.denied] == [f"A hook of this run failed: {WAYS[way]}"]
    assert warnings(result)[0].startswith(f"the hook '{way.__name__}' for PreToolUse failed: {WAYS[way]}")


@WAYS_TO_FAIL
@pytest.mark.parametrize("event", ["PostToolUse", "Stop"])
async def test_a_hook_at_another_event_that_fails_is_told_and_the_run_goes_on(event: str, way: Any) -> None:
    result = await asyncio.wait_for(run("Go.", tools=[BOX], hooks={event: way}, transport=calling()), 20)
    assert (result.code, result.text) == ("ok", "ok")
    [warning] = warnings(result)
    assert warning.startswith(f"the hook '{way.__name__}' for {event} failed: {WAYS[way]}")


@WAYS_TO_FAIL
async def test_a_hook_before_the_prompt_that_fails_has_stopped_the_run(way: Any) -> None:
    result = await asyncio.wait_for(run("Go.", hooks={"UserPromptSubmit": way}, transport=calling()), 20)
    assert (result.code, result.cause) == ("stopped", f"A hook of this run failed: {WAYS[way]}")
    assert warnings(result)[0].startswith(f"the hook '{way.__name__}' for UserPromptSubmit failed")


@WAYS_TO_FAIL
async def test_in_the_jail_a_hook_that_fails_does_not_hang_the_run(way: Any) -> None:
    with ScriptedAPI([tool_use("Bash", command="echo hi")], [text("ok")]) as api:
        hooks = {"PreToolUse": way, "PostToolUse": way, "Stop": way}
        result = await asyncio.wait_for(run("Go.", hooks=hooks, api_url=api.url, api_key="none"), 60)
    assert (result.code, len(result.denied)) == ("ok", 1)


async def test_a_hook_that_takes_too_long_has_failed() -> None:
    async def slow(*given: Any) -> Any:
        await asyncio.Event().wait()

    hooks = {event: [HookMatcher(hooks=[slow], timeout=0.05)] for event in ("PreToolUse", "Stop")}
    result = await asyncio.wait_for(run("Go.", tools=[BOX], hooks=hooks, transport=calling()), 20)
    assert [denied.reason for denied in result.denied] == ["A hook of this run failed: TimeoutError"]
    assert warnings(result) == [f"the hook 'slow' for {event} failed: TimeoutError" for event in hooks]


async def test_a_run_that_is_cancelled_while_a_hook_is_asked_is_cancelled_with_the_hook() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hook(*given: Any) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.ensure_future(
        run("Go.", tools=[BOX], hooks={"PreToolUse": hook}, transport=calling(), run_id="run-c")
    )
    await asyncio.wait_for(begun.wait(), 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait_for(ended.wait(), 60)
    assert load_run("run-c").result().code == "aborted"


@pytest.mark.parametrize("event", ["PostToolUse", "Stop"])
async def test_an_answer_that_the_cli_cannot_read_is_told_with_the_name_of_the_hook(event: str) -> None:
    async def hook(*given: Any) -> Any:
        return {"decision": "blok"}

    result = await run("Go.", tools=[BOX], hooks={event: hook}, transport=calling())
    assert warnings(result) == [f"the hook 'hook' for {event} gave an answer that the CLI cannot read: decision"]


@WAYS_TO_FAIL
async def test_an_approver_that_fails_has_refused(way: Any) -> None:
    options: dict[str, Any] = {"policy": {"add": "ask"}, "approve": way}
    result = await asyncio.wait_for(run("Go.", tools=[BOX], transport=calling(), **options), 20)
    assert (result.code, len(result.denied)) == ("ok", 1)


@WAYS_IN_A_THREAD
async def test_an_approver_that_fails_in_its_thread_has_refused(way: Any) -> None:
    options: dict[str, Any] = {"policy": {"add": "ask"}, "approve": way}
    result = await asyncio.wait_for(run("Go.", tools=[BOX], transport=calling(), **options), 20)
    assert (result.code, len(result.denied)) == ("ok", 1)


@WAYS_TO_FAIL
async def test_a_listener_that_fails_gets_the_next_event(way: Any) -> None:
    heard: list[str] = []

    async def listen(event: Event) -> None:
        heard.append(event.name)
        await way()

    async with start("Go.", transport=FakeCLI([text("ok")])) as live:
        live.bus.subscribe(listen)
        await live.result()
    assert (heard[0], heard[-1]) == ("lifecycle.started", "lifecycle.finished")
    assert live.bus.missed == {}


async def test_a_listener_in_a_thread_that_exits_gets_the_next_event() -> None:
    heard: list[str] = []

    def listen(event: Event) -> None:
        heard.append(event.name)
        sys.exit(3)

    async with start("Go.", transport=FakeCLI([text("ok")])) as live:
        live.bus.subscribe(listen)
        await live.result()
    assert heard[-1] == "lifecycle.finished"


@WAYS_TO_FAIL
async def test_a_before_run_that_fails_is_named(way: Any) -> None:
    result = await asyncio.wait_for(run("Go.", before_run=way, transport=FakeCLI([text("ok")], strict=False)), 20)
    assert result.code == "internal"
    assert str(result.cause).startswith("before_run failed: ")
    assert WAYS[way] in str(result.cause)


async def test_a_before_run_that_gives_no_text_is_refused() -> None:
    with pytest.raises(OptionError, match="before_run gave 5: it gives a text") as caught:
        await run("Go.", before_run=lambda spec: 5, transport=FakeCLI([text("ok")], strict=False))
    assert caught.value.option == "before_run"


@WAYS_TO_FAIL
async def test_an_after_run_that_fails_changes_nothing(way: Any) -> None:
    assert (await asyncio.wait_for(run("Go.", after_run=way, transport=FakeCLI([text("ok")])), 20)).ok


@WAYS_TO_FAIL
async def test_an_on_result_that_fails_changes_nothing(way: Any) -> None:
    specs = [RunSpec("Go.", transport=FakeCLI([text("ok")])) for _ in range(2)]
    results = await asyncio.wait_for(run_many(specs, on_result=way), 20)
    assert [result.code for result in results] == ["ok", "ok"]


@WAYS_TO_FAIL
async def test_a_verification_that_fails_has_not_passed(way: Any, tmp_path: Any) -> None:
    (tmp_path / "a.txt").write_text("a")
    section = WorkspaceSection([HostMount(tmp_path)], allowed_host_roots=[tmp_path])
    options: dict[str, Any] = {"workspace": section, "verify": way}
    result = await asyncio.wait_for(run("Go.", transport=FakeCLI([text("ok")]), **options), 60)
    assert (result.code, result.verified) == ("unverified", False)
    assert WAYS[way] in result.attempts[0].output


@WAYS_IN_A_THREAD
@pytest.mark.parametrize("as_a_tool", [False, True])
async def test_a_verification_that_fails_in_its_thread_has_not_passed(way: Any, as_a_tool: bool) -> None:
    @tool
    def check() -> str:
        """Check the work."""
        return str(way())

    verify: Any = check if as_a_tool else way
    result = await asyncio.wait_for(run("Go.", transport=FakeCLI([text("ok")]), verify=verify), 60)
    assert (result.code, result.verified) == ("unverified", False)
    assert IN_A_THREAD[way] in result.attempts[0].output


def test_a_verification_that_never_ends_holds_no_program_back() -> None:
    never = threading.Event()
    try:
        verify = Verify(lambda _: bool(never.wait(60)), deadline=0.2)
        began = time.monotonic()
        result = run_sync("Go.", transport=FakeCLI([text("ok")]), verify=verify)
        assert (result.code, result.attempts[0].ended_by) == ("unverified", "deadline")
        assert time.monotonic() - began < 30
    finally:
        never.set()
