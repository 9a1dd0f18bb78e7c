"""What a turn used and cost, from the API's numbers and the CLI's totals; what is not known is not told as 0."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit.runs import Tokens
from toolkit.runs.turn.meter import Meter

SMALL = {"input_tokens": 10, "output_tokens": 1}


def totals(tokens: int, cost: float = 0.5, **more: Any) -> dict[str, dict[str, Any]]:
    """The CLI's totals for one model."""
    return {"m": {"inputTokens": tokens, "costUSD": cost, "contextWindow": 200, "maxOutputTokens": 30, **more}}


def metered(meter: Meter, message: str, usage: dict[str, int] = SMALL) -> None:
    meter.started(message, "m", usage)
    assert meter.ended(message, {"output_tokens": 5}) is not None


def test_a_call_is_counted_once_by_its_id_with_the_numbers_of_its_end() -> None:
    meter = Meter("run-1")
    meter.started("a", "m", {**SMALL, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4})
    assert meter.used == Tokens(10, 1, 3, 4)
    call = meter.ended("a", {"output_tokens": 7})
    assert call is not None
    assert (call.input, call.output, call.cache_read, call.cache_write) == (10, 7, 3, 4)
    assert meter.ended("a", {"output_tokens": 9}) is None
    meter.started("a", "m", SMALL)
    assert meter.ended("a", {"output_tokens": 9}) is None
    assert meter.used == Tokens(10, 7, 3, 4)


def test_what_ends_without_having_begun_is_no_call_and_cuts_nothing_off() -> None:
    meter = Meter("run-1")
    assert meter.ended("never begun", SMALL) is None
    assert meter.ended("never begun", SMALL, is_whole=False) is None
    assert meter.cut_off() == []
    assert meter.close_turn(totals(5), 0.5).cost == 0.5


@pytest.mark.parametrize("how", ["interrupted", "never ended"])
def test_a_call_that_was_cut_off_makes_the_cost_of_its_own_turn_unknown(how: str) -> None:
    meter = Meter("run-1")
    meter.started("a", "m", SMALL)
    cut = [meter.ended("a", None, is_whole=False)] if how == "interrupted" else meter.cut_off()
    assert [call and call.input for call in cut] == [10]
    metered(meter, "b")
    turn = meter.close_turn(totals(10, outputTokens=5), 0.5)
    assert (turn.cost, turn.known_cost) == (None, 0.5)
    assert turn.unattributed == Tokens()  # the CLI's totals leave the cut off call out
    metered(meter, "c")
    turn = meter.close_turn(totals(20, outputTokens=10), 0.75)
    assert (turn.cost, turn.known_cost) == (0.25, 0.25)


def test_a_turn_has_its_share_of_totals_that_only_grow() -> None:
    meter = Meter("run-1")
    metered(meter, "a")
    first = meter.close_turn(totals(30, outputTokens=5), 0.5)
    assert first.unattributed == Tokens(input=20)
    assert (first.models["m"].input, first.models["m"].context_window) == (30, 200)
    metered(meter, "b")
    second = meter.close_turn(totals(40, outputTokens=10, cost=0.8), 0.8)
    assert second.unattributed == Tokens()
    assert second.cost == pytest.approx(0.3)
    assert second.models["m"].input == 10
    assert meter.used == Tokens(input=40, output=10)
    third = meter.close_turn({**totals(40, outputTokens=10, cost=0.8), "n": {"inputTokens": 5}}, 0.9)
    assert list(third.models) == ["n"]


def test_a_turn_without_a_cost_is_not_free_unless_it_never_began() -> None:
    assert Meter("run-1").close_turn(None, None).cost is None
    assert Meter("run-1").close_turn(None, None, has_begun=False).cost == 0.0
    assert Meter("run-1").close_turn(totals(1), 0.0).cost == 0.0


def test_a_model_without_a_price_makes_the_cost_of_a_turn_that_used_it_unknown() -> None:
    meter = Meter("run-1")
    both = {**totals(10, cost=0.2), "odd": {"inputTokens": 5, "costUSD": 0.1, "costBasis": "unknown"}}
    turn = meter.close_turn(both, 0.3)
    assert turn.cost is None
    assert turn.known_cost == pytest.approx(0.2)
    assert turn.models["odd"].cost is None
    later = {**totals(20, cost=0.5), "odd": both["odd"]}
    turn = meter.close_turn(later, 0.6)
    assert turn.cost == pytest.approx(0.3)


def test_numbers_that_are_not_given_are_none_and_totals_that_lag_take_nothing_away() -> None:
    meter = Meter("run-1")
    meter.started("a", "m", None)
    assert meter.used == Tokens()
    call = meter.ended("a", {"output_tokens": None})
    assert call is not None
    assert call.tokens == Tokens()
    metered(meter, "b")
    assert meter.close_turn({"m": {}}, 0.1).models["m"].tokens == Tokens()
    assert meter.close_turn(totals(4), 0.2).unattributed == Tokens()
    assert meter.used == Tokens(input=10, output=5)


def test_a_request_without_an_answer_leaves_the_cost_of_an_aborted_turn_unknown() -> None:
    meter = Meter("run-1")
    meter.asked()
    assert meter.close_turn(totals(0), 0.0, is_aborted=True).cost is None
    meter.asked()
    assert meter.close_turn(totals(0), 0.0).cost == 0.0, "the API refused it"
    meter.asked()
    meter.started("a", "m", {"input_tokens": 1})
    meter.ended("a", {"output_tokens": 1})
    assert meter.close_turn(totals(1, outputTokens=1), 0.5, is_aborted=True).cost == 0.5


def test_more_tokens_at_the_gate_than_the_cli_tells_of_leave_the_cost_of_that_turn_unknown() -> None:
    meter = Meter("run-1")
    assert meter.close_turn(totals(10), 0.1, through_gate=10).cost == 0.1
    more = meter.close_turn(totals(20), 0.2, through_gate=25)
    assert (more.cost, round(more.known_cost, 6)) == (None, 0.1)
    later = meter.close_turn(totals(30), 0.3, through_gate=35)
    assert later.cost == pytest.approx(0.1)
