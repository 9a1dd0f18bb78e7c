"""A conversation goes on where it worked: the same copy at the same path, with what the host changed meanwhile."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.jails import needs_jail
from toolkit.errors import RunError
from toolkit.runs import Conversation, InPlace, RunResult, load_run, remove_older_than, run, start
from toolkit.testing import FakeCLI, ScriptedAPI, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

Start = Callable[..., ScriptedAPI]
pytestmark = needs_jail


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project on the host."""
    shop = tmp_path / "shop"
    shop.mkdir()
    for name in ("app", "other", "third"):
        (shop / f"{name}.txt").write_text(f"{name} as it was\n")
    return shop


async def ask(api: ScriptedAPI, prompt: str, **options: Any) -> RunResult[Any]:
    return await asyncio.wait_for(run(prompt, api_url=api.url, api_key="fake", **options), 90)


async def first_turn(api: ScriptedAPI, shop: Path, **options: Any) -> RunResult[Any]:
    """A run on a copy of the project."""
    done = await ask(api, "Begin.", workspace=WorkspaceSection([HostMount(shop)], [shop.parent]), **options)
    assert done.code == "ok", done.debug
    return done


def bash(command: str) -> list[Any]:
    return [tool_use("Bash", command=command)]


def shown(api: ScriptedAPI) -> list[str]:
    """What the last command printed, in lines."""
    blocks = [block for message in api.requests[-1]["messages"] for block in message["content"]]
    content = [block for block in blocks if isinstance(block, dict) and block["type"] == "tool_result"][-1]["content"]
    return (content if isinstance(content, str) else str(content[0]["text"])).splitlines()


def said(api: ScriptedAPI) -> str:
    return json.dumps(api.requests[-1]["messages"])


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=30).stdout


async def test_the_agents_files_are_at_the_same_path_and_the_hosts_edits_arrive(
    shop: Path, scripted_api: Start
) -> None:
    api = scripted_api(
        bash("echo mine > new.txt; echo mine > third.txt; pwd"),
        [text("done")],
        bash("pwd; cat new.txt app.txt third.txt fresh.txt; ls"),
        [text("seen")],
    )
    first = await first_turn(api, shop)
    (shop / "app.txt").write_text("edited on the host\n")
    (shop / "fresh.txt").write_text("made on the host\n")
    (shop / "third.txt").write_text("edited on both sides\n")
    (shop / "other.txt").unlink()
    second = await ask(api, "Go on.", resume=first.session)
    assert (second.code, second.session) == ("ok", first.session)
    expected = [str(shop), "mine", "edited on the host", "mine", "made on the host"]
    assert shown(api) == [*expected, "app.txt", "fresh.txt", "new.txt", "third.txt"]
    warnings = [event.data["what"] for event in load_run(second.run).events() if event.name == "lifecycle.warning"]
    assert len(warnings) == 1
    assert f"brought in: {shop}/app.txt, {shop}/fresh.txt; removed: {shop}/other.txt" in warnings[0]
    assert f"changed on both sides and left as the agent has it: {shop}/third.txt" in warnings[0]
    assert said(api).count("changed on both sides") == 1
    assert said(api).count("# Workspace") == 1

    stored = load_run(second.run)
    assert second.changes is not None
    assert sorted(change.path for change in second.changes) == ["shop/new.txt", "shop/third.txt"]
    assert stored.facts["workspace"] == load_run(first.run).facts["workspace"]
    assert b"new.txt" in stored.diff()
    stored.apply(paths=["shop/new.txt"])
    assert (shop / "new.txt").read_text() == "mine\n"


async def test_what_both_changed_in_different_lines_is_merged_before_the_agent_goes_on(
    shop: Path, scripted_api: Start
) -> None:
    lines = [f"line {number}\n" for number in range(9)]
    (shop / "app.txt").write_text("".join(lines))
    api = scripted_api(
        bash("sed -i '$s/.*/of the agent/' app.txt"), [text("done")], bash("sed -n '1p;$p' app.txt"), [text("seen")]
    )
    first = await first_turn(api, shop)
    (shop / "app.txt").write_text("".join(["of the host\n", *lines[1:]]))
    second = await ask(api, "Go on.", resume=first.session)
    assert shown(api) == ["of the host", "of the agent"]
    assert f"merged with what the agent changed: {shop}/app.txt" in said(api)
    load_run(second.run).apply()
    assert (shop / "app.txt").read_text() == "".join(["of the host\n", *lines[1:8], "of the agent\n"])


async def test_nothing_is_told_where_nothing_changed_and_same_edits_are_no_conflict(
    shop: Path, scripted_api: Start
) -> None:
    api = scripted_api(bash("echo same > app.txt"), [text("done")], [text("seen")])
    first = await first_turn(api, shop)
    (shop / "app.txt").write_text("same\n")
    second = await ask(api, "Go on.", resume=first.session)
    assert not [event for event in load_run(second.run).events() if event.name == "lifecycle.warning"]
    assert api.requests[-1]["messages"][-1]["role"] == "user"
    assert "changed since" not in said(api)


