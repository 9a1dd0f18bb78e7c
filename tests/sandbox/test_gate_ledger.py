"""The gate's account: what a call may cost, has cost and is told to have cost, to the token."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolkit.sandbox import GateUsage, ModelCall, SpendLimit
from toolkit.sandbox.gate.usage import Booking, Ledger, Meter, SpentError, estimate_call


def test_an_estimate_counts_three_bytes_a_token_and_pictures_by_size_or_at_least_by_number() -> None:
    assert estimate_call("m", 300, 0, 0, 50) == ModelCall(model="m", input=101, output=50, is_estimate=True)
    assert estimate_call("m", 330, 30, 1, 7).input == 101 + 2_000
    assert estimate_call("m", 360, 60, 2, 7).input == 101 + 4_000
    assert estimate_call("m", 300_030, 300_000, 1, 7).input == 11 + 10_000


def test_nothing_is_what_an_account_and_a_call_begin_with() -> None:
    assert ModelCall() == ModelCall("", "", 0, 0, 0, 0, is_estimate=False)
    assert GateUsage() == GateUsage(0, 0, 0, 0, 0, 0, 0, 0, 0, None)
    assert ModelCall(input=1, output=2, cache_read=4, cache_write=8).tokens == 15
    assert GateUsage(input=1, output=2, cache_read=4, cache_write=8).tokens == 15
    assert Ledger(None).snapshot() == GateUsage()
    assert Ledger(SpendLimit(price=lambda call: 1.0)).snapshot() == GateUsage(usd=0.0)


def test_a_call_is_free_until_it_leaves_and_is_then_guessed_by_time_up_to_what_it_may_say() -> None:
    booking = Booking(ModelCall(input=10, output=300, is_estimate=True))
    assert booking.so_far() == ModelCall()
    assert booking.expected() == ModelCall(input=10, output=300, is_estimate=True)
    booking.leave()
    assert not booking.is_free
    assert 200 <= booking.so_far().output <= 300
    booking.left -= 60
    assert booking.so_far() == ModelCall(input=10, output=300, is_estimate=True)
    large = Booking(ModelCall(output=100_000))
    assert large.expected().output == 8_000
    large.leave()
    large.left -= 100
    assert large.expected().output >= 20_000


async def test_what_came_without_usage_is_counted_one_by_one_and_stops_a_limit() -> None:
    for limit in (None, SpendLimit(tokens=100)):
        ledger = Ledger(limit)
        booking = await ledger.book(ModelCall(output=5))
        booking.leave()
        booking.meter = Meter(is_stream=False)
        booking.meter.feed(b"no usage here")
        booking.meter.finish()
        ledger.settle(booking)
        assert ledger.snapshot() == GateUsage(unmetered=1)
        if limit is not None:
            with pytest.raises(SpentError, match="unknown"):
                ledger.judge()


@pytest.mark.parametrize(("limit", "passes"), [(16, True), (15, False), (14, False)])
async def test_a_limit_is_reached_at_its_last_token(limit: int, passes: bool) -> None:
    ledger = Ledger(SpendLimit(tokens=limit))
    ledger.settle(await _answered(ledger, {"input_tokens": 1, "output_tokens": 14}))
    assert ledger.snapshot().tokens == 15
    assert [call.tokens for call in ledger.calls] == [15]
    if passes:
        ledger.judge()
    else:
        with pytest.raises(SpentError, match=f"the limit of {limit} tokens is reached \\(15 used\\)"):
            ledger.judge()


async def test_money_is_counted_by_the_callers_prices_and_what_has_none_is_never_free() -> None:
    ledger = Ledger(SpendLimit(usd=1.0, price=lambda call: call.tokens / 100))
    ledger.settle(await _answered(ledger, {"input_tokens": 40, "output_tokens": 10}))
    assert ledger.snapshot().usd == pytest.approx(0.5)
    ledger.judge()
    ledger.settle(await _answered(ledger, {"input_tokens": 50, "output_tokens": 0}))
    with pytest.raises(SpentError, match="the limit of 1 USD is reached"):
        ledger.judge()

    def no_price(call: ModelCall) -> float:
        raise KeyError(call.model)

    priceless = Ledger(SpendLimit(usd=1_000_000.0, price=no_price))
    priceless.settle(await _answered(priceless, {"input_tokens": 1}))
    with pytest.raises(SpentError):
        priceless.judge()
    counted = Ledger(SpendLimit(tokens=1_000))
    counted.settle(await _answered(counted, {"input_tokens": 1}))
    assert counted.snapshot().usd is None


def test_a_stream_that_is_still_spoken_is_guessed_by_its_length() -> None:
    meter = Meter(is_stream=True)
    usage = {"input_tokens": 7, "output_tokens": 1}
    meter.feed(_event({"type": "message_start", "message": {"id": "i", "model": "m", "usage": usage}}))
    assert meter.so_far(100).output == 1
    for _ in range(5):
        meter.feed(b"data: content_block_delta\n")  # shorter than the frame of any delta
    assert (meter.so_far(100).output, meter.so_far(3).output) == (5, 3)
    meter.feed(b"data: content_block_delta".ljust(85 + 30) + b"\n")
    assert meter.so_far(100).output == 5 + 11
    assert meter.so_far(100).is_estimate
    meter.feed(_event({"type": "message_delta", "usage": {"output_tokens": 4}}))
    assert meter.is_complete
    assert (meter.so_far(100).output, meter.so_far(100).is_estimate) == (4, False)


def test_events_are_read_with_and_without_a_space_and_one_of_another_shape_says_nothing() -> None:
    shapes: list[Any] = [None, [], "usage", 5]
    for space in (b" ", b""):
        meter = Meter(is_stream=True)
        for message in shapes:
            meter.feed(_event({"type": "message_start", "message": message}))
        assert meter.call is None
        started = {"type": "message_start", "message": {"usage": {"input_tokens": 7}}}
        meter.feed(b"data:" + space + json.dumps(started).encode() + b"\n\n")
        said = {"type": "content_block_delta", "message": {"usage": {"input_tokens": 99}}, "text": "message_start"}
        meter.feed(_event(said))
        assert meter.so_far(100).input == 7


async def _answered(ledger: Ledger, usage: dict[str, int]) -> Booking:
    booking = await ledger.book(ModelCall(output=1))
    booking.leave()
    booking.meter = Meter(is_stream=False)
    booking.meter.feed(json.dumps({"type": "message", "id": "i", "model": "m", "usage": usage}).encode())
    booking.meter.finish()
    return booking


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n"
