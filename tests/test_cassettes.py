"""A cassette keeps a run without its secrets, plays it again, and says which line is wrong."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ProcessError, ResultMessage, query

from toolkit.errors import TestingError
from toolkit.testing import record, replay

# As much of the CLI as a recording needs: it answers initialize, says what it was told and what it sees, and ends
# as its prompt asks. The real one is recorded in tests/real.
STAND_IN = r"""
import json, os, sys
def say(frame): print(json.dumps(frame), flush=True)
print("no frame at all", flush=True)
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "control_request":
        answer = {"subtype": "success", "request_id": frame["request_id"], "response": {"account": {"email": "me@home"}}}
        say({"type": "control_response", "response": answer})
    if frame["type"] == "user":
        said = frame["message"]["content"]
        if said == "die": os.kill(os.getpid(), 9)
        said += " " + " ".join(f"{k}={v}" for k, v in os.environ.items() if k.startswith("SEEN_"))
        say({"type": "assistant", "message": {"model": "m", "content": [{"type": "text", "text": said}]}, "parent_tool_use_id": None})
        say({"type": "result", "subtype": "success", "is_error": False, "result": said, "duration_ms": 1,
             "duration_api_ms": 1, "num_turns": 1, "session_id": "s"})
"""


@pytest.fixture
def options(tmp_path: Path) -> ClaudeAgentOptions:
    script = tmp_path / "cli.py"
    script.write_text(STAND_IN, encoding="utf-8")
    launcher = tmp_path / "claude"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n', encoding="utf-8")
    launcher.chmod(0o755)
    return ClaudeAgentOptions(cli_path=launcher)


async def run(prompt: str, options: ClaudeAgentOptions) -> list[Any]:
    async with asyncio.timeout(60):
        return [message async for message in query(prompt=prompt, options=options)]


def lines_of(cassette: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cassette.read_text(encoding="utf-8").splitlines()]


async def test_a_recorded_run_plays_again_without_a_cli(tmp_path: Path, options: ClaudeAgentOptions) -> None:
    cassette = tmp_path / "run.jsonl"
    with record(cassette, options) as recording:
        heard = await run("hello", recording)

    lines = lines_of(cassette)
    assert lines[0] == {"cassette": 1}
    assert [line["frame"]["type"] for line in lines if line.get("to") == "cli" and "frame" in line] == [
        "control_request",
        "user",
    ]
    kinds = [line["frame"]["type"] for line in lines if "frame" in line]
    assert kinds.index("control_response") < kinds.index("user")  # the SDK waits for initialize to be answered
    assert {"to": "sdk", "text": "no frame at all"} in lines
    assert lines[-1] == {"exit": 0}
    for _ in range(2):
        assert [message async for message in replay(cassette).query("hello")] == heard


async def test_secrets_never_reach_the_file(
    tmp_path: Path, options: ClaudeAgentOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {
        "SEEN_KEY": "value-known-by-its-name",
        "SEEN_1": "sk-ant-api03-abcdefghijkl",
        "SEEN_2": "Bearer abcdef0123456789",
        "SEEN_3": "ghp_" + "a" * 36,
        "SEEN_4": "DATABASE_PASSWORD=hunter22222",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    cassette = tmp_path / "run.jsonl"
    with record(cassette, options) as recording:
        await run("the key is value-known-by-its-name, isn't it", recording)

    written = cassette.read_text(encoding="utf-8")
    for secret in ("known-by-its-name", "abcdefghijkl", "abcdef0123456789", "a" * 36, "hunter22222", "me@home"):
        assert secret not in written
    assert written.count("[removed]") >= 6


async def test_a_killed_cli_is_recorded_and_replayed_as_killed(tmp_path: Path, options: ClaudeAgentOptions) -> None:
    cassette = tmp_path / "run.jsonl"
    with record(cassette, options) as recording, pytest.raises(ProcessError) as caught:
        await run("die", recording)
    assert lines_of(cassette)[-1] == {"exit": -9}
    assert caught.value.exit_code == -9
    with pytest.raises(ProcessError) as again:
        _ = [message async for message in replay(cassette).query("die")]
    assert again.value.exit_code == -9


async def test_a_session_of_several_prompts_is_one_cassette(tmp_path: Path, options: ClaudeAgentOptions) -> None:
    cassette = tmp_path / "run.jsonl"

    async def talk(client: ClaudeSDKClient) -> list[str | None]:
        said = []
        for prompt in ("one", "two"):
            await client.query(prompt)
            async for message in client.receive_response():
                if isinstance(message, ResultMessage):
                    said.append(message.result)
        return said

    with record(cassette, options) as recording:
        async with ClaudeSDKClient(recording) as client:
            heard = await talk(client)
    async with replay(cassette).client() as client:
        assert await talk(client) == heard == ["one ", "two "]


async def test_a_replay_that_leaves_the_cassette_says_at_which_line(
    tmp_path: Path, options: ClaudeAgentOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.testing.cassette.cassette._PATIENCE", 0.05)
    cassette = tmp_path / "run.jsonl"
    with record(cassette, options) as recording:
        await run("hello", recording)
    prompt_line = next(n for n, line in enumerate(lines_of(cassette), 1) if line.get("frame", {}).get("type") == "user")

    async with replay(cassette).client() as client:
        with pytest.raises(
            Exception, match=f'left the cassette at line {prompt_line}: the prompt "hello" did not come'
        ):
            await client.get_mcp_status()


async def test_recording_nothing_and_recording_nowhere_are_errors(
    tmp_path: Path, options: ClaudeAgentOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with pytest.raises(TestingError, match="nothing was recorded"), record(tmp_path / "run.jsonl", options):
        pass
    with pytest.raises(TestingError, match="there is no folder"), record(tmp_path / "no" / "run.jsonl", options):
        pass
    missing = ClaudeAgentOptions(cli_path=tmp_path / "nobody")
    with pytest.raises(TestingError, match="is not an executable file"), record(tmp_path / "run.jsonl", missing):
        pass
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / "run.jsonl").exists()


HEAD = '{"cassette": 1}'
REQUEST = '{"to": "cli", "frame": {"type": "control_request", "request_id": "r", "request": {"subtype": "initialize"}}}'
EXIT = '{"exit": 0}'


@pytest.mark.parametrize(
    ("lines", "number", "told"),
    [
        ([], 1, "it is cut short"),
        ([EXIT], 1, 'the first line has to be {"cassette": 1}'),
        (['{"cassette": 2}', EXIT], 1, "the first line has to be"),
        ([HEAD], 2, "it is cut short"),
        ([HEAD, REQUEST], 3, "it is cut short"),
        ([HEAD, REQUEST, '{"to": "sdk", "fra'], 3, "Unterminated string"),
        ([HEAD, "[1]", EXIT], 2, "a line is one JSON object"),
        ([HEAD, '{"to": "me", "frame": {"type": "user"}}', EXIT], 2, 'a line says where it goes: "to" is'),
        ([HEAD, '{"to": "cli", "frame": {"message": 1}}', EXIT], 2, 'a line needs a "frame" with a "type"'),
        ([HEAD, '{"to": "sdk", "frame": {"type": "control_request"}}', EXIT], 2, 'needs a "request_id"'),
        (
            [
                HEAD,
                REQUEST,
                '{"to": "sdk", "frame": {"type": "control_response", "response": {"request_id": "x"}}}',
                EXIT,
            ],
            3,
            "this answers a request that no line before it makes",
        ),
        ([HEAD, EXIT, REQUEST], 3, "nothing may follow the exit"),
        ([HEAD, '{"exit": "soon"}'], 2, "the exit code is a number"),
    ],
)
def test_a_cassette_written_by_hand_or_cut_short_says_which_line_is_wrong(
    lines: list[str], number: int, told: str, tmp_path: Path
) -> None:
    cassette = tmp_path / "run.jsonl"
    cassette.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(TestingError) as caught:
        replay(cassette)
    assert caught.value.line == number
    assert told in caught.value.what
    assert caught.value.where[0].startswith(f"{cassette}:{number}  ")


def test_a_cassette_that_is_not_there_or_not_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\xff\xfe\x00")
    for name in ("nothing", "picture"):
        with pytest.raises(TestingError, match="cannot be read"):
            replay(tmp_path / name)


def test_a_complaint_about_a_line_reads_as_one(tmp_path: Path) -> None:
    cassette = tmp_path / "run.jsonl"
    cassette.write_text(f"{HEAD}\n[]\n", encoding="utf-8")
    with pytest.raises(TestingError) as caught:
        replay(cassette)
    assert str(caught.value) == (
        f"the cassette cannot be played: line 2: a line is one JSON object\n"
        f"  {cassette}:2  []\n"
        "  Record it again, or mend the line."
    )
