"""How a run can end, as the SDK tells it."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import CLIConnectionError, CLINotFoundError, ProcessError, ResultError, StreamEvent, query

from toolkit.testing import RealCLI, ScriptedAPI, Status, Turn, text, tool_use

Start = Callable[..., ScriptedAPI]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def collect(running: AsyncIterator[Any], heard: list[Any]) -> None:
    async for message in running:
        heard.append(message)


async def test_the_turn_limit_is_a_result_and_then_an_error(scripted_api: Start, real_cli: RealCLI) -> None:
    scripted_api([tool_use("Bash", command="true")])
    heard: list[Any] = []
    with pytest.raises(ResultError) as caught:
        await collect(real_cli.query("go", max_turns=1), heard)
    assert caught.value.subtype == heard[-1].subtype == "error_max_turns"


@pytest.mark.parametrize("code", [400, 404, 500])
async def test_an_api_error_is_called_a_success_that_is_an_error(
    code: int, scripted_api: Start, real_cli: RealCLI
) -> None:
    scripted_api(Status(code))
    with pytest.raises(ResultError) as caught:
        await collect(real_cli.query("go"), [])
    assert caught.value.subtype == "success"
    assert caught.value.api_error_status == code


async def test_the_cli_asks_again_when_the_api_lets_it(scripted_api: Start) -> None:
    api = scripted_api(Status(529, retry=True, headers={"retry-after": "0"}), [text("second try")])
    heard: list[Any] = []
    async with RealCLI(api, env={"CLAUDE_CODE_MAX_RETRIES": "2"}) as cli:
        await collect(cli.query("go"), heard)
    assert heard[-1].result == "second try"


async def test_a_connection_that_is_cut_is_asked_again(scripted_api: Start, real_cli: RealCLI) -> None:
    # Whether the first block survives depends on when the CLI noticed; that it asks again does not.
    api = scripted_api(Turn([text("lost"), text("lost too")], cut_after=1), [text("asked again")])
    heard: list[Any] = []
    await collect(real_cli.query("go"), heard)
    assert heard[-1].result == "asked again"
    assert len(api.requests) == 2


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143)])
async def test_a_killed_cli_is_a_process_error_and_what_was_heard_is_kept(
    number: signal.Signals, exit_code: int, scripted_api: Start, real_cli: RealCLI
) -> None:
    scripted_api(Turn([text("half of it"), text("never")], stall_after=1))
    heard: list[Any] = []

    async def kill_when_heard() -> None:
        async for message in real_cli.query("go", include_partial_messages=True):
            heard.append(message)
            if isinstance(message, StreamEvent) and message.event["type"] == "content_block_stop":
                (pid,) = real_cli.processes()
                os.kill(pid, number)

    with pytest.raises(ProcessError) as caught:
        await kill_when_heard()
    assert caught.value.exit_code == exit_code
    deltas = [m.event["delta"].get("text", "") for m in heard if isinstance(m, StreamEvent) and "delta" in m.event]
    assert "".join(deltas) == "half of it"


async def test_structured_output_that_never_comes_is_still_a_success(scripted_api: Start, real_cli: RealCLI) -> None:
    api = scripted_api([text("no")], [text("no again")])
    heard: list[Any] = []
    await collect(real_cli.query("go", output_format={"type": "json_schema", "schema": SCHEMA}), heard)
    assert (heard[-1].subtype, heard[-1].is_error, heard[-1].structured_output) == ("success", False, None)
    assert "StructuredOutput" in api.tools()
    assert len(api.requests) == 2  # one nudge


async def test_a_bad_schema_is_a_bare_process_error_whose_cause_is_on_stderr(
    scripted_api: Start, real_cli: RealCLI
) -> None:
    scripted_api()
    with pytest.raises(ProcessError) as caught:
        await collect(real_cli.query("go", output_format={"type": "json_schema", "schema": {"type": "nonsense"}}), [])
    assert not isinstance(caught.value, ResultError)
    assert "schema" in "\n".join(caught.value.__notes__)


async def test_a_missing_cli_and_a_wrong_folder_are_both_connection_errors(
    scripted_api: Start, real_cli: RealCLI, tmp_path: Path
) -> None:
    scripted_api()
    with pytest.raises(CLIConnectionError) as caught:
        await collect(real_cli.query("go", cwd=tmp_path / "nowhere"), [])
    assert not isinstance(caught.value, CLINotFoundError)
    options = real_cli.options()
    options.cli_path = tmp_path / "no-claude"
    with pytest.raises(CLINotFoundError) as missing:
        await collect(query(prompt="go", options=options), [])
    assert isinstance(missing.value, CLIConnectionError)
