"""What is verified and protected for root is so for an ordinary user: the same stories, run again as one."""

from __future__ import annotations

from tests.escape.plain import for_plain_user, pass_as_plain_user

_STORIES = "first_fix or cheating or deep_file or set_back or lives_while"


@for_plain_user
def test_verified_runs_pass_for_an_ordinary_user() -> None:
    assert "5 passed" in pass_as_plain_user("runs/test_verified_runs.py", only=_STORIES)
