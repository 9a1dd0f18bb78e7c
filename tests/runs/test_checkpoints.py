"""Files and conversation go back together, with the real CLI: what the model is sent and what its commands see."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.jails import needs_jail
from toolkit.errors import RunError, WorkspaceError
from toolkit.runs import Conversation, RunResult, SqliteSessionStore, load_run, run, start
from toolkit.testing import FakeCLI, ScriptedAPI, Turn, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

Start = Callable[..., ScriptedAPI]
pytestmark = needs_jail


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project on the host."""
    shop = tmp_path / "shop"
    shop.mkdir()
    for name in ("app", "other"):
        (shop / f"{name}.txt").write_text(f"{name} as it was\n")
    return shop


def copy_of(shop: Path) -> WorkspaceSection:
    return WorkspaceSection([HostMount(shop)], [shop.parent])


async def ask(api: ScriptedAPI, prompt: str, **options: Any) -> RunResult[Any]:
    done = await asyncio.wait_for(run(prompt, api_url=api.url, api_key="fake", **options), 90)
    assert done.code == "ok", done.debug
    return done


def bash(command: str) -> list[Any]:
    return [tool_use("Bash", command=command)]


def said(api: ScriptedAPI) -> str:
    return json.dumps(api.requests[-1]["messages"])


def shown(api: ScriptedAPI) -> list[str]:
    """What the last command printed, in lines."""
    blocks = [block for message in api.requests[-1]["messages"] for block in message["content"]]
    content = [block for block in blocks if isinstance(block, dict) and block["type"] == "tool_result"][-1]["content"]
    return (content if isinstance(content, str) else str(content[0]["text"])).splitlines()


def files_of(name: str) -> dict[str, str]:
    """What the copy of a run holds."""
    top = Path(load_run(name).facts["workspace"]) / "shop"
    return {str(one.relative_to(top)): one.read_text() for one in sorted(top.rglob("*")) if one.is_file()}


AS_IT_WAS = {"app.txt": "app as it was\n", "other.txt": "other as it was\n"}


async def test_a_rewind_takes_back_files_and_conversation_and_can_be_taken_back(
    shop: Path, scripted_api: Start
) -> None:
    api = scripted_api(
        bash("echo one > one.txt; echo one >> app.txt"),
        [text("first answer")],
        bash("rm other.txt; echo two > two.txt"),
        [text("second answer")],
        bash("cat *.txt"),
        [text("third answer")],
        bash("cat *.txt"),
        [text("fourth answer")],
    )
    first = await ask(api, "ask one", workspace=copy_of(shop))
    second = await ask(api, "ask two", resume=first.session)
    assert [one.label for one in load_run(first.run).checkpoints] == ["start of turn 1"]
    before = files_of(second.run)

    done = load_run(second.run).rewind(1)
    assert (done.to.number, done.back.number, done.is_beginning) == (1, 2, False)
    after_one = {"app.txt": "app as it was\none\n", "one.txt": "one\n", "other.txt": "other as it was\n"}
    assert files_of(second.run) == after_one

    third = await ask(api, "ask three", resume=first.session)
    assert third.session == first.session
    assert shown(api) == ["app as it was", "one", "one", "other as it was"]
    assert "first answer" in said(api)
    assert "ask two" not in said(api)
    assert "second answer" not in said(api)

    load_run(second.run).rewind(done.back.number)
    assert files_of(second.run) == before
    await ask(api, "ask four", resume=third.session)
    assert shown(api) == ["app as it was", "one", "one", "two"]
    assert "second answer" in said(api)
    assert "ask three" not in said(api)


async def test_at_the_beginning_the_conversation_begins_anew_in_the_same_copy(shop: Path, scripted_api: Start) -> None:
    api = scripted_api(
        bash("echo one > one.txt"),
        [text("first answer")],
        bash("ls"),
        [text("second answer")],
        [text("third answer")],
    )
    first = await ask(api, "ask one", workspace=copy_of(shop))
    assert load_run(first.run).rewind(1).is_beginning
    assert files_of(first.run) == AS_IT_WAS
    second = await ask(api, "ask two", resume=first.session)
    assert second.session == first.session
    assert shown(api) == ["app.txt", "other.txt"]
    assert "ask one" not in said(api)
    assert said(api).count("# Workspace") == 1
    await ask(api, "ask three", resume=first.session)
    assert "second answer" in said(api)
    assert "ask one" not in said(api)


