"""Nothing runs unasked: what would switch the CLI's hooks off is refused, and a run without them ends at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolkit import Toolbox, tool
from toolkit.errors import ToolkitError
from toolkit.runs import RunResult, RunSpec, run
from toolkit.runs.turn import options as turn_options
from toolkit.testing import ScriptedAPI, text, tool_use

ran: list[str] = []


@tool
def wipe() -> str:
    """Wipe everything."""
    ran.append("wipe")
    return "wiped"


BOX = Toolbox("disk", [wipe])
WIPE = "mcp__disk__wipe"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


async def go(call: dict[str, Any], **options: Any) -> RunResult[Any]:
    with ScriptedAPI([call], [text("Done.")], strict=False) as api:
        return await asyncio.wait_for(run("Go.", api_url=api.url, api_key="none", tools=[BOX], **options), 60)


@pytest.mark.parametrize(
    "call",
    [tool_use(WIPE), tool_use("Bash", command="echo hi"), tool_use("Bash", command="exit 3")],
    ids=["in-process", "native", "native that fails"],
)
async def test_a_cli_that_asks_no_hooks_ends_the_run_and_runs_no_tool_of_ours(
    call: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(turn_options._SWITCHES, "CLAUDE_CODE_SIMPLE", "1")
    result = await go(call)
    assert (result.code, ran) == ("unconfined", [])
    assert result.cause is not None
    assert "without permission: its hooks do not hold" in str(result.cause)


async def test_a_call_that_the_cli_does_not_begin_with_is_not_held_against_it() -> None:
    for call in (tool_use("NoSuchTool"), tool_use("Read", wrong=1)):
        result = await go(call)
        assert (result.code, [used.name for used in result.tools if used.ok]) == ("ok", [])


@pytest.mark.parametrize("system", ["--bare", "- Be kind.\n- Be brief."])
async def test_what_is_added_to_the_system_prompt_is_never_an_option_of_the_cli(system: str) -> None:
    with ScriptedAPI([tool_use(WIPE)], [text("Done.")]) as api:
        result = await run("Go.", api_url=api.url, api_key="none", tools=[BOX], policy={WIPE: "deny"}, system=system)
        assert system in api.requests[0].system_prompt
    assert (result.code, [denied.name for denied in result.denied], ran) == ("ok", [WIPE], [])


STEERING = (
    "CLAUDE_CODE_SIMPLE",
    "CLAUDECODE",
    "ANTHROPIC_MODEL",
    "DISABLE_COMPACT",
    "NODE_OPTIONS",
    "BUN_OPTIONS",
    "LD_PRELOAD",
    "BASH_ENV",
    "ENV",
    "HTTPS_PROXY",
    "https_proxy",
    "No_Proxy",
)


@pytest.mark.parametrize("name", STEERING)
def test_a_variable_that_steers_the_cli_is_refused(name: str) -> None:
    with pytest.raises(ToolkitError, match=f"env: {name} steers the CLI itself"):
        RunSpec("Go.", env={name: "1"})


def test_the_path_is_the_jails_own() -> None:
    with pytest.raises(ToolkitError, match="env: PATH is set by the jail"):
        RunSpec("Go.", env={"PATH": "/x"})


async def test_a_harmless_variable_of_the_cli_gets_through_and_so_do_those_for_commands() -> None:
    env = {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "1234", "NODE_ENV": "test"}
    with ScriptedAPI(
        [tool_use("Bash", command="echo $NODE_ENV-$CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS")], [text("Done.")]
    ) as api:
        result = await run("Go.", api_url=api.url, api_key="none", env=env)
        assert (result.code, api.requests[0]["max_tokens"]) == ("ok", 1234)
        assert api.requests[1].contains("test-1")


@pytest.mark.parametrize(
    "options",
    [
        {"model": "--bare"},
        {"model": " --bare"},
        {"fallback_model": "--bare"},
        {"betas": ["--bare"]},
        {"resume": "0b1d6a52-5c0f-4a3e-9d8b-3f3b0b8f2c11", "fork": True, "at": "--bare"},
        {"agents": {"a": {"description": "d", "prompt": "p", "model": "--bare"}}},
    ],
    ids=str,
)
def test_a_value_that_the_cli_could_read_as_an_option_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ToolkitError, match="not begin with a dash"):
        RunSpec("Go.", **options)
