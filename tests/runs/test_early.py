"""The CLI is started before the SDK is loaded: with the SDK's own arguments and words, and it is told nothing too early."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeSDKClient, CLIConnectionError, HookMatcher, ProcessError, Transport

from toolkit.errors import UnconfinedError
from toolkit.runs import RunSpec, run
from toolkit.runs.asking.guard import Guard
from toolkit.runs.asking.own_hooks import OwnHooks
from toolkit.runs.live.approving import make_approvals
from toolkit.runs.turn.early import StartedCLI, command_line, initialize_request, is_held, variables
from toolkit.runs.turn.early.handed_over import HandedOver
from toolkit.runs.turn.options import run_options, sdk_options_of
from toolkit.sandbox.confining import confinement
from toolkit.testing import ScriptedAPI, text
from toolkit.tools import Toolbox, tool

_TELL = "import json, os, sys; json.dump([sys.argv[1:], dict(os.environ)], open(os.environ['TOLD'], 'w')); sys.exit(1)"
_SESSION = "7f1d7c4e-9d1f-4f0e-9d3b-0a2b6b7c8d9e"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def _hook(given: Any, call: str | None, context: Any) -> Any:
    return {}


SPECS: dict[str, dict[str, Any]] = {
    "plain": {},
    "a model": {"model": "m", "fallback_model": "n", "effort": "high", "thinking": 2048},
    "betas": {"betas": ["b1", "context-1m-2025-08-07"]},
    "no thinking": {"thinking": "off", "system": "Be brief."},
    "a system prompt that looks like an option": {"system": "--help"},
    "limits": {"limits": {"turns": 3, "usd": 0.5}},
    "no tools": {"native": []},
    "a policy": {"mode": "normal", "policy": {"Bash": "disable"}},
    "tools and servers": {
        "tools": [Toolbox("sums", [add])],
        "servers": {"notes": {"command": "notes", "args": ["--stdio"]}},
    },
    "subagents": {
        "agents": {"tester": {"description": "Runs the tests.", "prompt": "You run tests.", "tools": ["Bash"]}}
    },
    "hooks": {"hooks": {"PostToolUse": [HookMatcher(matcher="Bash", hooks=[_hook, _hook], timeout=5)]}},
    "an output": {"output": {"type": "object", "properties": {"a": {"type": "string"}}}},
}


def _options(
    tmp_path: Path, given: Mapping[str, Any], more: Mapping[str, Any]
) -> tuple[RunSpec, dict[str, Any], list[Any]]:
    """A spec, what its CLI is started with in a jail, and its toolboxes."""
    spec = RunSpec("Go.", **given)
    guard = Guard([], {})
    guard.own = OwnHooks(spec.hooks) if spec.hooks else None
    boxes = [box for box in spec.tools if isinstance(box, Toolbox)]

    class Jail:
        def options(self) -> dict[str, Any]:
            return {"cli_path": tmp_path / "claude", "settings": '{"sandbox":{}}', "env": {}}

    approvals = make_approvals(spec, None, spec.rules(lambda _: False), lambda event: None)  # type: ignore[arg-type]
    options = run_options(
        spec,
        boxes,
        guard,
        approvals,
        native=["Bash", "Read"] if spec.native is None else list(spec.native),
        jail=Jail(),  # type: ignore[arg-type]
        folder=tmp_path,
        stderr=lambda line: None,
        more=more,
    )
    return spec, options, boxes


class _Recorder(Transport):
    """Keeps the first thing that the SDK says, and answers nothing."""

    def __init__(self) -> None:
        self.first: dict[str, Any] = {}
        self._over = asyncio.Event()

    async def connect(self) -> None:
        pass

    async def write(self, data: str) -> None:
        self.first = json.loads(data)
        self._over.set()

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        await self._over.wait()
        answer = {"subtype": "success", "request_id": self.first["request_id"]}
        yield {"type": "control_response", "response": {**answer, "response": {"hook_on_failure_supported": True}}}

    async def close(self) -> None:
        pass

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        pass


@pytest.mark.parametrize("name", SPECS)
def test_the_first_request_is_the_one_the_sdk_makes(tmp_path: Path, name: str) -> None:
    spec, options, boxes = _options(tmp_path, SPECS[name], {})

    async def first() -> dict[str, Any]:
        recorder = _Recorder()
        client = ClaudeSDKClient(sdk_options_of(options, spec, boxes, lambda call: None), transport=recorder)  # type: ignore[arg-type,return-value]
        await client.connect()
        await client.disconnect()
        return recorder.first

    said = asyncio.run(first())
    assert said["type"] == "control_request"
    assert said["request"] == json.loads(json.dumps(initialize_request(options)))


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize(
    "more",
    [
        {"session_store": True, "session_store_flush": "eager", "env": {"CLAUDE_CONFIG_DIR": "/x"}},
        {"resume": _SESSION, "fork_session": True, "resume_session_at": "m-1"},
        {"session_id": _SESSION},
    ],
    ids=["new", "forked", "begun again"],
)
def test_the_arguments_and_variables_are_those_of_the_sdk(
    tmp_path: Path, name: str, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.delenv("CLAUDE_AGENT_SDK_CLIENT_APP", raising=False)
    program = tmp_path / "claude"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{_TELL}" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    spec, options, boxes = _options(tmp_path, SPECS[name], more)

    async def start() -> None:
        client = ClaudeSDKClient(sdk_options_of(options, spec, boxes, lambda call: None))  # type: ignore[arg-type,return-value]
        with pytest.raises((CLIConnectionError, ProcessError, Exception)):
            await client.connect()

    asyncio.run(start())
    arguments, environment = json.loads((tmp_path / "told").read_text(encoding="utf-8"))
    assert _paired(arguments) == _paired(command_line(options))
    ours = variables(options, tmp_path)
    assert {key: environment[key] for key in ours if key in environment} == {
        key: value for key, value in ours.items() if key in environment
    }
    assert set(ours) - set(environment) == set()


def _paired(words: list[str]) -> list[tuple[str, ...]]:
    """Options with their values, in any order."""
    pairs: list[tuple[str, ...]] = []
    for word in words:
        if word.startswith("--") and not (pairs and pairs[-1] == ("--append-system-prompt",)):
            pairs.append((word,))
        else:
            pairs[-1] = (*pairs[-1], word)
    return sorted(pairs)


def test_without_the_hooks_taken_nothing_is_sent_early() -> None:
    taken = {"hook_on_failure_supported": True}
    assert is_held({"subtype": "success", "response": taken})
    assert is_held({"subtype": "success", "response": {**taken, "hooks_applied": True}})
    for wrong in (
        None,
        {},
        {"subtype": "error", "response": taken},
        {"subtype": "success"},
        {"subtype": "success", "response": {}},
        {"subtype": "success", "response": {"hook_on_failure_supported": False}},
        {"subtype": "success", "response": {**taken, "hooks_applied": False}},
    ):
        assert not is_held(wrong), wrong


_ECHO = r"""
import json, sys
asked = json.loads(sys.stdin.readline())
answer = {"subtype": "success", "request_id": asked["request_id"], "response": {"hook_on_failure_supported": True}}
print(json.dumps({"type": "system", "subtype": "early"}), flush=True)
print("no JSON", flush=True)
print(json.dumps({"type": "control_response", "response": answer}), flush=True)
for line in sys.stdin:
    print(json.dumps({"type": "told", "frame": json.loads(line)}), flush=True)
