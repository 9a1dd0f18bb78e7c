"""The table of attempts in the README is the one the suite plays."""

from __future__ import annotations

from tests.escape.attempts import ATTEMPTS, USEFUL
from tests.escape.table import README, with_table


def test_the_published_table_is_up_to_date() -> None:
    assert README.read_text(encoding="utf-8") == with_table(), "run: python -m tests.escape.table"


def test_there_are_enough_attempts_and_no_two_share_a_name() -> None:
    names = [attempt.name for attempt in (*ATTEMPTS, *USEFUL)]
    assert len(ATTEMPTS) >= 60
    assert len(set(names)) == len(names)
    # A name followed by a dot is what the host listens for: none may end like another.
    assert not [(a, b) for a in names for b in names if a != b and a.endswith(b)]
