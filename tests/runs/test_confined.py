"""Runs through the real CLI in the real jail, with a scripted model."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from toolkit import Toolbox, ToolContext, WorkspacePath, tool
from toolkit.errors import WorkspaceSecurityError
from toolkit.runs import Decision, InPlace, Limits, OptionError, Question, RunResult, load_run, run, start
from toolkit.sandbox import find_cli
from toolkit.testing import ScriptedAPI, Status, Turn, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection


@tool
def where(ctx: ToolContext) -> str:
    """Say where this call belongs."""
    return f"{ctx.call_id} {ctx.workspace.name} {ctx.env.get('GREETING')} {ctx.session is not None}"


BOX = Toolbox("here", [where])


@dataclass
class Review:
    verdict: str
    score: int


@pytest.fixture
def src(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n", encoding="utf-8")
    return folder


async def go(api: ScriptedAPI, prompt: str = "go", **options: Any) -> RunResult[Any]:
    return await asyncio.wait_for(run(prompt, api_url=api.url, api_key="sk-the-real-one", **options), 90)


async def test_a_cli_that_is_installed_where_the_workspace_appears_is_not_in_it(src: Path) -> None:
    cli = find_cli(None)
    section = WorkspaceSection([HostMount(src)], allowed_host_roots=[src.parent], at=str(cli.parent.parent))
    command = f"ls -A; mv {cli.parent.name} other; ls -A {cli.parent}; touch made"
    with ScriptedAPI([tool_use("Bash", command=command)], [text("done")]) as api:
        done = await go(api, workspace=section, toolchain=False)
        assert api.requests[-1].contains(f"cannot stat '{cli.parent.name}'")
    assert (done.code, [change.path for change in done.changes or ()]) == ("ok", ["src/made"])


@pytest.fixture
def below_var_tmp() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder, "a.py").write_text("x = 1\n", encoding="utf-8")
        yield Path(folder)


async def test_a_project_below_var_tmp_is_there_under_its_own_name(below_var_tmp: Path) -> None:
    @tool
    def size(path: WorkspacePath) -> str:
        """Say how large a file is."""
        return f"{path.stat().st_size} bytes"

    section = WorkspaceSection([HostMount(below_var_tmp)], allowed_host_roots=[below_var_tmp])
    with ScriptedAPI(
        [tool_use("Bash", command="pwd; touch made /var/tmp/beside && echo both; ls -A")],
        [tool_use("mcp__sizes__size", path=f"{below_var_tmp}/a.py")],
        [text("done")],
    ) as api:
        done = await go(api, workspace=section, tools=[Toolbox("sizes", [size])])
        assert api.requests[1].contains(f"{below_var_tmp}\nboth\na.py\nmade")
        assert api.requests[2].contains("6 bytes")
    assert (done.code, len(done.changes or ())) == ("ok", 1)


async def test_the_snippet_of_the_readme_holds(src: Path) -> None:
    usage = {"input_tokens": 30, "output_tokens": 9}
    section = WorkspaceSection([HostMount(src)], allowed_host_roots=[src.parent])
    with ScriptedAPI(
        Turn(
            [
                text("working"),
                tool_use("Bash", command="echo 'x = 2' > a.py; env; cat /proc/1/environ") | {"id": "toolu_bash"},
                tool_use("mcp__here__where") | {"id": "toolu_where"},
            ],
            usage=usage,
        ),
        Turn([tool_use("StructuredOutput", verdict="good", score=3)], usage=usage),
    ) as api:
        result = await go(
            api,
            "Make it two.",
            workspace=section,
            tools=[BOX],
            limits=Limits(seconds=60, tokens=200_000, usd=2),
            output=Review,
            env={"GREETING": "hello"},
        )
        seen = "\n".join(str(answer) for answer in api.tool_results())
        assert api.requests[0].contains("Make it two.")
        assert api.requests[0].contains(str(src))

    assert (result.code, result.output) == ("ok", Review("good", 3))
    assert [(call.input, call.output) for call in result.calls] == [(30, 9), (30, 9)]
    assert (result.total.total, result.unattributed.total) == (78, 0)
    assert (result.cost or 0) > 0
    assert result.changes is not None
    assert [change.path for change in result.changes] == ["src/a.py"]
    assert "toolu_where src hello True" in seen
    assert "sk-the-real-one" not in seen
    assert (src / "a.py").read_text(encoding="utf-8") == "x = 1\n"
    section.apply()
    assert (src / "a.py").read_text(encoding="utf-8") == "x = 2\n"
    section.cleanup()


async def test_the_host_is_out_of_reach(src: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the-host-secret", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with ScriptedAPI(
            [
                tool_use("Read", file_path=str(secret)),
                tool_use("Bash", command=f"cat {secret}; (echo > /dev/tcp/127.0.0.1/{port}) && echo reached"),
                tool_use("Write", file_path=str(tmp_path / "planted"), content="x"),
            ],
            [text("tried")],
        ) as api:
            result = await go(api)
            seen = str(api.tool_results())
    assert result.ok
    assert "the-host-secret" not in seen
    assert "reached\n" not in seen
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (Status(429), "throttled"),
        (Status(401), "auth"),
        (Status(400, message="prompt is too long: 300000 tokens > 200000 maximum"), "context_overflow"),
        (Status(500), "api_error"),
    ],
    ids=["429", "401", "too long", "500"],
)
async def test_an_api_error_has_its_code_and_its_text_stays_inside(step: Status, code: str) -> None:
    with ScriptedAPI(otherwise=step, strict=False) as api:
        result = await go(api, limits=Limits(seconds=45))
    assert (result.ok, result.code) == (False, code)
    assert "127.0.0.1" not in result.message + result.text


async def test_limits_of_turns_and_money_are_the_clis_and_have_our_codes() -> None:
    again = Turn([tool_use("Bash", command="true")], usage={"input_tokens": 1_000_000, "output_tokens": 1000})
    with ScriptedAPI(otherwise=again, strict=False) as api:
        turns = await go(api, limits=Limits(turns=1))
        money = await go(api, limits=Limits(usd=0.01))
    assert (turns.code, money.code) == ("turn_limit", "budget")
    assert money.total.input >= 1_000_000


async def test_a_token_budget_holds_for_a_model_that_never_stops_asking() -> None:
    again = Turn([tool_use("Bash", command="true")], usage={"input_tokens": 400, "output_tokens": 100})
    with ScriptedAPI(otherwise=again, strict=False) as api:
        result = await go(api, limits=Limits(tokens=1200, seconds=60))
        asked = len([request for request in api.requests if request.get("tools")])
    assert (result.ok, result.code) == (False, "budget")
    assert asked <= 3


def asking(way: str) -> str:
    """A shell's line that asks the model API for something itself."""
    tools = '"tools": [{"name": "t", "input_schema": {"type": "object"}}]'  # without tools it would be a side call
    messages = '"messages": [{"role": "user", "content": "hi"}]'
    body = f'{{"model": "m", "max_tokens": 500, {tools}, {messages}}}'
    return f"curl -s {way}/v1/messages -H 'content-type: application/json' -d '{body}'"


