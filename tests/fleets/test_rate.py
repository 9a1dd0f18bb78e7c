"""One rate: it begins low, grows, falls when the API refuses, and everybody who waits gets a turn."""

from __future__ import annotations

import asyncio
import pickle
import threading

import pytest

from toolkit.fleets.rate import Decision, Rate
from toolkit.fleets.rate.decisions import FIRST_RATE, LONGEST_PAUSE
from toolkit.fleets.rate.line import PATIENCE, Line, Ticket
from toolkit.fleets.rate.pacer import Pacer

WAIT = 60.0


def drive(pacer: Pacer, seconds: float, *, limit: float | None = None, retry_after: float | None = 1.0) -> list[float]:
    """Keep the pacer busy for so long, against an API that takes `limit` a second; when each was accepted."""
    now, end, bucket, filled, accepted = 0.0, seconds, 1.0, 0.0, []
    for _ in range(50):
        pacer.enter(Ticket(), now)
    while now < end:
        gone, again = pacer.due(now)
        for ticket in gone:
            pacer.enter(Ticket(), now)
            if limit is not None:
                bucket, filled = min(max(1.0, limit), bucket + (now - filled) * limit), now
                if bucket < 1.0:
                    pacer.answered(ticket, 429, retry_after, now)
                    continue
                bucket -= 1.0
            pacer.answered(ticket, 200, None, now)
            accepted.append(now)
        assert again is not None
        now = max(again, now + 0.0005)
    return accepted


def test_it_begins_low_and_grows_as_long_as_nothing_is_refused() -> None:
    pacer = Pacer(0.0)
    first = drive(pacer, 30.0)
    assert sum(at < 1.0 for at in first) <= FIRST_RATE * 2
    assert pacer.rate(30.0) > 50 * FIRST_RATE
    assert pacer.decision.why == "raised"


@pytest.mark.parametrize("limit", [0.5, 2.0, 20.0, 300.0])
@pytest.mark.parametrize("retry_after", [None, 1.0])
def test_it_finds_the_limit_of_an_api_and_stays_just_below(limit: float, retry_after: float | None) -> None:
    decisions: list[Decision] = []
    pacer = Pacer(0.0, on_decision=decisions.append)
    accepted = drive(pacer, 600.0, limit=limit, retry_after=retry_after)
    late = [at for at in accepted if at >= 60.0]
    assert len(late) / (540.0 * limit) > (0.9 if limit > 1 else 0.85)
    refused = sum(decision.why == "lowered" for decision in decisions)
    assert refused < 0.2 * len(accepted) + 10
    numbers = [decision.number for decision in decisions]
    assert numbers == list(range(2, len(numbers) + 2))


def test_nothing_leaves_as_long_as_the_api_asked_to_wait() -> None:
    pacer = Pacer(0.0)
    ticket = Ticket()
    pacer.enter(ticket, 0.0)
    assert pacer.due(0.0)[0] == [ticket]
    pacer.answered(ticket, 429, 8.0, 1.0)
    pacer.enter(Ticket(), 1.0)
    assert pacer.due(4.0) == ([], 8.0)
    assert pacer.due(7.9)[0] == []
    assert pacer.due(11.0)[0]


def test_a_request_that_was_told_to_wait_lets_others_go_before_it() -> None:
    pacer = Pacer(0.0)
    told, other = Ticket(again=True, wait=5.0), Ticket()
    pacer.enter(told, 0.0)
    assert pacer.due(0.0) == ([], 5.0)
    pacer.enter(other, 1.0)
    assert pacer.due(1.0)[0] == [other]
    assert pacer.due(4.9)[0] == []
    assert pacer.due(5.0)[0] == [told]


def test_refusals_of_requests_that_left_before_the_decision_lower_it_once() -> None:
    pacer = Pacer(0.0, Decision(base=100.0))
    tickets = [Ticket() for _ in range(5)]
    for ticket in tickets:
        pacer.enter(ticket, 0.0)
    for tenth in range(10):
        pacer.due(tenth / 10)
    for ticket in tickets:
        pacer.answered(ticket, 429, None, 1.5)
    assert pacer.decision.number == 2
    pacer.answered(tickets[0], 529, 30.0, 1.6)
    assert (pacer.decision.number, pacer.decision.pause) == (3, 29.0)
    pacer.answered(tickets[1], 529, 30.0, 1.7)
    assert pacer.decision.number == 3


def test_an_api_that_asks_to_wait_for_days_is_asked_again_before() -> None:
    lowered = Decision(base=2.0).lowered(0.0, 2.0, 2.0, 429, 1e6)
    assert lowered.pause == LONGEST_PAUSE
    assert lowered.retry_after == 1e6


@pytest.mark.parametrize("status", [200, 400, 401, 413, 500, 503])
def test_other_answers_decide_nothing(status: int) -> None:
    pacer = Pacer(0.0)
    ticket = Ticket()
    pacer.enter(ticket, 0.0)
    pacer.due(0.0)
    pacer.answered(ticket, status, None, 1.0)
    assert pacer.decision.number == 1


def names(line: Line, now: float) -> list[str]:
    found = []
    while (ticket := line.take(now)) is not None:
        found.append(f"{ticket.project}{ticket.priority}{'!' if ticket.again else ''}")
    return found


def test_the_line_puts_tries_again_first_then_priorities_then_the_project_that_left_last() -> None:
    line = Line()
    for project, priority, again in [
        ("a", 0, False),
        ("b", 0, False),
        ("a", 0, False),
        ("b", 5, False),
        ("a", 0, True),
    ]:
        line.enter(Ticket(project, priority, again, since=0.0))
    assert names(line, 1.0) == ["a0!", "b5", "b0", "a0", "a0"]


def test_who_has_waited_too_long_goes_before_higher_priorities_and_other_projects() -> None:
    line = Line()
    line.enter(Ticket("a", 9, since=PATIENCE))
    line.enter(Ticket("b", 0, since=0.0))
    assert names(line, PATIENCE + 1.0) == ["b0", "a9"]


async def test_turns_come_in_several_loops_and_threads() -> None:
    rate = Rate()
    gone: list[int] = []

    def elsewhere(number: int) -> None:
        async def ask() -> None:
            permit = await rate.of_run().admit(WAIT)
            assert permit is not None
            permit.answered(200, None)
            gone.append(number)

        asyncio.run(ask())

    threads = [threading.Thread(target=elsewhere, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    permit = await rate.of_run().admit(WAIT)
    assert permit is not None
    for thread in threads:
        await asyncio.to_thread(thread.join, WAIT)
    assert sorted(gone) == [0, 1, 2, 3]
    assert rate.waiting == 0


async def test_a_turn_that_does_not_come_in_time_is_given_up_and_so_is_that_of_who_leaves() -> None:
    rate = Rate()
    pace = rate.of_run()
    first = await pace.admit(WAIT)
    assert first is not None
    first.answered(429, 60.0)
    assert await pace.admit(0.01) is None
    waiting = asyncio.ensure_future(pace.admit(WAIT))
    await asyncio.sleep(0)
    assert rate.waiting == 1
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert rate.waiting == 0
    assert rate.now == 0.0


def test_a_pace_cannot_be_sent_to_another_process() -> None:
    with pytest.raises(TypeError, match="belongs to its process"):
        pickle.dumps(Rate().of_run())