sys.exit(3)
"""


async def _started(tmp_path: Path, heard: list[str]) -> StartedCLI:
    cli = StartedCLI(heard.append, 1_000_000)
    await cli.start([sys.executable, "-c", _ECHO], tmp_path, {})
    await cli.ask({"subtype": "initialize", "hooks": None})
    return cli


def _asked(request: Any, number: str = "sdk-1") -> str:
    return json.dumps({"type": "control_request", "request_id": number, "request": request}) + "\n"


def test_what_was_said_before_is_not_said_again_and_its_answers_wait_for_the_sdk(tmp_path: Path) -> None:
    async def play() -> list[dict[str, Any]]:
        cli = await _started(tmp_path, [])
        assert is_held(await cli.answer())
        await cli.say({"type": "user", "uuid": "u1"})
        transport, seen = HandedOver(cli), list[dict[str, Any]]()
        has_answer = asyncio.Event()
        reading = asyncio.create_task(_collect(transport, seen, has_answer))
        await transport.write(_asked({"subtype": "initialize", "hooks": None}))
        await has_answer.wait()
        assert seen[0] == {"type": "system", "subtype": "early"}
        assert seen[1]["response"]["request_id"] == "sdk-1"
        await transport.write(_asked({"subtype": "mcp_status"}, "sdk-2"))
        await asyncio.wait({reading}, timeout=0.2)
        assert len(seen) == 2  # the prompt is out, and whatever comes of it waits
        await transport.write(json.dumps({"type": "user", "uuid": "u1"}) + "\n")
        await transport.write(json.dumps({"type": "user", "uuid": "u2"}) + "\n")
        await transport.end_input()
        with pytest.raises(ProcessError) as ended:
            await reading
        assert ended.value.exit_code == 3
        await transport.close()
        return seen

    seen = asyncio.run(asyncio.wait_for(play(), 60))
    told = [frame["frame"].get("uuid") or frame["frame"]["request_id"] for frame in seen[2:]]
    assert told == ["u1", "sdk-2", "u2"]


async def _collect(transport: Transport, seen: list[dict[str, Any]], has_answer: asyncio.Event) -> None:
    async for frame in transport.read_messages():
        seen.append(frame)
        if frame["type"] == "control_response":
            has_answer.set()


def test_one_that_says_more_than_is_read_ends_with_its_input_and_leaves_no_pipe(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    program = f"head -c 5000000 /dev/zero; cat >/dev/null; echo by itself >{ended}"

    async def go() -> None:
        cli = StartedCLI(lambda line: None, 1_000_000)
        await cli.start(["/bin/sh", "-c", program], tmp_path, {"PATH": "/usr/bin:/bin"})
        await cli.close()

    asyncio.run(go())
    gc.collect()  # a pipe that is still open is told of here
    assert ended.read_text(encoding="utf-8") == "by itself\n"


def test_an_sdk_that_says_something_else_than_was_said_for_it_is_refused(tmp_path: Path) -> None:
    async def play() -> None:
        cli = await _started(tmp_path, [])
        assert is_held(await cli.answer())
        await cli.say({"type": "user", "uuid": "u1"})
        transport = HandedOver(cli)
        with pytest.raises(CLIConnectionError):
            await transport.write(_asked({"subtype": "initialize", "hooks": {"PreToolUse": []}}))
        await transport.write(_asked({"subtype": "initialize", "hooks": None}))
        with pytest.raises(CLIConnectionError):
            await transport.write(json.dumps({"type": "user", "uuid": "another"}) + "\n")
        await transport.close()

    asyncio.run(asyncio.wait_for(play(), 60))


def _refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **given: Any) -> list[StartedCLI]:
    """Every CLI that was started for a run whose jail is not proven."""
    started: list[StartedCLI] = []
    start = StartedCLI.start

    async def noted(self: StartedCLI, *given: Any) -> None:
        started.append(self)
        await start(self, *given)

    def refuse(opened: Any) -> Any:
        raise UnconfinedError("refusing to start: a wall is not proven", rules=["a wall"])

    monkeypatch.setattr(StartedCLI, "start", noted)
    monkeypatch.setattr(confinement, "prove", refuse)
    with ScriptedAPI([text("never")], strict=False) as api:
        result = asyncio.run(run("Go.", api_url=api.url, api_key="fake", home=tmp_path, **given))
        assert result.code == "unconfined"
        assert list(api.requests) == []
    return started


def test_a_jail_that_is_not_proven_sends_nothing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cli,) = _refused(tmp_path, monkeypatch)
    assert not cli.is_running


@pytest.mark.parametrize("what", ["servers", "plugins"])
def test_programs_of_others_are_not_started_before_the_jail_is_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    plugin = tmp_path / "plugin"
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / ".claude-plugin" / "plugin.json").write_text('{"name": "p"}', encoding="utf-8")
    given: Any = {"notes": {"command": "cat"}} if what == "servers" else [plugin]
    assert _refused(tmp_path, monkeypatch, **{what: given}) == []


_UNTIL_STARTED = """
import os, runpy, sys
from toolkit.runs.turn.early import started

async def start(self, *given):
    open(os.environ["TOLD"], "w").write(" ".join(sys.modules))
    raise OSError("enough")

started.StartedCLI.start = start
sys.argv = ["toolkit", "run", "Go.", "--mount", "src"]
runpy.run_module("toolkit", run_name="__main__")
"""


def test_the_cli_starts_before_schemas_and_the_sdk_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    own = {"TOOLKIT_HOME": str(tmp_path / "home"), "ANTHROPIC_API_KEY": "fake", "TOLD": str(tmp_path / "told")}
    own["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
    subprocess.run(
        [sys.executable, "-P", "-c", _UNTIL_STARTED],
        cwd=tmp_path,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    loaded = set((tmp_path / "told").read_text(encoding="utf-8").split())
    assert "toolkit.sandbox.jail.launcher" in loaded
    late = {"claude_agent_sdk", "mcp", "pydantic", "jsonschema", "toolkit.tools.schema", "toolkit.tools.calling"}
    assert loaded & late == set()
