"""A run that is left before its body has awaited once: leaving is prompt, and nothing waits for it for ever."""

from __future__ import annotations

import asyncio

import pytest

from toolkit.runs import Event, LiveRun, load_run, start
from toolkit.testing import FakeCLI, Turn, text


def script() -> FakeCLI:
    return FakeCLI(Turn([text("Done.")]))


async def left_at_once(*, with_error: bool) -> tuple[LiveRun[str], list[str]]:
    heard: list[str] = []

    async def listen(event: Event) -> None:
        heard.append(event.name)

    live = start("go", transport=script())
    try:
        async with live:
            live.bus.subscribe(listen)
            if with_error:
                raise KeyError("x")
    except KeyError:
        assert with_error
    return live, heard


@pytest.mark.parametrize("with_error", [True, False])
async def test_leaving_before_anything_was_awaited_is_prompt_and_the_result_says_so(with_error: bool) -> None:
    async with asyncio.timeout(5):  # the listener's own time is 30 seconds
        live, heard = await left_at_once(with_error=with_error)
        result = await live.result()
        names = [event.name async for event in live]
    assert result.code == "aborted"
    assert names == heard == ["lifecycle.finished"]
    assert live.bus.missed == {}


async def test_a_run_that_was_left_at_once_is_stored_as_aborted_and_holds_nothing() -> None:
    async with asyncio.timeout(5):
        live, _ = await left_at_once(with_error=True)
    stored = load_run(live.id)
    assert stored.state == "finished"
    assert stored.result().code == "aborted"
    stored.remove()