async def test_the_copys_own_git_stays_as_the_agent_has_it(shop: Path, scripted_api: Start) -> None:
    _git(shop, "init", "-q", "-b", "main")
    _git(shop, "add", "-A")
    _git(shop, "commit", "-qm", "the first")
    api = scripted_api(
        bash("echo mine > new.txt; git add -A; git -c user.name=x -c user.email=x@y commit -qm theirs"),
        [text("done")],
        bash("git log --format=%s; git status --short"),
        [text("seen")],
    )
    first = await first_turn(api, shop)
    (shop / "app.txt").write_text("edited on the host\n")
    _git(shop, "commit", "-qam", "on the host")
    await ask(api, "Go on.", resume=first.session)
    assert shown(api) == ["theirs", "the first", " M app.txt"]
    assert _git(shop, "log", "--format=%s").split("\n") == ["on the host", "the first", ""]


async def test_a_link_the_agent_left_in_its_git_folder_writes_nothing_on_the_host(
    shop: Path, scripted_api: Start, tmp_path: Path
) -> None:
    _git(shop, "init", "-q")
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    api = scripted_api(bash(f"ln -sf {precious} .git/objects/info/alternates"), [text("done")], [text("seen")])
    first = await first_turn(api, shop)
    assert (await ask(api, "Go on.", resume=first.session)).ok
    assert precious.read_text() == "mine"


async def test_a_link_above_a_lent_folder_does_not_decide_where_it_is_shown(
    shop: Path, scripted_api: Start, tmp_path: Path
) -> None:
    (shop / "vendor" / "tools").mkdir(parents=True)
    (shop / "vendor" / "tools" / "tool.txt").write_text("lent")
    outside = tmp_path / "outside"
    outside.mkdir()
    look = bash("cat vendor/tools/tool.txt || readlink vendor")
    api = scripted_api(look, [text("one")], look, [text("two")], look, [text("three")])
    section = WorkspaceSection([HostMount(shop, lend=("vendor/tools",))], [shop.parent])
    first = await ask(api, "Begin.", workspace=section)
    assert shown(api) == ["lent"]
    await ask(api, "Go on.", resume=first.session)
    assert shown(api) == ["lent"]
    vendor = Path(load_run(first.run).facts["workspace"]) / "shop" / "vendor"
    shutil.rmtree(vendor)
    vendor.symlink_to(outside)
    third = await ask(api, "Go on.", resume=first.session)
    assert third.ok
    assert shown(api)[-1] == str(outside)
    assert not [one for one in load_run(third.run).facts["lent"] if "vendor" in one["inside"]]
    warnings = [event.data["what"] for event in load_run(third.run).events() if event.name == "lifecycle.warning"]
    assert warnings == [f"No longer shown from the host: {shop}/vendor/tools."]
    assert not list(outside.iterdir())
    with pytest.raises(RunError, match="it has put a link in its place"):
        await ask(api, "Go on.", resume=first.session, readable=[shop / "vendor" / "tools"])


async def test_a_dropped_copy_is_an_error_before_anything_is_sent_and_the_hosts_files_are_offered(
    shop: Path, scripted_api: Start
) -> None:
    api = scripted_api(bash("echo mine > new.txt"), [text("done")], bash("ls"), [text("seen")])
    first = await first_turn(api, shop)
    assert load_run(first.run).drop_workspace()
    sent = len(api.requests)
    with pytest.raises(RunError, match="was dropped, with what the agent had done") as caught:
        await ask(api, "Go on.", resume=first.session)
    assert f"Start from the host's files: --mount {shop}" in caught.value.fix
    assert len(api.requests) == sent
    again = WorkspaceSection([HostMount(shop)], [shop.parent])
    await ask(api, "Go on.", resume=first.session, workspace=again)
    assert shown(api) == ["app.txt", "other.txt", "third.txt"]


async def test_an_empty_folder_of_its_own_is_gone_on_with_and_in_place_has_to_be_said_again(
    scripted_api: Start, tmp_path: Path
) -> None:
    api = scripted_api(
        bash("echo mine > new.txt"), [text("done")], bash("pwd; cat new.txt"), [text("seen")], [text("in place")]
    )
    first = await ask(api, "Begin.")
    await ask(api, "Go on.", resume=first.session)
    assert shown(api) == ["/work", "mine"]
    with pytest.raises(RunError, match="later runs went on in the workspace"):
        load_run(first.run).remove()
    (tmp_path / "place").mkdir()
    third = await ask(api, "Here.", workspace=InPlace(tmp_path / "place"))
    with pytest.raises(RunError, match="worked in place") as caught:
        await ask(api, "Go on.", resume=third.session)
    assert f"--in-place {tmp_path / 'place'}" in caught.value.fix


