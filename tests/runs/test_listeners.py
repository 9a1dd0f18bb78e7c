"""Listeners on a run: every event reaches every one, none can slow the run, and what is given up is counted."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.runs.play import ADD, BOX, call
from toolkit.runs import Event, start
from toolkit.runs.views import cogni, listener, openclaw
from toolkit.testing import FakeCLI, Turn, text
from toolkit.workspace import HostMount, WorkspaceSection


def script() -> FakeCLI:
    return FakeCLI(Turn([text("Filing."), call("toolu_1", ADD, title="a")]), Turn([text("Done.")]))


async def test_leaving_waits_for_a_slow_openclaw_listener_to_get_every_block() -> None:
    blocks: list[str] = []

    async def on_block(payload: dict[str, Any]) -> None:
        await asyncio.sleep(0.15)
        blocks.append(payload["text"])

    said = [f"Block {number}." for number in range(8)]
    async with start("go", transport=FakeCLI([text(each) for each in said])) as live:
        live.bus.subscribe(openclaw.caller({"onBlockReply": on_block}))
        await live.result()
    assert blocks == said
    assert live.bus.missed == {}


async def test_leaving_waits_for_a_slow_cogni_listener_to_get_the_usage_and_the_end() -> None:
    heard: list[str] = []

    async def handle(event: dict[str, Any]) -> None:
        await asyncio.sleep(0.12)
        heard.append(event["type"])

    async with start("go", transport=FakeCLI(Turn([text("one two three four five six")], chunk=4))) as live:
        live.bus.subscribe(listener(cogni.Cogni(), handle))
        await live.result()
    assert heard[-3:] == ["usage_report", "assistant_final", "done"]
    assert heard.count("text_delta") == 7


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_listener_that_is_given_up_is_named_counted_and_logged(
    is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    release, begun, heard = threading.Event(), threading.Event(), list[str]()

    def stuck(event: Event) -> None:
        heard.append(event.name)
        begun.set()
        assert release.wait(30)

    async def stuck_too(event: Event) -> None:
        heard.append(event.name)
        begun.set()
        await asyncio.sleep(60)

    async with start("go", tools=[BOX], transport=script(), listener_timeout=0.05) as live:
        live.bus.subscribe(stuck_too if is_async else stuck)
        names = [event.name async for event in live]
        await asyncio.to_thread(begun.wait, 10)
    release.set()
    [(name, missed)] = live.bus.missed.items()
    assert name.endswith("stuck_too" if is_async else "stuck")
    assert missed == len(names)
    assert f"{missed} of {missed} events" in caplog.text
    assert name in caplog.text
    assert heard == names[:1]


async def test_a_cancelled_leaving_stops_waiting_and_still_counts() -> None:
    async def stuck(event: Event) -> None:
        await asyncio.sleep(60)

    over = asyncio.Event()
    live = start("go", tools=[BOX], transport=script(), after_run=lambda result: over.set())

    async def whole() -> None:
        async with live:
            live.bus.subscribe(stuck)
            await live.result()

    task = asyncio.create_task(whole())
    await asyncio.wait_for(over.wait(), 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 60)
    assert sum(live.bus.missed.values()) == len([event async for event in live])


async def test_listeners_hear_everything_in_order_and_cannot_break_or_delay_the_run() -> None:
    heard: dict[str, list[str]] = {"sync": [], "async": [], "late": []}
    hold = threading.Event()

    def broken(event: Event) -> None:
        raise ValueError(event.name)

    def stuck(event: Event) -> None:
        hold.wait(60)

    async def later(event: Event) -> None:
        await asyncio.sleep(0)
        heard["async"].append(event.name)

    async with start("go", tools=[BOX], transport=script()) as live, asyncio.timeout(30):
        for listener in (broken, stuck, later, lambda event: heard["sync"].append(event.name)):
            live.bus.subscribe(listener)
        names = [event.name async for event in live]
        result = await live.result()
        live.bus.subscribe(lambda event: heard["late"].append(event.name))
        hold.set()
    assert result.ok
    assert heard == {"sync": names, "async": names, "late": names}


async def test_a_listener_that_gives_back_something_to_await_hears_everything_in_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    sometimes: list[str] = []

    async def fails(event: Event) -> None:
        raise ValueError(event.name)

    def some(event: Event) -> Any:
        sometimes.append(event.name)
        return asyncio.sleep(0) if event.stream == "assistant" else None

    async with start("go", tools=[BOX], transport=script()) as live, asyncio.timeout(30):
        live.bus.subscribe(lambda event: heard.put(event.name))
        live.bus.subscribe(lambda event: fails(event))
        live.bus.subscribe(some)
        names = [event.name async for event in live]
    assert [heard.get_nowait() for _ in range(heard.qsize())] == names == sometimes
    assert caplog.text.count("a listener failed on ") == len(names)
    assert live.bus.missed == {}


async def test_any_number_of_stuck_listeners_leaves_the_run_its_threads(tmp_path: Path) -> None:
    never = threading.Event()
    (tmp_path / "a").write_text("x", encoding="utf-8")
    section = WorkspaceSection([HostMount(tmp_path / "a")], allowed_host_roots=[tmp_path])

    def stuck(event: Event) -> None:
        never.wait(60)

    async with start("go", tools=[BOX], transport=script(), workspace=section, listener_timeout=0.2) as live:
        for _ in range(40):
            live.bus.subscribe(stuck)
        assert (await asyncio.wait_for(live.result(), 30)).ok
    never.set()
    section.cleanup()


async def test_unsubscribing_ends_the_calls() -> None:
    heard: list[str] = []
    async with start("go", tools=[BOX], transport=script()) as live:
        live.bus.subscribe(lambda event: heard.append(event.name))()
        await live.result()
    assert heard == []
