"""An agent that tries to get out does not, whoever started it; without the jail it does."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.escape.attempts import ATTEMPTS, USEFUL
from tests.escape.users import ROOT, as_plain_user, can_become_plain
from tests.needs import needs
from toolkit.sandbox.jail import preflight

pytestmark = needs(not preflight(), "bubblewrap and socat are needed (./dev says how)")

_ENDED_BY_A_LIMIT = {"fill-workspace", "fill-unlinked", "fill-shm", "much-memory"}


@functools.cache
def _play(user: str, mode: str) -> dict[str, Any]:
    """The result of playing every attempt as `user`; each pair is played once."""
    with tempfile.TemporaryDirectory(prefix="escape-run-") as folder:
        home, result = Path(folder, "home"), Path(folder, "home", "result.json")
        home.mkdir()
        Path(folder).chmod(0o755)
        command = [sys.executable, "-m", "tests.escape.play", mode, str(result)]
        if user == "plain" and os.geteuid() == 0:
            command = as_plain_user(command, home)
            if mode == "none":  # it would find the CLIs of all tests of that user, and speak in their name
                command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--", *command]
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, timeout=600, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-2000:]
        played: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        return played


_ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="the half that is started by root needs root")
_PLAIN_ONLY = needs(os.geteuid() != 0 or can_become_plain(), "setpriv and unshare are needed")
_USERS = [pytest.param("root", marks=_ROOT_ONLY), pytest.param("plain", marks=_PLAIN_ONLY)]
_both_users = pytest.mark.parametrize("user", _USERS)
_both_jails = pytest.mark.parametrize("mode", ["full", "alone"])


@_both_users
@_both_jails
def test_no_attempt_gets_out(user: str, mode: str) -> None:
    leaks = _play(user, mode)["leaks"]

    assert {name: evidence for name, evidence in leaks.items() if evidence} == {}
    assert len(leaks) >= 60


@_both_users
@_both_jails
def test_every_attempt_was_really_made(user: str, mode: str) -> None:
    played = _play(user, mode)
    unanswered = {name for name in played["leaks"] if not played["read"].get(name)}

    assert unanswered <= _ENDED_BY_A_LIMIT, played["notes"]


@_both_users
@_both_jails
def test_honest_work_goes_on_inside(user: str, mode: str) -> None:
    works = _play(user, mode)["works"]

    assert [name for name, worked in works.items() if not worked] == []
    assert set(works) == {attempt.name for attempt in USEFUL}


@_PLAIN_ONLY
def test_without_the_jail_the_same_attempts_get_out() -> None:
    played = _play("plain", "none")
    expected = {attempt.name for attempt in ATTEMPTS if not attempt.held_anyway}

    held = {name: played["read"].get(name) for name in expected if not played["leaks"][name]}
    assert held == {}, played["notes"]
    assert len(expected) >= 50
