"""What holds for root holds for an ordinary user: the tests of setups, run again as one."""

from __future__ import annotations

from tests.escape.plain import for_plain_user, pass_as_plain_user

_CHOSEN = "pip_installed or failed_setup or cache_is or second_run or api_nor"


@for_plain_user
def test_the_tests_of_setups_pass_for_an_ordinary_user() -> None:
    pass_as_plain_user("setups/test_setup.py", only=_CHOSEN)
