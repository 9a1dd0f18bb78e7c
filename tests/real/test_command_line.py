"""What the SDK makes of our options: the command line it starts, and how it reads what comes back.

The CLI is a small script here, so that exactly what crosses the pipe is known. We
rely on all of this and do none of it ourselves.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, query

_SCRIPT = """#!{python}
import json, os, sys
json.dump({{"argv": sys.argv[1:], "env": dict(os.environ)}}, open({record!r}, "w"))
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "control_request":
        answer = {{"subtype": "success", "request_id": frame["request_id"], "response": {{"commands": []}}}}
        print(json.dumps({{"type": "control_response", "response": answer}}), flush=True)
    elif frame["type"] == "user":
        os.write(1, bytes.fromhex({said!r}))
        break
"""

_MESSAGE = {
    "type": "assistant",
    "session_id": "s",
    "uuid": "u",
    "parent_tool_use_id": None,
    "message": {"id": "m", "model": "x", "role": "assistant", "content": [{"type": "text", "text": "grüße"}]},
}
_RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "duration_ms": 1,
    "duration_api_ms": 1,
    "num_turns": 1,
    "session_id": "s",
    "result": "grüße",
}


def scripted_cli(folder: Path, said: bytes) -> tuple[Path, Path]:
    """A CLI that writes down how it was started and says `said` to the first prompt."""
    record, program = folder / "record.json", folder / "claude"
    program.write_text(_SCRIPT.format(python=sys.executable, record=str(record), said=said.hex()), encoding="utf-8")
    program.chmod(0o755)
    return program, record


async def messages(options: ClaudeAgentOptions) -> list[Any]:
    async with asyncio.timeout(30):
        return [message async for message in query(prompt="go", options=options)]


def line(frame: dict[str, Any], end: bytes = b"\n") -> bytes:
    return json.dumps(frame, ensure_ascii=False).encode() + end


OPTIONS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["--output-format", "stream-json"]),
    ({}, ["--input-format", "stream-json"]),
    ({}, ["--verbose"]),
    ({"model": "m"}, ["--model", "m"]),
    ({"fallback_model": "f"}, ["--fallback-model", "f"]),
    ({"max_turns": 3}, ["--max-turns", "3"]),
    ({"max_budget_usd": 0.5}, ["--max-budget-usd", "0.5"]),
    ({"permission_mode": "bypassPermissions"}, ["--permission-mode", "bypassPermissions"]),
    ({"tools": ["Read", "Bash"]}, ["--tools", "Read,Bash"]),
    ({"tools": []}, ["--tools", ""]),
    ({"allowed_tools": ["Read"]}, ["--allowedTools", "Read"]),
    ({"disallowed_tools": ["Bash"]}, ["--disallowedTools", "Bash"]),
    ({"strict_mcp_config": True}, ["--strict-mcp-config"]),
    ({"setting_sources": []}, ["--setting-sources="]),
    ({"include_partial_messages": True}, ["--include-partial-messages"]),
    ({"fork_session": True, "resume": "00000000-0000-0000-0000-000000000001"}, ["--fork-session"]),
    ({"settings": '{"a": 1}'}, ["--settings", '{"a": 1}']),
    ({"extra_args": {"no-session-persistence": None}}, ["--no-session-persistence"]),
]


async def test_every_option_we_use_is_on_the_command_line(tmp_path: Path) -> None:
    program, record = scripted_cli(tmp_path, line(_MESSAGE) + line(_RESULT))
    together: dict[str, Any] = {}
    for given, _ in OPTIONS:
        together |= given
    await messages(ClaudeAgentOptions(**together, cli_path=program, cwd=tmp_path))
    argv = json.loads(record.read_text(encoding="utf-8"))["argv"]
    spelt = [*argv, *(part for argument in argv for part in argument.split("=", 1) if argument.startswith("--"))]
    for given, expected in OPTIONS:
        if given == {"tools": ["Read", "Bash"]}:
            continue  # the later empty list stands
        wanted = expected[0]
        assert wanted in spelt or wanted.rstrip("=") in spelt, (given, argv)
    assert argv[argv.index("--tools") + 1] == ""
    assert any(argument.startswith("--resume=") or argument == "--resume" for argument in argv)


async def test_the_environment_is_the_hosts_and_says_who_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_HOST_VARIABLE", "leaks")
    monkeypatch.setenv("CLAUDECODE", "1")
    program, record = scripted_cli(tmp_path, line(_RESULT))
    await messages(ClaudeAgentOptions(cli_path=program, cwd=tmp_path, env={"MINE": "1"}))
    env = json.loads(record.read_text(encoding="utf-8"))["env"]
    assert (env["A_HOST_VARIABLE"], env["MINE"], env["CLAUDE_CODE_ENTRYPOINT"]) == ("leaks", "1", "sdk-py")
    assert "CLAUDECODE" not in env


@pytest.mark.parametrize(
    "said",
    [
        line(_MESSAGE) + line(_RESULT),
        line(_MESSAGE, b"\r\n") + line(_RESULT, b"\r\n"),
        b"\n" + line(_MESSAGE) + b"\n" + line(_RESULT),
        line({"type": "keep_alive"}) + line(_MESSAGE) + line({"type": "of_tomorrow", "x": 1}) + line(_RESULT),
        line({"type": "tool_progress", "tool_use_id": "t"}) + line(_MESSAGE) + line(_RESULT),
    ],
    ids=["plain", "CRLF", "blank lines", "keep-alive and unknown", "progress"],
)
async def test_frames_are_read_whatever_stands_between_them(tmp_path: Path, said: bytes) -> None:
    program, _ = scripted_cli(tmp_path, said)
    got = await messages(ClaudeAgentOptions(cli_path=program, cwd=tmp_path))
    assert [type(message) for message in got] == [AssistantMessage, ResultMessage]
    assert got[0].content[0].text == "grüße"


async def test_the_prompt_is_sent_after_the_handshake_with_no_session_of_ours(tmp_path: Path) -> None:
    program, _ = scripted_cli(tmp_path, line(_RESULT))
    async with asyncio.timeout(30), ClaudeSDKClient(ClaudeAgentOptions(cli_path=program, cwd=tmp_path)) as client:
        await client.query("go")
        got = [message async for message in client.receive_response()]
    assert [type(message) for message in got] == [ResultMessage]
