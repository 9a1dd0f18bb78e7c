"""What holds for root holds for an ordinary user: the tests of the jail, run again as one."""

from __future__ import annotations

from tests.escape.plain import for_plain_user, pass_as_plain_user

_FILES = [
    "test_jail.py",
    "test_check.py",
    "test_limits.py",
    "test_confine.py",
    "test_ends.py",
    "test_exec.py",
    "test_apart.py",
]


@for_plain_user
def test_the_jails_own_tests_pass_for_an_ordinary_user() -> None:
    pass_as_plain_user(*(f"sandbox/{name}" for name in _FILES))
