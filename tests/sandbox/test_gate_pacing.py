"""A gate with a pace: requests wait for their turn there, and what meets the API's limit is sent again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.sandbox.upstream import (
    HELLO,
    WAIT,
    Answering,
    Jailed,
    Seen,
    answer_hello,
    loopback_api,
    post_bytes,
    send_json,
)
from toolkit.fleets.rate import Rate
from toolkit.sandbox import Gate, SpendLimit
from toolkit.sandbox.gate.pacing import sending


class Turns:
    """A pace that a test holds in its hand: who asked, what was answered, and whether a turn comes."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.asked: list[bool] = []
        self.answers: list[tuple[int, float | None]] = []
        self.given_up = asyncio.Event()
        self.waits = asyncio.Event()
        self._is_open = is_open

    async def admit(self, within: float, *, again: bool = False, after: float = 0.0) -> Turns | None:
        self.asked.append(again)
        self.waits.set()
        if self._is_open:
            return self
        try:
            await asyncio.sleep(within)
        except asyncio.CancelledError:
            self.given_up.set()
            raise
        return None

    def answered(self, status: int, retry_after: float | None) -> None:
        self.answers.append((status, retry_after))


def refusing(times: int, status: int = 429, extra: bytes = b"retry-after: 2\r\n") -> Answering:
    left = iter(range(times))

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if next(left, None) is None:
            await answer_hello(seen, writer)
        else:
            await send_json(writer, {"type": "error"}, status=status, extra=extra)

    return answer


@pytest.mark.parametrize("status", [429, 529, 503])
async def test_a_request_that_meets_the_limit_is_sent_again_and_the_client_sees_one_answer(
    tmp_path: Path, status: int
) -> None:
    pace = Turns()
    async with (
        loopback_api(refusing(2, status)) as api,
        Gate(api.url, "k", tmp_path / "s", pace=pace) as gate,
        Jailed(tmp_path / "s") as agent,
    ):
        reply = await agent.post(HELLO)
        assert reply.status == 200
        assert pace.asked == [False, True, True]
        assert pace.answers == [(status, 2.0), (status, 2.0), (200, None)]
        assert (gate.usage.requests, gate.usage.calls, gate.usage.tokens) == (3, 1, 15)
        assert gate.usage.estimated == 0
        assert api.connections == 1


@pytest.mark.parametrize(
    ("status", "extra"),
    [
        (400, b"retry-after: 2\r\n"),
        (500, b""),
        (503, b""),
        (429, b"x-should-retry: false\r\n"),
        (429, b"retry-after: 999\r\n"),
    ],
)
async def test_other_refusals_and_waits_that_are_too_long_go_to_the_client(
    tmp_path: Path, status: int, extra: bytes
) -> None:
    pace = Turns()
    async with (
        loopback_api(refusing(1, status, extra)) as api,
        Gate(api.url, "k", tmp_path / "s", pace=pace),
        Jailed(tmp_path / "s") as agent,
    ):
        assert (await agent.post(HELLO)).status == status
        assert [status for status, _ in pace.answers] == [status]
        assert len(api.seen) == 1


async def test_counting_tokens_needs_no_turn(tmp_path: Path) -> None:
    pace = Turns(is_open=False)
    async with (
        loopback_api() as api,
        Gate(api.url, "k", tmp_path / "s", pace=pace),
        Jailed(tmp_path / "s") as agent,
    ):
        assert (await agent.post(HELLO, path="/v1/messages/count_tokens")).status == 200
        assert not pace.asked


async def test_without_a_turn_in_time_the_client_may_try_again_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "LONGEST_WAIT", 0.05)
    async with (
        loopback_api() as api,
        Gate(api.url, "k", tmp_path / "s", pace=Turns(is_open=False)) as gate,
        Jailed(tmp_path / "s") as agent,
    ):
        reply = await agent.post(HELLO)
        assert reply.status == 429
        assert reply.headers.get("x-should-retry") == "true"
        assert reply.json["error"]["type"] == "rate_limit_error"
        assert not api.seen
        assert [refusal.code for refusal in gate.audit] == ["rate"]
        assert "--parallel" in gate.audit[0].fix


async def test_who_hangs_up_while_waiting_gives_the_turn_up_and_owes_nothing(tmp_path: Path) -> None:
    pace = Turns(is_open=False)
    async with (
        loopback_api() as api,
        Gate(api.url, "k", tmp_path / "s", pace=pace, spend_limit=SpendLimit(tokens=1000)) as gate,
        asyncio.timeout(WAIT),
    ):
        async with Jailed(tmp_path / "s") as agent:
            agent.writer.write(post_bytes(HELLO))
            await pace.waits.wait()
        await pace.given_up.wait()
        assert not api.seen
        assert gate.usage.tokens == 0


async def test_two_gates_with_one_rate_send_no_faster_than_it_says(tmp_path: Path) -> None:
    rate = Rate()
    async with (
        loopback_api(refusing(1, extra=b"retry-after-ms: 50\r\n")) as api,
        Gate(api.url, "k", tmp_path / "a", pace=rate.of_run()),
        Gate(api.url, "k", tmp_path / "b", pace=rate.of_run()),
        Jailed(tmp_path / "a") as first,
        Jailed(tmp_path / "b") as second,
    ):
        replies = await asyncio.gather(first.post(HELLO), second.post(HELLO))
    assert [reply.status for reply in replies] == [200, 200]
    assert len(api.seen) == 3
    assert [decision.why for decision in rate.history] == ["begin", "lowered"]
    assert rate.history[-1].status == 429
    assert rate.waiting == 0