async def test_a_run_whose_copy_a_later_one_works_in_is_removed_after_it(shop: Path, scripted_api: Start) -> None:
    api = scripted_api(bash("echo mine > new.txt"), [text("done")], [text("one")])
    first = await first_turn(api, shop)
    second = await ask(api, "Go on.", resume=first.session)
    with pytest.raises(RunError, match="later runs went on in the workspace") as caught:
        load_run(first.run).remove()
    assert f"toolkit runs remove {second.run}" in caught.value.fix
    with pytest.raises(RunError, match="it cannot be dropped here"):
        load_run(first.run).drop_workspace()
    assert [change.path for change in load_run(second.run).changes()] == ["shop/new.txt"]
    assert load_run(second.run).drop_workspace()
    assert not load_run(second.run).drop_workspace()
    assert remove_older_than(0) == [second.run, first.run]


async def test_two_who_go_on_at_once_lose_nothing(shop: Path, scripted_api: Start) -> None:
    api = scripted_api(
        bash("echo mine > new.txt"), [text("done")], otherwise=lambda request: [text("fine")], strict=False
    )
    section = WorkspaceSection([HostMount(shop)], [shop.parent])
    async with start("Begin.", workspace=section, api_url=api.url, api_key="fake") as live, asyncio.timeout(90):
        first = await live.result()
        with pytest.raises(RunError, match="is still running: its workspace is in use"):
            await ask(api, "Elsewhere.", resume=first.session, fork=True)
        waits = asyncio.create_task(ask(api, "After it.", resume=first.session))
        assert (await live.send("And more.")).ok
        assert not waits.done()
    done = await waits
    assert done.ok
    assert done.changes is not None
    assert [change.path for change in done.changes] == ["shop/new.txt"]


TALK = """
import asyncio, json, sys
from toolkit.runs import Conversation
from toolkit.workspace import HostMount, WorkspaceSection

messages, shop, url = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
section = WorkspaceSection([HostMount(shop)], [shop])
done = asyncio.run(Conversation(messages, workspace=section, api_url=url, api_key="fake").send("Go on."))
print(done.code)
"""


async def test_a_conversation_goes_on_in_its_copy_in_the_same_process_and_in_another(
    shop: Path, scripted_api: Start, toolkit_home: Path
) -> None:
    api = scripted_api(
        bash("echo mine > new.txt"), [text("one")], bash("cat new.txt app.txt"), [text("two")], bash("ls"), [text("3")]
    )
    section = WorkspaceSection([HostMount(shop)], [shop])
    talk = Conversation(workspace=section, api_url=api.url, api_key="fake")
    assert (await talk.send("Begin.")).ok
    (shop / "app.txt").write_text("edited on the host\n")
    second = await talk.send("What is there?")
    assert shown(api) == ["mine", "edited on the host"]
    owner = load_run(second.run).owner_of_workspace
    assert owner is not None
    with pytest.raises(RunError, match="later runs went on in the workspace"):
        owner.remove()
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", TALK, json.dumps(talk.messages), str(shop), api.url],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    assert done.stdout == "ok\n"
    assert shown(api) == ["app.txt", "new.txt", "other.txt", "third.txt"]
    assert said(api).count("# Workspace") == 1


KILLED = """
import asyncio, sys
from toolkit.runs import start
from toolkit.runs.sessions.transcripts import default_store
from toolkit.workspace import HostMount, WorkspaceSection

async def main():
    section = WorkspaceSection([HostMount(sys.argv[1])], [sys.argv[1]])
    async with start("Begin.", workspace=section, api_url=sys.argv[2], api_key="fake") as live:
        async for event in live:
            if event.name == "tool.started" and "tail" in str(event.data):
                while not await default_store().list_sessions("toolkit"):
                    await asyncio.sleep(0.02)
                print("kept", flush=True)

asyncio.run(main())
"""


async def test_the_copy_of_a_run_whose_launcher_was_killed_is_gone_on_with(shop: Path, toolkit_home: Path) -> None:
    script = (bash("echo mine > new.txt"), bash("tail -f /dev/null"), bash("cat new.txt"))
    with ScriptedAPI(*script, otherwise=[text("seen")], strict=False) as api:
        launcher = await asyncio.create_subprocess_exec(
            sys.executable, "-c", KILLED, str(shop), api.url, stdout=asyncio.subprocess.PIPE
        )
        assert launcher.stdout is not None
        try:
            assert await asyncio.wait_for(launcher.stdout.readline(), 60) == b"kept\n"
        finally:
            launcher.kill()
            await launcher.wait()
        killed = load_run("last").result()
        done = await ask(api, "Go on.", resume=killed.session)
        assert (killed.code, done.code) == ("crashed", "ok")
        assert shown(api) == ["mine"]


async def test_a_session_of_a_transport_goes_on_in_its_folder_too(shop: Path) -> None:
    cli = FakeCLI([text("one")], [text("two")])
    first = await run("Begin.", workspace=WorkspaceSection([HostMount(shop)], [shop]), transport=cli)
    copy = Path(load_run(first.run).facts["workspace"])
    (copy / "shop" / "new.txt").write_text("mine")
    second = await run("Go on.", resume=first.session, transport=cli)
    assert load_run(second.run).facts["workspace"] == str(copy)
    assert second.changes is not None
    assert [change.path for change in second.changes] == ["shop/new.txt"]
