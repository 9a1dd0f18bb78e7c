"""Which guards of the CLI hold, and which let a tool run that looks forbidden."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from claude_agent_sdk import HookMatcher, PermissionResultAllow, SystemMessage

from toolkit.sandbox import NATIVE_TOOLS, OLD_NAMES
from toolkit.testing import RealCLI, ScriptedAPI, text, tool_use

Start = Callable[..., ScriptedAPI]
WRITE = tool_use("Bash", command="echo ran > proof.txt; echo ran")
NO = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no"}


def hook(answer: dict[str, Any] | None, **matcher: Any) -> dict[str, Any]:
    async def callback(data: Any, call_id: Any, context: Any) -> Any:
        if answer is None:
            raise RuntimeError("the guard is broken")
        return answer

    return {"PreToolUse": [HookMatcher(hooks=[callback], **matcher)]}


async def run(cli: RealCLI, **options: Any) -> list[Any]:
    return [message async for message in cli.query("go", **options)]


@pytest.mark.parametrize(
    ("answer", "matcher", "runs"),
    [
        pytest.param(None, {}, True, id="a hook that raises"),
        pytest.param(
            {"hookSpecificOutput": {**NO, "permissionDecision": "denied"}}, {}, True, id="a misspelt decision"
        ),
        pytest.param(None, {"on_failure": "block"}, False, id="a hook that raises and fails closed"),
        pytest.param({"hookSpecificOutput": NO}, {}, False, id="a proper deny"),
    ],
)
async def test_a_guard_that_fails_lets_the_tool_run_unless_it_is_told_to_block(
    answer: dict[str, Any] | None, matcher: dict[str, Any], runs: bool, scripted_api: Start, real_cli: RealCLI
) -> None:
    api = scripted_api([WRITE], [text("done")])
    heard = await run(real_cli, hooks=hook(answer, **matcher))
    assert (real_cli.workspace / "proof.txt").exists() is runs
    assert len(api.requests) == 2  # a deny alone does not end the run
    assert heard[-1].result == "done"


async def test_a_deny_with_stop_ends_the_run_and_calls_it_a_success(scripted_api: Start, real_cli: RealCLI) -> None:
    scripted_api([WRITE])
    heard = await run(real_cli, hooks=hook({"continue_": False, "hookSpecificOutput": NO}))
    assert (heard[-1].subtype, heard[-1].is_error, heard[-1].terminal_reason) == ("success", False, "hook_stopped")
    assert not (real_cli.workspace / "proof.txt").exists()


async def test_a_stop_without_a_deny_lets_the_tool_run_first(scripted_api: Start, real_cli: RealCLI) -> None:
    scripted_api([WRITE])
    heard = await run(real_cli, hooks=hook({"continue_": False}))
    assert heard[-1].terminal_reason == "hook_stopped"
    assert (real_cli.workspace / "proof.txt").exists()


async def test_plan_mode_is_not_read_only(scripted_api: Start, real_cli: RealCLI) -> None:
    async def allow(name: str, arguments: dict[str, Any], context: Any) -> PermissionResultAllow:
        return PermissionResultAllow()

    async def prompt() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "user", "message": {"role": "user", "content": "go"}, "parent_tool_use_id": None}

    target = real_cli.workspace / "planned.txt"
    scripted_api([tool_use("Write", file_path=str(target), content="written")], [text("done")])
    _ = [message async for message in real_cli.query(prompt(), permission_mode="plan", can_use_tool=allow)]
    assert target.read_text(encoding="utf-8") == "written"


async def test_bypass_can_be_switched_off_in_silence_and_only_the_init_message_shows_it(
    scripted_api: Start, real_cli: RealCLI
) -> None:
    scripted_api([text("done")])
    settings = json.dumps({"permissions": {"disableBypassPermissionsMode": "disable"}})
    heard = await run(real_cli, permission_mode="bypassPermissions", settings=settings)
    assert heard[0].data["permissionMode"] == "default"


async def test_the_cli_knows_every_tool_we_let_people_name_and_drops_others_in_silence(
    scripted_api: Start, real_cli: RealCLI
) -> None:
    scripted_api([text("hi")])
    greetings = [
        message.data
        async for message in real_cli.query("go", tools=[*NATIVE_TOOLS, "Bsh"])
        if isinstance(message, SystemMessage) and message.subtype == "init"
    ]
    # It tells of the Agent tool by its old name.
    assert sorted(OLD_NAMES.get(name, name) for name in greetings[0]["tools"]) == sorted(NATIVE_TOOLS)
    assert not any("Bsh" in line for line in real_cli.stderr)
