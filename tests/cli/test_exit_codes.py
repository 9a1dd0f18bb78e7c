"""A command that is asked for something that is not there ends with 2, as for any other usage error."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli._command import toolkit
from tests.cli._running import Desk
from toolkit.runs import list_runs
from toolkit.testing import ScriptedAPI, text

Start = Callable[..., ScriptedAPI]
TOOLS = "from toolkit import tool\n\n\n@tool\ndef find(text: str) -> str:\n    return text\n"
NOT_THERE = {
    "approvals forget Bash": "'Bash' is not remembered",
    "batch check --cluster nope": "'nope' is no address of a cluster",
    "call tools.py fnid": "tools.py has no tool 'fnid'",
    "call tools.py find txt=x": "find was not called",
    "inspect files:nope": "is not a folder that can be opened",
    "inspect tools.py:nope": "tools.py has no 'nope'",
    "inspect workspace:nope": "is no prepared workspace",
    "runs remove nope": "there is no run 'nope'",
    "sandbox check --workspace nope": "'nope' does not exist",
    "sandbox settings --profile nope": "there is no profile 'nope'",
    "serve --config nope.toml": "the configuration cannot be read",
    "serve tools.py --http --auth nope": "'nope' names no verifier",
    "serve tools.py --http --host 192.0.2.1": "refusing to serve on 192.0.2.1 without a login",
    "serve tools.py --http --tls-cert nope": "TLS needs a certificate and its key",
    "serve tools.py --http --token-file nope": "the token file cannot be read",
    "workspace diff .": "is no prepared workspace",
    "workspace plan --mount nope": "mount nope cannot be opened",
}


@pytest.mark.parametrize("command", NOT_THERE)
def test_what_is_not_there_is_a_usage_error(command: str, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    done = toolkit(*shlex.split(command), cwd=tmp_path, env={"TOOLKIT_HOME": str(tmp_path / "home")})
    assert (done.code, done.out) == (2, "")
    assert NOT_THERE[command] in done.err
    assert "Traceback" not in done.err


def test_a_run_that_is_refused_leaves_none_behind_and_last_is_the_one_before(
    tmp_path: Path, scripted_api: Start
) -> None:
    desk = Desk(tmp_path, scripted_api([text("one")], [text("two")]))
    assert desk.toolkit("run", "ask one", "--mount", "src").code == 0
    first = desk.last().id
    for wrong in (["--resume", "last", "--fork-at", "nope"], ["--readable", "nope"], ["--api-url", "nope"]):
        assert desk.toolkit("run", "ask more", *wrong).code == 2
        assert [run.id for run in list_runs(desk.home)] == [first]
    assert desk.toolkit("run", "ask two", "--resume", "last").out == "two\n"


@pytest.mark.parametrize("code", [3, 0])
def test_a_cli_that_dies_at_the_start_is_told_in_our_words_alone(
    tmp_path: Path, scripted_api: Start, code: int
) -> None:
    desk = Desk(tmp_path, scripted_api(otherwise=[text("never")]))
    cli = tmp_path / "claude"
    cli.write_text(f"#!/bin/sh\necho 'error: unknown option' >&2\nexit {code}\n", encoding="utf-8")
    cli.chmod(0o755)
    done = desk.toolkit("run", "go", env={"CLAUDE_BIN": str(cli)})
    assert (done.code, done.err.splitlines()[0].partition(":")[0]) == (1, "crashed")
    assert "error: unknown option" in done.err
    assert "Fatal error in message reader" not in done.err
