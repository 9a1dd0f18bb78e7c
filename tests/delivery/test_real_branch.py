"""The real CLI in the real jail commits, plants bombs, and leaves a rest; the branch holds the work and nothing fires."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.cli._running import Desk
from tests.sandbox.jails import needs_jail
from tests.workspace.repositories import everything, git, repository
from tests.workspace.test_delivering import BOMBS
from toolkit import RunResult, run
from toolkit.runs import load_run
from toolkit.testing import ScriptedAPI, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

WORK = "sed -i s/one/ONE/ app.py && git add -A && git -c user.name=O -c user.email=o@x commit -qm 'Shout'"
REST = "echo left > rest.txt; ln -s app.py link; printf 'a\\0b' > data.bin; chmod +x lib/code.py"


async def play(project: Path, home: Path, *commands: str, **options: Any) -> RunResult[Any]:
    script = [[tool_use("Bash", command=command)] for command in commands]
    with ScriptedAPI(*script, [text("I shouted. @everyone closes #1 <img src=x>")]) as api:
        section = WorkspaceSection([HostMount(project)], [project])
        work = run("Shout the first line.", workspace=section, home=home, api_url=api.url, api_key="k", **options)
        return await asyncio.wait_for(work, 240)


@needs_jail
async def test_an_agent_that_commits_in_the_jail_leaves_a_branch_and_no_bomb_goes_off(tmp_path: Path) -> None:
    project, home, fired = repository(tmp_path / "shop"), tmp_path / "home", tmp_path / "fired"
    bombs = BOMBS.format(fired, tmp_path)
    plant = f"cat >> .git/config <<'END'\n{bombs}\nEND\nmkdir -p .git/hooks; printf '#!/bin/sh\\ntouch {fired}\\n' > .git/hooks/post-commit"
    before = everything(project)
    result = await play(project, home, WORK, REST, plant)
    assert result.code == "ok", result.debug
    assert everything(project) == before

    made = result.branch("agent/x")

    assert everything(project) == before
    assert not fired.exists()
    assert made.branches[0].commits == 2
    assert git(project, "log", "--format=%s", "main..agent/x").splitlines() == ["Shout the first line.", "Shout"]
    trailers = git(project, "log", "-1", "--format=%(trailers:only,unfold)", "agent/x~1").splitlines()
    assert trailers[0] == f"Toolkit-Run: {result.run}"
    assert trailers[1].startswith("Toolkit-Model: ")
    assert trailers[2].startswith("Toolkit-Cost: ")
    assert trailers[3] == "Toolkit-Verified: not asked for"
    assert git(project, "show", "agent/x:app.py").startswith("ONE")
    assert "100755" in git(project, "ls-tree", "agent/x", "lib/code.py")
    assert "error" not in git(project, "fsck", "--strict", "--no-dangling")
    author = git(project, "log", "--format=%an %ae", "main..agent/x").splitlines()
    assert all(line.startswith("agent") and line.endswith("@agent.invalid") for line in author)

    stored = load_run(result.run, home)
    mails = tmp_path / "mails"
    mails.write_bytes(stored.mails().mailbox)
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(project), str(other))
    git(other, "am", "-q", str(mails))
    assert git(other, "rev-parse", "HEAD^{tree}") == git(project, "rev-parse", "agent/x^{tree}")
    body = stored.pull_request()
    assert "\n```text\nI shouted. @everyone closes #1 <img src=x>\n```\n" in body
    assert result.run in body


@needs_jail
async def test_a_branch_that_was_asked_for_is_made_at_the_end_or_it_is_said_why_not(tmp_path: Path) -> None:
    project, home = repository(tmp_path / "shop"), tmp_path / "home"
    result = await play(project, home, WORK, branch="agent/x")
    assert result.delivery is not None
    assert result.delivery["branches"][0]["name"] == "agent/x"
    assert load_run(result.run, home).result().delivery == result.delivery
    assert git(project, "log", "--format=%s", "main..agent/x") == "Shout"


@needs_jail
def test_the_command_does_it_from_start_to_end(tmp_path: Path) -> None:
    script = [[tool_use("Bash", command=WORK)], [tool_use("Bash", command=REST)]]
    with ScriptedAPI(*script, [text("done")]) as api:
        desk = Desk(tmp_path, api)
        project = repository(tmp_path / "shop")
        done = desk.toolkit("run", "Shout.", "--mount", "shop", "--branch", "agent/night")
        assert done.code == 0, done.err
        assert "agent/night  2 commits on " in done.err
    assert git(project, "log", "--format=%s", "main..agent/night").splitlines() == ["Shout.", "Shout"]
    shown = desk.toolkit("runs", "show", "last")
    assert "branch     agent/night  2 commits" in shown.out
    again = desk.toolkit("runs", "branch", "last", "--name", "agent/night")
    assert again.code == 1
    assert "--force" in again.err
    body = tmp_path / "body.md"
    named = desk.toolkit("runs", "branch", "last", "--json", "--pr-body", str(body))
    assert json.loads(named.out)["branches"][0]["name"] == f"agent/{desk.last().id}"
    assert "look twice" not in named.err
    assert "Changed files" in body.read_text(encoding="utf-8")


@needs_jail
async def test_the_launchers_own_verdict_decides_and_is_told(tmp_path: Path) -> None:
    project, home = repository(tmp_path / "shop"), tmp_path / "home"
    result = await play(project, home, WORK, branch="agent/x", verify="grep -q ONE app.py")
    assert result.verified is True
    assert result.delivery is not None
    assert "Toolkit-Verified: yes" in git(project, "log", "-1", "--format=%B", "agent/x")
    assert "| verified | yes, by " in load_run(result.run, home).pull_request()
    result = await play(project, home, WORK, branch="agent/y", verify="grep -q NEVER app.py")
    assert result.verified is False
    assert result.delivery == {"branches": [], "why": "it was not verified"}
    assert git(project, "branch", "--list", "agent/y") == ""