async def test_calls_that_a_server_in_the_jail_hangs_up_on_are_counted_and_bounded() -> None:
    ask = asking("-m 0.3 -o /dev/null --unix-socket /run/toolkit/api.sock http://gate")
    server = {"command": "/bin/sh", "args": ["-c", f"for n in 1 2 3 4 5 6 7 8; do {ask}; done"], "optional": True}
    silent = Turn([text("never")], stall_after=0, usage={"input_tokens": 300})
    with ScriptedAPI(otherwise=silent, strict=False) as api:
        result = await go(api, servers={"s": server}, limits=Limits(tokens=1000, seconds=60))
        asked = len([request for request in api.requests if request.get("max_tokens") == 500])
    assert (result.code, asked) == ("budget", 4)
    assert result.total.total == 0
    assert result.gate_tokens is not None
    assert 1000 <= result.gate_tokens < 2000
    assert {one.rule for one in result.refused} == {"spend"}


@pytest.mark.parametrize("domains", [[], ["example.com"]], ids=["offline", "domains"])
async def test_a_command_cannot_ask_the_model_api_itself_past_the_limit_in_dollars(domains: list[str]) -> None:
    ways = ("--noproxy '*' http://localhost:3128", "--noproxy '*' http://localhost:3129", "-x $HTTP_PROXY http://gate")
    command = "; ".join(map(asking, (*ways, "--unix-socket /run/toolkit/api.sock http://gate")))
    with ScriptedAPI([tool_use("Bash", command=command)], [text("done")]) as api:
        result = await go(api, domains=domains, limits=Limits(usd=1))
        asked = len([request for request in api.requests if request.get("max_tokens") == 500])
    assert (result.code, asked) == ("ok", 0)
    assert [one.rule for one in result.refused] == ["no_api", "method"]