async def test_a_checkpoint_in_the_middle_of_a_turn_ends_with_the_last_result(shop: Path, scripted_api: Start) -> None:
    hold = threading.Event()
    api = scripted_api(
        bash("echo one > app.txt"),
        Turn(bash("echo two > app.txt"), hold=hold),
        [text("first answer")],
        bash("cat app.txt"),
        [text("second answer")],
    )
    options = {"workspace": copy_of(shop), "api_url": api.url, "api_key": "fake"}
    async with asyncio.timeout(90), start("ask one", **options) as live:
        taken = None
        async for event in live:
            if event.name == "tool.ended" and taken is None:
                taken = await live.checkpoint("after the first")
                hold.set()
        assert taken is not None
        assert (await live.result()).ok
    stored = load_run(live.id)
    assert [(one.number, one.label) for one in stored.checkpoints] == [(1, "start of turn 1"), (2, "after the first")]
    events = [event for event in stored.events() if event.name == "lifecycle.checkpoint"]
    assert [event.data for event in events] == [taken.to_data()]
    stored.rewind(2)
    await ask(api, "ask two", resume=(await live.result()).session)
    assert "first answer" not in said(api)
    sent = said(api)
    assert "echo one > app.txt" in sent
    # What had its result by then is in both; a call that was under way may have written its file already.
    assert shown(api) == ["two"] or "echo two > app.txt" not in sent


async def test_turns_of_one_process_have_checkpoints_each(shop: Path, scripted_api: Start) -> None:
    api = scripted_api(
        bash("echo one > app.txt"),
        [text("first answer")],
        bash("echo two > app.txt"),
        [text("second answer")],
        [text("third answer")],
    )
    options = {"workspace": copy_of(shop), "api_url": api.url, "api_key": "fake"}
    async with asyncio.timeout(90), start("ask one", **options) as live:
        await live.result()
        between = await live.checkpoint()
        session = (await live.send("ask two")).session
        with pytest.raises(RunError, match="is still running: it cannot be rewound"):
            load_run(live.id).rewind(1)
    stored = load_run(live.id)
    assert [one.label for one in stored.checkpoints] == ["start of turn 1", "in turn 1", "start of turn 2"]
    stored.rewind(3)
    assert files_of(live.id)["app.txt"] == "one\n"
    stored.rewind(1)
    assert files_of(live.id) == AS_IT_WAS
    stored.rewind(between.number)
    stored.rewind(between.number)  # twice is once
    assert files_of(live.id)["app.txt"] == "one\n"
    await ask(api, "ask three", resume=session)
    assert "first answer" in said(api)
    assert "ask two" not in said(api)


async def test_what_cannot_be_rewound_is_said_and_changes_nothing(
    shop: Path, scripted_api: Start, toolkit_home: Path
) -> None:
    api = scripted_api(bash("echo one > app.txt"), [text("done")], [text("done")])
    first = await ask(api, "ask one", workspace=copy_of(shop))
    stored = load_run(first.run)
    for number in (0, -1):
        with pytest.raises(RunError, match=f"no checkpoint {number}; there is nothing before its first"):
            stored.rewind(number)
    with pytest.raises(RunError, match="no checkpoint 2"):
        stored.rewind(2)
    with stored.opened(), pytest.raises(WorkspaceError, match="in use"):
        load_run(first.run).rewind(1)
    assert len(stored.checkpoints) == 1
    assert files_of(first.run)["app.txt"] == "one\n"
    stored.drop_workspace()
    with pytest.raises(RunError, match="was removed"):
        stored.rewind(1)
    none = await ask(api, "ask two")
    with pytest.raises(RunError, match="has no checkpoints: it worked on no copy"):
        load_run(none.run).rewind(1)
    async with start("hello", transport=FakeCLI([text("hi")]), workspace=copy_of(shop)) as live:
        await live.result()
        with pytest.raises(RunError, match="its conversation is not kept"):
            await live.checkpoint()


async def test_a_conversation_in_a_store_of_its_own_is_taken_back_there(
    shop: Path, scripted_api: Start, tmp_path: Path
) -> None:
    store = SqliteSessionStore(tmp_path / "talks.db")
    api = scripted_api(bash("echo one > app.txt"), [text("first answer")], [text("second answer")], [text("third")])
    first = await ask(api, "ask one", workspace=copy_of(shop), store=store)
    second = await ask(api, "ask two", resume=first.session, store=store)
    with pytest.raises(RunError, match="not kept where it was looked for"):
        load_run(second.run).rewind(1)
    load_run(second.run).rewind(1, store=store)
    await ask(api, "ask three", resume=first.session, store=store)
    assert "first answer" in said(api)
    assert "ask two" not in said(api)


