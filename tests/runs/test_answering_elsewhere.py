"""Questions of one process, answered from another, through the run's folder."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from toolkit import Toolbox, tool
from toolkit.errors import RunError
from toolkit.runs import Decision, start
from toolkit.runs.asking import SOCKET_NAME, RunClient
from toolkit.testing import FakeCLI, Turn, text, tool_use


@tool
def note(title: str) -> str:
    return f"noted {title}"


def asking(**options: Any) -> Any:
    cli = FakeCLI([tool_use("mcp__n__note", title="a")], [text("bye")], strict=False)
    return start("go", mode="normal", tools=[Toolbox("n", [note])], transport=cli, approve="wait", **options)


async def until_asked(live: Any) -> str:
    async with asyncio.timeout(60):
        async for event in live:
            if event.name == "approval.asked":
                return str(event.id)
    raise AssertionError("nothing was asked")


async def test_a_question_is_answered_through_the_socket_by_the_owner_alone(toolkit_home: Path) -> None:
    async with asking() as live:
        id = await until_asked(live)
        folder = toolkit_home / "runs" / live.id
        assert stat.S_IMODE((folder / SOCKET_NAME).stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

        def elsewhere() -> list[Any]:
            with RunClient(folder) as client:
                waiting = client.pending()
                with pytest.raises(RunError, match="no question 'ask-9' waits"):
                    client.answer("ask-9", Decision.ALLOW_ONCE)
                client.answer(waiting[0]["id"], Decision.ALLOW_ONCE)
                return waiting

        waiting = await asyncio.to_thread(elsewhere)
        result = await asyncio.wait_for(live.result(), 60)
    assert [(question["id"], question["tool"]) for question in waiting] == [(id, "mcp__n__note")]
    assert (result.code, result.tools[0].ok) == ("ok", True)
    with pytest.raises(RunError, match="has ended"):
        RunClient(folder)


async def test_the_commands_watch_and_answer_work_on_a_second_terminal(toolkit_home: Path) -> None:
    async with asking() as live:
        watching = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "toolkit", "approvals", "watch", live.id, "--json"), stdout=asyncio.subprocess.PIPE
        )
        assert watching.stdout is not None
        asked = json.loads(await asyncio.wait_for(watching.stdout.readline(), 30))["asked"]
        done = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "toolkit", "approvals", "answer", live.id, asked["id"], "deny", "-m", "not today")
        )
        assert await asyncio.wait_for(done.wait(), 30) == 0
        result = await asyncio.wait_for(live.result(), 60)
        answered = json.loads(await asyncio.wait_for(watching.stdout.readline(), 30))["answered"]
    assert await asyncio.wait_for(watching.wait(), 30) == 0
    assert [denied.reason for denied in result.denied] == ["not today"]
    assert (answered["decision"], answered["by"]) == ("DENY", "socket")


async def test_garbage_on_the_socket_is_answered_and_survived(toolkit_home: Path) -> None:
    async with asking() as live:
        id = await until_asked(live)
        folder = toolkit_home / "runs" / live.id

        def elsewhere() -> list[Any]:
            with RunClient(folder) as client:
                said = []
                for line in (
                    b"nonsense\n",
                    b'{"do": "dance"}\n',
                    b"[]\n",
                    b'{"do": "answer", "id": 1, "decision": "X"}\n',
                ):
                    client._socket.sendall(line)
                    said.append(json.loads(client._lines.readline()))
                client.answer(id, Decision.DENY)
                return said

        said = await asyncio.to_thread(elsewhere)
        assert all(answer["ok"] is False for answer in said)
        await asyncio.wait_for(live.result(), 60)


async def test_a_run_that_asks_nobody_says_so(toolkit_home: Path) -> None:
    cli = FakeCLI(Turn([text("slow")], delay=30))
    async with start("go", transport=cli) as live:
        folder = toolkit_home / "runs" / live.id

        def elsewhere() -> None:
            with RunClient(folder) as client, pytest.raises(RunError, match="takes no answers"):
                client.pending()
            with RunClient(folder) as client, pytest.raises(RunError, match="takes no answers"):
                list(client.watch())

        await asyncio.to_thread(elsewhere)
        await live.stop()


async def test_a_run_is_stopped_from_elsewhere_and_takes_no_further_prompt(toolkit_home: Path) -> None:
    cli = FakeCLI(Turn([text("first"), tool_use("mcp__n__note", title="a")]), [text("never said")], strict=False)
    async with start("go", mode="normal", tools=[Toolbox("n", [note])], transport=cli, approve="wait") as live:
        await until_asked(live)
        done = await asyncio.create_subprocess_exec(*(sys.executable, "-m", "toolkit", "runs", "stop", live.id))
        result = await asyncio.wait_for(live.result(), 60)
        assert await asyncio.wait_for(done.wait(), 30) == 0
        with pytest.raises(RunError, match="is over"):
            await live.send("more")
    assert not result.ok
    assert "never said" not in result.text


async def test_a_deep_folder_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path.joinpath(*["a-rather-long-folder-name"] * 8)
    monkeypatch.setenv("TOOLKIT_HOME", str(home))
    async with asking() as live:
        id = await until_asked(live)
        live.approvals.answer(id, True)
        assert (await asyncio.wait_for(live.result(), 60)).ok


async def test_whoever_is_connected_when_a_run_ends_is_let_go_at_once(
    toolkit_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has said nothing yet, one that watches, and one that comes in the very last moment."""
    connections: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    async with asyncio.timeout(60), asking() as live:
        await until_asked(live)
        monkeypatch.chdir(toolkit_home / "runs" / live.id)  # the path of a socket has to be short
        connections.append(await asyncio.open_unix_connection(SOCKET_NAME))
        connections.append(await asyncio.open_unix_connection(SOCKET_NAME))
        connections[1][1].write(b'{"do": "watch"}\n')
        assert b"asked" in await connections[1][0].readline()
        live.approvals.answer("ask-1", Decision.ALLOW_ONCE)
        await live.result()
        connections.append(await asyncio.open_unix_connection(SOCKET_NAME))
    async with asyncio.timeout(60):
        for reader, writer in connections:
            await reader.read()
            assert reader.at_eof()
            writer.close()
            await writer.wait_closed()