async def test_a_deadline_ends_a_silent_model_and_a_stuck_command_alike() -> None:
    with ScriptedAPI(Turn([text("a start"), text("never")], stall_after=1), strict=False) as api:
        silent = await go(api, limits=Limits(seconds=2))
    with ScriptedAPI([tool_use("Bash", command="tail -f /dev/null")], strict=False) as api:
        stuck = await go(api, limits=Limits(seconds=3))
    assert (silent.code, silent.text) == ("deadline", "a start")
    assert stuck.code == "deadline"
    assert [(use.name, use.ok) for use in stuck.tools] == [("Bash", False)]


async def test_a_killed_cli_is_a_crash_with_what_was_said(tmp_path: Path) -> None:
    with ScriptedAPI(Turn([text("a start"), text("never")], stall_after=1), strict=False) as api:
        async with start("go", api_url=api.url, api_key="fake") as live, asyncio.timeout(60):
            async for event in live:
                if event.name == "assistant.block":
                    _kill_children()
            result = await live.result()
    assert (result.code, result.text) == ("crashed", "a start")


def _kill_children() -> None:
    """Kill what this process started: the launcher of the jail, and with it all that is inside."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            os.kill(int(status.parent.name), signal.SIGKILL)


async def test_a_subagents_tokens_are_in_the_total_and_its_tools_have_a_parent() -> None:
    def answer(request: Any) -> Any:
        if "count the files" in str(request["messages"][0]):
            if request.tool_results():
                return Turn([text("three")], usage={"input_tokens": 500, "output_tokens": 5})
            return Turn([tool_use("Bash", command="echo sub")], usage={"input_tokens": 500, "output_tokens": 5})
        if request.tool_results():
            return Turn([text("there are three")], usage={"input_tokens": 70, "output_tokens": 7})
        ask = tool_use("Agent", description="count", prompt="count the files", subagent_type="general-purpose")
        return Turn([ask | {"id": "toolu_agent"}], usage={"input_tokens": 60, "output_tokens": 6})

    with ScriptedAPI(otherwise=answer, strict=False) as api:
        async with start("go", api_url=api.url, api_key="fake", native=["Agent", "Bash"]) as live, asyncio.timeout(90):
            tools = [event async for event in live if event.name == "tool.started"]
            result = await live.result()
    assert result.ok, result.debug
    assert [(event.data["name"], event.parent) for event in tools] == [("Agent", None), ("Bash", "toolu_agent")]
    assert sum(call.tokens.total for call in result.calls) + result.unattributed.total == result.total.total
    assert result.unattributed.input >= 1000


async def test_a_workspace_that_may_not_be_is_refused_before_anything_starts(src: Path, tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    with ScriptedAPI(strict=False) as api, pytest.raises(WorkspaceSecurityError):
        await go(api, workspace=WorkspaceSection([HostMount(src)], allowed_host_roots=[outside]))
    assert len(api.requests) == 0


async def test_a_key_file_that_is_given_wins_over_a_key_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    file.write_text("sk-from-the-file\n", encoding="utf-8")
    file.chmod(0o600)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-somebody-else")
    with ScriptedAPI([text("done")]) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        result = await asyncio.wait_for(run("go", api_key_file=file), 90)
    assert (result.code, result.text) == ("ok", "done"), result.debug
    assert {request.headers["x-api-key"] for request in api.requests} == {"sk-from-the-file"}


async def test_a_machine_without_a_jail_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with ScriptedAPI(strict=False) as api:
        result = await go(api)
    assert (result.ok, result.code, len(api.requests)) == (False, "unconfined", 0)
    assert "bubblewrap" in result.debug["detail"]


@pytest.fixture
def no_leftovers() -> Iterator[None]:
    def children() -> set[str]:
        me = str(os.getpid())
        found = set()
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                if status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1] == me:
                    found.add(status.parent.name)
            except OSError:
                continue
        return found

    before = children()
    yield
    assert children() <= before


async def test_read_only_mode_writes_nothing_whatever_is_tried(src: Path, no_leftovers: None) -> None:
    with ScriptedAPI(
        [
            tool_use("Write", file_path=str(src / "b.py"), content="x"),
            tool_use("Bash", command="touch c.py"),
            tool_use("Read", file_path=str(src / "a.py")),
        ],
        [text("read")],
    ) as api:
        result = await go(api, workspace=InPlace(src), mode="read-only")
        assert "x = 1" in str(api.tool_results())
    assert result.ok
    assert sorted(path.name for path in src.iterdir()) == ["a.py"]  # noqa: ASYNC240


async def test_settings_of_the_caller_hide_more_than_the_profile(src: Path) -> None:
    (src / "secret.txt").write_text("plum", encoding="utf-8")
    hidden = {"permissions": {"deny": ["Read(**/secret.txt)"]}}
    read = tool_use("Read", file_path=str(src / "secret.txt"))
    for settings, is_seen in ((None, True), (hidden, False)):
        with ScriptedAPI([read], [text("done")]) as api:
            result = await go(api, workspace=InPlace(src), settings=settings)
            assert (result.code, "plum" in str(api.tool_results())) == ("ok", is_seen)


@pytest.mark.parametrize("mode", ["normal", "default"])
async def test_a_question_says_what_is_asked_and_by_which_subagent(mode: str) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return question.tool == "Agent"

    def answer(request: Any) -> Turn:
        if request.tool_results():
            return Turn([text("done")])
        if "write it down" in str(request["messages"][0]):
            return Turn([tool_use("Write", file_path="a.txt", content="x")])
        return Turn([tool_use("Agent", description="w", prompt="write it down", subagent_type="general-purpose")])

    with ScriptedAPI(otherwise=answer, strict=False) as api:
        await go(api, mode=mode, native=["Agent", "Write"], approve=approve)
    writes = [question for question in asked if question.tool == "Write"]
    assert writes
    assert all(question.title and question.agent for question in writes)
    assert all(bool(question.cli_suggestions) == (mode == "default") for question in writes)


@pytest.mark.parametrize("mode", ["normal", "default"])
async def test_a_no_that_ends_the_run_has_one_code_in_every_mode(mode: str) -> None:
    with ScriptedAPI([tool_use("Bash", command="touch made.txt")], strict=False) as api:
        result = await go(api, mode=mode, approve=lambda question: Decision.deny("Enough.", stop=True))
    assert (result.code, [denied.reason for denied in result.denied]) == ("stopped", ["Enough."])


@pytest.mark.parametrize(
    ("policy", "ran", "seen"),
    [
        ({}, ["plum"], "noted plum"),
        ({"note": "deny"}, [], "mcp__notes__note is not allowed in this run"),
        ({"note": "defer"}, [], "Tool result missing"),
    ],
    ids=["allowed", "denied", "deferred again"],
)
async def test_a_deferred_call_is_taken_up_when_its_session_goes_on(
    policy: dict[str, str], ran: list[str], seen: str
) -> None:
    noted: list[str] = []

    @tool
    def note(word: str) -> str:
        """Note a word."""
        noted.append(word)
        return f"noted {word}"

    box = Toolbox("notes", [note])
    with ScriptedAPI([tool_use("mcp__notes__note", word="plum")], otherwise=[text("Fine.")]) as api:
        first = await go(api, tools=[box], policy={"note": "defer"})
        assert (first.code, [call.arguments for call in first.pending], noted) == ("pending", [{"word": "plum"}], [])
        second = await go(api, "Go on.", tools=[box], policy=policy, resume=first.session)
        last = str(api.requests[-1]["messages"])
    assert (second.code, second.pending, noted) == ("ok", (), ran)
    assert [call.ok for call in second.tools] == ([True] if ran else [False] if "deny" in policy.values() else [])
    assert [call.name for call in second.denied] == (["mcp__notes__note"] if "deny" in policy.values() else [])
    assert (seen in last, last.count("Go on.")) == (True, 1)


async def test_a_deferred_call_that_was_answered_does_not_run_again() -> None:
    noted: list[str] = []

    @tool
    def note(word: str) -> str:
        """Note a word."""
        noted.append(word)
        return f"noted {word}"

    box = Toolbox("notes", [note])
    with ScriptedAPI([tool_use("mcp__notes__note", word="plum")], otherwise=[text("Fine.")]) as api:
        first = await go(api, tools=[box], policy={"note": "defer"})
        later = [await go(api, "Go on.", tools=[box], resume=first.session) for _ in range(3)]
    assert ([result.code for result in later], noted) == (["ok"] * 3, ["plum"])


SERVER = """
import json, sys

