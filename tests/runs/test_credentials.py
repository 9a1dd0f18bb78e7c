"""Whatever a run is paid with stays outside, and the API gets it as the real CLI sends it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli._running import Desk
from toolkit.runs import run
from toolkit.sandbox import CREDENTIALS, find_cli
from toolkit.testing import Request, ScriptedAPI, text, tool_use

SECRET = "sk-ant-FAKE-0123456789"
FRAMING = {"accept-encoding", "connection", "content-length", "host"}
SWITCHES = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
}
LOOK = "env; cat /proc/[0-9]*/environ; grep -rs FAKE-01 ~ . /run /tmp /etc; true"


def asked_by_the_cli_alone(folder: Path, **variables: str) -> Request:
    """The first request of the real CLI when it has the credential itself; it talks to a script on loopback."""
    with ScriptedAPI([text("hi")], strict=False) as api:
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "CLAUDE_CONFIG_DIR": str(folder / "config")}
        env |= {**SWITCHES, "ANTHROPIC_BASE_URL": api.url, **variables}
        subprocess.run([find_cli(), "-p", "hi"], cwd=folder, env=env, capture_output=True, timeout=60, check=True)
        return api.requests[0]


def betas(request: Request) -> set[str]:
    return set(request.headers["anthropic-beta"].split(","))


@pytest.mark.parametrize("kind", CREDENTIALS)
async def test_a_credential_is_sent_as_the_cli_sends_it_and_never_enters(tmp_path: Path, kind: str) -> None:
    alone = await asyncio.to_thread(asked_by_the_cli_alone, tmp_path, **{CREDENTIALS[kind]: SECRET})
    with ScriptedAPI([tool_use("Bash", command=LOOK)], [text("done")]) as api:
        credential: dict[str, Any] = {kind: SECRET}
        result = await asyncio.wait_for(run("go", api_url=api.url, **credential), 90)
        confined = api.requests[0]

    assert (result.code, result.refused) == ("ok", ())
    for name in ("x-api-key", "authorization"):
        assert confined.headers.get(name) == alone.headers.get(name)
    assert set(confined.headers) - FRAMING == set(alone.headers) - FRAMING  # the gate passes all that the CLI sends
    assert {beta for beta in betas(alone) if beta.startswith(("oauth", "extended-cache"))} <= betas(confined)
    looked = str(api.requests[-1].tool_results())
    assert "PATH=" in looked  # it did look
    assert "FAKE-0123" not in looked
    stored = [file for file in (tmp_path / "toolkit-home").rglob("*") if file.is_file()]
    assert any(file.name == "events.jsonl" for file in stored)
    assert [file for file in stored if SECRET.encode() in file.read_bytes()] == []


def test_headers_for_a_gateway_are_given_on_the_command_line_or_in_the_environment(tmp_path: Path) -> None:
    with ScriptedAPI([text("hi")]) as api:
        desk = Desk(tmp_path, api)
        env = {"ANTHROPIC_CUSTOM_HEADERS": "x-team: red\nx-site: here", "ANTHROPIC_API_KEY": ""}
        token = {"ANTHROPIC_AUTH_TOKEN": "token-of-the-gateway"}
        done = desk.toolkit("run", "go", "--api-header", "x-team=blue", "--api-header", "X-Q=a=b", env={**env, **token})
        wrong = desk.toolkit("run", "go", "--api-header", "a-secret", env=env)
        (request,) = api.requests

    assert done.code == 0, done.err
    sent = {name: request.headers.get(name) for name in ("x-team", "x-site", "x-q", "authorization", "x-api-key")}
    bearer = "Bearer token-of-the-gateway"
    assert sent == {"x-team": "blue", "x-site": "here", "x-q": "a=b", "authorization": bearer, "x-api-key": None}
    assert wrong.code == 2
    assert "a header is written NAME=VALUE" in wrong.err
    assert "a-secret" not in wrong.err