async def test_a_history_that_is_given_counts_whatever_was_taken_back(shop: Path, scripted_api: Start) -> None:
    api = scripted_api([text("first answer")], [text("second answer")], [text("third answer")])
    talk = Conversation(workspace=copy_of(shop), api_url=api.url, api_key="fake")
    await asyncio.wait_for(talk.send("ask one"), 60)
    second = await asyncio.wait_for(talk.send("ask two"), 60)
    load_run(second.run).rewind(1)
    assert (await asyncio.wait_for(talk.send("ask three"), 60)).ok
    assert all(said(api).count(each) == 1 for each in ("first answer", "ask two", "second answer"))


async def test_what_the_host_changed_meanwhile_is_no_change_of_the_agent_after_a_rewind(
    shop: Path, scripted_api: Start
) -> None:
    (shop / "old").mkdir()
    (shop / "old" / "gone.txt").write_text("here\n")
    api = scripted_api(
        bash("echo one > one.txt"), [text("a")], [text("b")], bash("cat app.txt new/more.txt"), [text("c")]
    )
    first = await ask(api, "ask one", workspace=copy_of(shop))
    (shop / "app.txt").write_text("edited on the host\n")
    (shop / "new").mkdir()
    (shop / "new" / "more.txt").write_text("made on the host\n")
    (shop / "old" / "gone.txt").unlink()
    (shop / "old").rmdir()
    await ask(api, "ask two", resume=first.session)
    load_run(first.run).rewind(1)
    assert files_of(first.run) == {**AS_IT_WAS, "old/gone.txt": "here\n"}
    assert not load_run(first.run).changes()
    third = await ask(api, "ask three", resume=first.session)
    assert shown(api) == ["edited on the host", "made on the host"]
    assert not third.changes
    assert not files_of(first.run).keys() & {"old/gone.txt"}


async def test_a_run_whose_launcher_was_killed_can_be_rewound(shop: Path, toolkit_home: Path) -> None:
    from tests.runs import killed_launcher

    program = [sys.executable, "-c", KILLED, str(shop)]
    environment = {
        **os.environ,
        "TOOLKIT_HOME": str(toolkit_home),
        "PYTHONPATH": str(Path(killed_launcher.__file__).parents[2]),
    }
    done = await asyncio.to_thread(
        subprocess.run, program, env=environment, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    stored = load_run("last")
    assert stored.state == "crashed"
    assert files_of(stored.id)["app.txt"] == "broken\n"
    assert stored.rewind(1).is_beginning
    assert files_of(stored.id) == AS_IT_WAS
    with ScriptedAPI(bash("cat app.txt"), [text("done")]) as api:
        again = await ask(api, "again", resume=stored.session)
        assert shown(api) == ["app as it was"]
        assert again.session == stored.session


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from toolkit.runs import start
from toolkit.testing import ScriptedAPI, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

async def main():
    shop = Path(sys.argv[1])
    with ScriptedAPI([tool_use("Bash", command="echo broken > app.txt")], [text("done")]) as api:
        options = {"workspace": WorkspaceSection([HostMount(shop)], [shop.parent]), "api_url": api.url, "api_key": "fake"}
        async with start("break it", **options) as live:
            async for event in live:
                if event.name == "tool.ended":
                    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_an_interrupted_rewind_is_no_place_to_go_on_and_is_finished_by_doing_it_again(
    shop: Path, scripted_api: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = scripted_api(bash("echo one > app.txt"), [text("first answer")], [text("second answer")], [text("third")])
    first = await ask(api, "ask one", workspace=copy_of(shop))
    second = await ask(api, "ask two", resume=first.session)
    stored = load_run(second.run)

    def killed(*given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("toolkit.runs.checkpoints.rewinding.set_head", killed)
        with pytest.raises(KeyboardInterrupt):
            load_run(first.run).rewind(1)
    with pytest.raises(RunError, match="a rewind of the workspace was interrupted") as caught:
        await ask(api, "ask three", resume=first.session)
    assert "toolkit runs rewind" in str(caught.value)
    with pytest.raises(WorkspaceError, match="a rewind of the workspace was interrupted"):
        stored.apply()
    lost = load_run(first.run).checkpoints[-1]
    load_run(first.run).rewind(lost.number)
    assert files_of(first.run)["app.txt"] == "one\n"
    load_run(first.run).rewind(1)
    assert files_of(first.run) == AS_IT_WAS
    await ask(api, "ask three", resume=first.session)
    assert "ask one" not in said(api)