TOOLS = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in ("good", "bad")]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answers = {
        "initialize": {
            "protocolVersion": asked.get("params", {}).get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"},
        },
        "tools/list": {"tools": TOOLS},
        "tools/call": {"content": [{"type": "text", "text": "from the jail"}]},
    }
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers.get(asked["method"], {})}), flush=True)
"""


async def test_a_disabled_tool_of_a_further_server_is_not_offered(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    with ScriptedAPI([tool_use("mcp__s__good")], [text("done")]) as api:
        result = await go(
            api,
            servers={"s": {"command": "/usr/bin/python3", "args": [str(tmp_path / "server.py")]}},
            readable=[tmp_path / "server.py"],
            policy={"mcp__s__bad": "disable"},
        )
        offered = [name for name in api.tools() if name.startswith("mcp__")]
        assert (result.code, offered, api.tool_results()) == ("ok", ["mcp__s__good"], ["from the jail"])


@pytest.mark.parametrize(
    "options",
    [
        {"policy": {"mcp__s__bat": "deny"}},
        {"policy": {"mcp__s__bat": "disable"}},
        {"safe": ["mcp__s__bat*"]},
        {"agents": {"a": {"description": "d", "prompt": "p", "disallowedTools": ["mcp__s__bat"]}}},
        {"settings": {"permissions": {"deny": ["mcp__s__bat"]}}},
    ],
)
async def test_a_pattern_about_a_server_is_looked_up_before_the_first_prompt(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    server = {"command": "/usr/bin/python3", "args": [str(tmp_path / "server.py")]}
    with (
        ScriptedAPI() as api,
        pytest.raises(OptionError, match=r"the server 's' has no tool 'mcp__s__bat\*?'; did you mean 'mcp__s__bad'"),
    ):
        await go(api, servers={"s": server}, readable=[tmp_path / "server.py"], **options)
    assert not api.requests


async def test_a_call_that_the_cli_itself_refuses_is_told_as_refused_when_it_ends_with_the_reason() -> None:
    with ScriptedAPI([tool_use("Read", file_path="/etc/passwd")], [text("done")]) as api:
        async with start("go", api_url=api.url, api_key="none") as live:
            events = [event async for event in live]
            result = await live.result()
    [ended] = [event for event in events if event.name == "tool.ended"]
    assert ended.data["denied"]
    assert ended.data["reason"].startswith("refused by the CLI: Reads outside the working directories are blocked")
    assert [(one.id, one.reason) for one in result.denied] == [(ended.id, ended.data["reason"])]


_MEMORY = 500 * 1024 * 1024


async def test_a_command_that_the_kernel_ends_for_its_memory_is_a_warning(src: Path) -> None:
    use_up = "head -c 900000000 /dev/zero | tail; echo ended with $?"
    with ScriptedAPI([tool_use("Bash", command=use_up)], [text("done")]) as api:
        result = await go(api, workspace=InPlace(src), limits=Limits(memory_bytes=_MEMORY, seconds=60))
        if "memory" in result.unenforced:
            pytest.skip("no control group can be made here")
        assert api.requests[-1].contains("ended with 137")
    assert result.code == "ok"
    warned = [event.data["what"] for event in load_run(result.run).events() if event.name == "lifecycle.warning"]
    assert warned == ["the limit on memory was reached: the kernel ended 1 of the agent's processes"]


async def test_a_run_whose_cli_the_kernel_ends_for_its_memory_has_used_up_its_budget(src: Path) -> None:
    use_up = "for i in $(seq 40); do (head -c 20000000 /dev/zero; tail -f /dev/null) | tail & done; wait"
    with ScriptedAPI([tool_use("Bash", command=use_up)], strict=False) as api:
        result = await go(api, workspace=InPlace(src), limits=Limits(memory_bytes=_MEMORY, seconds=60))
    if "memory" in result.unenforced:
        pytest.skip("no control group can be made here")
    assert (result.code, result.cause) == ("budget", "the limit on memory was passed (524 MB of 524 MB)")


@pytest.mark.parametrize(
    ("limits", "limit"),
    [(Limits(workspace_bytes=1, seconds=60), "workspace"), (Limits(memory_bytes=70_000_000, seconds=60), "memory")],
    ids=["workspace", "memory"],
)
async def test_a_run_whose_limit_leaves_no_room_for_the_cli_has_used_up_its_budget(
    src: Path, limits: Limits, limit: str
) -> None:
    with ScriptedAPI(Turn([text("never")], stall_after=0), strict=False) as api:  # it cannot be done before a look
        result = await go(api, workspace=InPlace(src), limits=limits)
    if limit in result.unenforced:
        pytest.skip("no control group can be made here")
    assert result.code == "budget"
    assert (result.cause or "").startswith(f"the limit on {limit} was passed")
