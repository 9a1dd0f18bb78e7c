"""Trying again what is not the agent's fault: how long to wait, what is sent, and where it stops."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolkit import Limits, Retry
from toolkit.runs import OptionError, RunResult, run, start
from toolkit.testing import FakeCLI, Status, Turn, text

QUICK = Retry(times=2, wait=0.01)


class DiesOnce(FakeCLI):
    """A CLI whose first process dies after some frames."""

    was_started = False

    async def connect(self) -> None:
        self._dies_after = None if self.was_started else self._dies_after
        self.was_started = True
        await super().connect()


async def go(cli: FakeCLI, **options: Any) -> RunResult[Any]:
    return await asyncio.wait_for(run("Do it.", transport=cli, **options), 30)


async def test_without_retry_a_failure_stays_one() -> None:
    done = await go(FakeCLI(Status(529), [text("Done.")], strict=False))
    assert (done.code, done.retries) == ("throttled", ())


async def test_it_goes_on_in_the_same_conversation_and_counts_every_call_once() -> None:
    cli = FakeCLI(
        Status(529, retry=True), Status(500, retry=True), Turn([text("Done.")], id="msg_1", usage={"input_tokens": 7})
    )
    done = await go(cli, retry=QUICK)
    assert (done.code, done.text, done.retries) == ("ok", "Done.", ("throttled", "api_error"))
    assert [call.id for call in done.calls] == ["msg_1"]
    assert str(cli.messages).count("Do it.") == 1
    assert str(cli.messages).count("Go on where you stopped.") == 2


async def test_it_is_tried_so_often_and_keeps_the_last_code() -> None:
    done = await go(
        FakeCLI(Status(529, retry=True), Status(529, retry=True), Status(500, retry=True), [text("x")], strict=False),
        retry=QUICK,
    )
    assert (done.code, done.ok, done.retries) == ("api_error", False, ("throttled", "throttled"))


async def test_only_the_codes_that_are_named() -> None:
    done = await go(FakeCLI(Status(500), [text("x")], strict=False), retry=Retry(on=["throttled"], wait=0.01))
    assert (done.code, done.retries) == ("api_error", ())


async def test_a_process_that_died_before_it_began_is_asked_again() -> None:
    cli = DiesOnce([text("Done.")], dies_after=2)
    done = await go(cli, retry=Retry(times=1, wait=0.01, on=["crashed", "internal"]))
    assert (done.code, len(done.retries)) == ("ok", 1)
    assert str(cli.messages).count("Do it.") == 1
    assert "Go on" not in str(cli.messages)


async def test_it_does_not_wait_past_the_deadline() -> None:
    done = await go(FakeCLI(Status(529), [text("x")], strict=False), retry=Retry(wait=60), limits=Limits(seconds=30))
    assert (done.code, done.retries) == ("throttled", ())


async def test_the_wait_is_told_and_can_be_interrupted() -> None:
    async with start(
        "Do it.", transport=FakeCLI(Status(529), [text("x")], strict=False), retry=Retry(wait=600)
    ) as live:
        async for event in live:
            if event.name == "lifecycle.retry":
                told = event.data
                await live.interrupt()
        done = await live.result()
    assert (told["code"], told["attempt"], told["of"], told["status"]) == ("throttled", 1, 3, 529)
    assert 600_000 <= told["delay_ms"] <= 720_000
    assert done.code == "aborted"


@pytest.mark.parametrize(
    ("before", "asked", "least"), [(0, None, 5), (1, None, 10), (3, None, 40), (0, 30.0, 30), (9, None, 600)]
)
def test_it_waits_twice_as_long_each_time_or_as_the_api_says(before: int, asked: float | None, least: float) -> None:
    delay = Retry().delay(before, asked)
    assert delay is not None
    assert least <= delay <= least * 1.2


def test_an_api_that_asks_for_too_long_is_not_waited_for() -> None:
    assert Retry(longest_wait=60).delay(0, 61) is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"times": 0}, "retry times=0"),
        ({"times": True}, "retry times=True"),
        ({"on": "throttled"}, "it is a list of codes"),
        ({"on": []}, "it is a list of codes"),
        ({"on": ["throtled"]}, "there is no such code; did you mean 'throttled'"),
        ({"on": ["ok"]}, "trying again does not mend it"),
        ({"on": ["budget"]}, "trying again does not mend it"),
        ({"wait": 0}, "retry wait=0"),
        ({"longest_wait": -1}, "retry longest_wait=-1"),
    ],
)
def test_a_retry_that_cannot_be_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says) as caught:
        Retry(**given)
    assert caught.value.option.startswith("retry")
