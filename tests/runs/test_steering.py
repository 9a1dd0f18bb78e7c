"""What can be changed while a run goes on, and that neither guard nor jail is weaker for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runs.play import ADD, BOX, Generous
from toolkit.errors import RunError
from toolkit.runs import InPlace, load_run, start
from toolkit.runs.kinds import OptionError
from toolkit.testing import FakeCLI, ScriptedAPI, text, tool_use

pytestmark = pytest.mark.usefixtures("toolkit_home")
SERVER = """
import json, pathlib, sys
look = {"name": "look", "description": "Look.", "inputSchema": {"type": "object"}, "_meta": {"anthropic/alwaysLoad": True}}
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "late", "version": "1"}}
    elif asked.get("method") == "tools/list":
        result = {"tools": [look]}
    elif asked.get("method") == "tools/call":
        seen = pathlib.Path(asked["params"]["arguments"]["path"]).exists()
        result = {"content": [{"type": "text", "text": str(seen)}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


async def test_a_policy_holds_in_every_mode_that_is_set() -> None:
    bash = [tool_use("Bash", command="rm -rf /")]
    cli = Generous(*[turn for _ in range(4) for turn in (bash, [text("ok")])], tools={"Bash": "gone"})
    async with start("Go.", policy={"Bash": "deny"}, transport=cli) as live:
        await live.result()
        for mode in ("yolo", "bypassPermissions", "acceptEdits"):
            await live.set_permission_mode(mode)
            assert (await live.send("Again.")).ok
    refused = "PreToolUse:Bash hook error: Bash is not allowed in this run"
    assert cli.tool_results() == [refused] * 4
    told = [event.data for event in load_run(live.id).events() if event.name == "lifecycle.changed"]
    assert [data["value"] for data in told] == ["yolo", "bypassPermissions", "acceptEdits"]


async def test_a_run_can_become_read_only_and_then_stays_it() -> None:
    cli = FakeCLI([text("1")], [tool_use(ADD, title="x")], [text("2")])
    async with start("Go.", tools=[BOX], transport=cli) as live:
        await live.result()
        await live.set_permission_mode("read-only")
        result = await live.send("Write.")
        assert [denied.name for denied in result.denied] == [ADD]
        with pytest.raises(RunError, match="a read-only run stays read-only"):
            await live.set_permission_mode("yolo")


async def test_in_a_mode_of_the_clis_own_the_caller_is_asked() -> None:
    asked: list[str] = []

    def approve(question: Any) -> bool:
        asked.append(question.tool)
        return False

    cli = FakeCLI([text("1")], [tool_use(ADD, title="x")], [text("2")])
    async with start("Go.", tools=[BOX], approve=approve, transport=cli) as live:
        await live.result()
        await live.set_permission_mode("default")
        assert [denied.name for denied in (await live.send("Write.")).denied] == [ADD]
    assert asked == [ADD]


@pytest.mark.parametrize("mode", ["delegate", "", None])
async def test_a_mode_that_does_not_exist_is_refused(mode: Any) -> None:
    async with start("Go.", transport=FakeCLI([text("1")])) as live:
        await live.result()
        with pytest.raises(OptionError, match="there is no such mode"):
            await live.set_permission_mode(mode)


async def test_a_mode_that_the_cli_refuses_changes_nothing() -> None:
    async with start("Go.", mode="default", transport=FakeCLI([text("1")], [text("2")])) as live:
        await live.result()
        with pytest.raises(RunError, match="was not launched with"):
            await live.set_permission_mode("yolo")
        assert (await live.send("Again.")).ok


async def test_thinking_can_be_limited_and_set_free() -> None:
    cli = FakeCLI([text("1")], [text("2")], [text("3")])
    async with start("Go.", transport=cli) as live:
        await live.result()
        for tokens in (0, None):
            await live.set_max_thinking_tokens(tokens)
            await live.send("Again.")
        with pytest.raises(OptionError, match="it is a whole number"):
            await live.set_max_thinking_tokens("many")  # type: ignore[arg-type]
    assert [request["thinking"]["type"] for request in cli.requests] == ["enabled", "disabled", "enabled"]


async def test_the_cli_tells_of_itself_and_what_a_rewind_would_change() -> None:
    async with start("Go.", transport=FakeCLI([text("1")])) as live:
        await live.result()
        assert (await live.server_info())["claude_code_version"]
        assert (await live.rewind(1, dry_run=True))["filesChanged"] == []


@pytest.mark.parametrize(
    ("servers", "says"),
    [
        ({"notes": {"command": "x"}}, "two servers are called 'notes'"),
        ({"late": {"type": "sdk", "instance": object()}}, "a server inside this process cannot come later"),
        ({"late": {"command": 5}}, "a server of type stdio has a 'command'"),
    ],
)
async def test_a_server_that_cannot_come_later_is_refused(servers: Any, says: str) -> None:
    async with start("Go.", tools=[BOX], transport=FakeCLI([text("1")])) as live:
        await live.result()
        with pytest.raises(RunError, match=says):
            await live.mcp_set_servers(servers)


async def test_the_boxes_of_a_run_stay_when_its_servers_are_set() -> None:
    cli = FakeCLI([text("1")], [tool_use(ADD, title="x")], [text("2")])
    async with start("Go.", tools=[BOX], transport=cli) as live:
        await live.result()
        answer = await live.mcp_set_servers({"late": {"command": "nothing"}})
        assert answer == {"added": ["late"], "removed": [], "errors": {"late": "the fake CLI starts no server"}}
        assert (await live.send("Write.")).ok
        assert await live.mcp_set_servers({}) == {"added": [], "removed": ["late"], "errors": {}}
    assert cli.tool_results() == ["added 'x'"]


@pytest.mark.parametrize("is_real", [False, True])
async def test_a_server_that_does_not_start_is_told_each_time_it_is_set_and_the_run_goes_on(is_real: bool) -> None:
    late = {"late": {"command": "/bin/sh", "args": ["-c", "echo no database >&2; exit 3"]}}
    fake = FakeCLI([text("1")], [text("2")])
    with ScriptedAPI(otherwise=[text("1")]) as api:
        where: dict[str, Any] = {"api_url": api.url, "api_key": "none"} if is_real else {"transport": fake}
        async with start("Go.", **where) as live:
            await live.result()
            first, again = await live.mcp_set_servers(late), await live.mcp_set_servers(late)
            assert (await live.mcp_status())["late"] == "failed"
            assert (await live.send("Go on.")).ok
        why = "Connection closed: no database" if is_real else "the fake CLI starts no server"
        assert first["errors"] == again["errors"] == {"late": why}
        servers = [event.data["value"] async for event in live if event.kind == "changed"]
    assert servers == [[], []]


async def test_of_a_server_that_is_set_in_place_of_another_its_own_last_words_are_told() -> None:
    with ScriptedAPI(otherwise=[text("1")]) as api:
        async with start("Go.", api_url=api.url, api_key="none") as live:
            await live.result()
            for why in ("no database", "no index"):
                late = {"late": {"command": "/bin/sh", "args": ["-c", f"echo {why} >&2; exit 3"]}}
                assert (await live.mcp_set_servers(late))["errors"] == {"late": f"Connection closed: {why}"}


async def test_a_server_that_comes_later_is_confined_and_judged_like_the_others(tmp_path: Path) -> None:
    host = tmp_path / "host-secret"
    host.write_text("x")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "late.py").write_text(SERVER)
    look = tool_use("mcp__late__look", path=str(host))
    with ScriptedAPI([text("1")], [look], [text("2")], [look], [text("3")]) as api:
        async with start("Go.", workspace=InPlace(folder), api_url=api.url, api_key="none") as live:
            await live.result()
            late = {"command": "/usr/bin/python3", "args": [str(folder / "late.py")]}
            answer = await live.mcp_set_servers({"late": late})
            assert answer == {"added": ["late"], "removed": [], "errors": {}}
            assert (await live.mcp_status())["late"] == "connected"
            alone = folder / "alone"
            alone.write_text(f"#!/bin/sh\nexec /usr/bin/python3 {folder / 'late.py'}\n")
            alone.chmod(0o755)
            assert (await live.mcp_set_servers({"late": {"command": str(alone)}}))["errors"] == {}
            assert (await live.mcp_status())["late"] == "connected"
            assert (await live.send("Look.")).ok
            await live.set_permission_mode("read-only")
            denied = (await live.send("Look again.")).denied
            assert (await live.rewind(1, dry_run=True))["canRewind"]
            assert len((await live.server_info())["commands"]) > 0
            await live.set_max_thinking_tokens(0)
        seen, refused = api.tool_results()
    assert seen == "False"
    assert "read-only" in str(refused)
    assert [one.name for one in denied] == ["mcp__late__look"]
