"""Whether a run's work becomes a branch by itself, what its commits say, and the text of a pull request."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli._running import Desk
from tests.workspace.repositories import git, repository
from toolkit import RunResult, run
from toolkit.errors import WorkspaceError
from toolkit.runs import RunSpec, StoredRun, load_run
from toolkit.runs.delivery import why_not
from toolkit.runs.kinds import OptionError
from toolkit.testing import FakeCLI, Status, Turn, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

HOSTILE = "Done. @team <script>alert(1)</script> closes #7\n````\n# Heading\n![x](http://e)\u202e\x1b[2J"


async def work(
    project: Path, home: Path, *, ends: Any = None, files: dict[str, str] | None = None, **options: Any
) -> Any:
    """A run of a fake CLI that writes files into its copy."""
    section = WorkspaceSection([HostMount(project)], [project.parent]).prepare(parent=project.parent)

    def write(arguments: dict[str, Any]) -> str:
        for name, data in (files or {"new.py": "x = 1\n"}).items():
            place = section.temp_dir / project.name / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(data)
        return "ok"

    last = ends or Turn([text(HOSTILE)])
    cli = FakeCLI(Turn([tool_use("Bash", command="x")]), last, tools={"Bash": write})
    section.release()
    return await run("Do `it` | now\n@team", workspace=section, home=home, transport=cli, **options)


async def test_a_run_that_is_ok_gets_its_branch_and_says_what_it_cost(tmp_path: Path) -> None:
    project = repository(tmp_path / "shop")
    result = await work(project, tmp_path / "home", branch="agent/x")
    assert result.delivery["branches"][0]["name"] == "agent/x"
    said = git(project, "log", "-1", "--format=%B", "agent/x")
    assert said.startswith("Do `it` | now\n")
    assert f"Toolkit-Run: {result.run}" in said
    assert "Toolkit-Verified: not asked for" in said
    assert "\x1b" not in said
    stored = load_run(result.run, tmp_path / "home")
    assert [event.data for event in stored.events() if event.kind == "delivered"] == [result.delivery]
    assert stored.result().to_data()["delivery"] == result.delivery
    assert stored.result().branch("agent/again").branches[0].commits == 1


async def test_a_run_that_failed_gets_none_and_says_why(tmp_path: Path) -> None:
    project = repository(tmp_path / "shop")
    result = await work(project, tmp_path / "home", branch="agent/x", ends=Status(401))
    assert not result.ok
    assert result.delivery == {"branches": [], "why": f"the run ended with '{result.code}'"}
    assert git(project, "branch", "--list", "agent/*") == ""
    made = load_run(result.run, tmp_path / "home").branch("agent/anyway").branches
    assert len(made) == 1


async def test_what_cannot_be_delivered_is_said_and_the_run_keeps_its_result(tmp_path: Path) -> None:
    project = repository(tmp_path / "shop")
    (project / "mine.py").write_text("mine\n")
    result = await work(project, tmp_path / "home", branch="agent/x", files={"mine.py": "theirs\n"})
    assert result.ok
    assert "mine.py: it was not committed when the run began" in result.delivery["why"]
    assert "--with-uncommitted" in result.delivery["why"]


async def test_a_name_that_is_taken_and_a_mount_without_a_repository_are_refused_before_anything_is_sent(
    tmp_path: Path,
) -> None:
    project = repository(tmp_path / "shop")
    with pytest.raises(WorkspaceError, match="checked out"):
        await work(project, tmp_path / "home", branch="main")
    plain = tmp_path / "elsewhere/plain"
    plain.mkdir(parents=True)
    with pytest.raises(WorkspaceError, match="no mount lies in a git repository"):
        await work(plain, tmp_path / "home", branch="agent/x")
    with pytest.raises(OptionError):
        RunSpec("Go.", branch="agent/x")


def test_the_verdict_decides_where_there_is_one() -> None:
    ok: RunResult[Any] = RunResult(run="r", code="ok")
    bad: RunResult[Any] = RunResult(run="r", code="budget")
    assert why_not(ok) is None
    assert why_not(bad) == "the run ended with 'budget'"
    assert why_not(dataclasses.replace(ok, verified=True)) is None
    assert why_not(dataclasses.replace(ok, verified=False)) == "it was not verified"


async def test_the_text_of_a_pull_request_holds_no_markup_of_anybody_else(tmp_path: Path) -> None:
    project = repository(tmp_path / "shop")
    files = {".github/workflows/ci.yml": "on: push\n", "na|me`x`.py": "a = '\u200b'\n", "@team": "x\n"}
    result = await work(project, tmp_path / "home", files=files)
    body = load_run(result.run, tmp_path / "home").pull_request()
    assert "\u202e" not in body
    assert "\u200b" not in body
    assert "\x1b" not in body
    outside = outside_of_fences(body)
    assert "@team <script>" not in outside
    assert "#7" not in outside
    assert "# Heading" not in outside
    assert "| cost | " in outside
    assert "| verified | not asked for |" in outside
    assert "runs elsewhere: on the code host" in outside
    assert "`shop/@team`" in outside
    assert "U+200B" in outside.replace("\\", "")


def outside_of_fences(body: str) -> str:
    """What counts as Markdown: a block ends with the very fence that began it."""
    lines, fence = [], ""
    for line in body.splitlines():
        if fence:
            fence = "" if line == fence else fence
        elif line.startswith("```"):
            fence = line.removesuffix("text")
        else:
            lines.append(line)
    assert not fence
    return "\n".join(lines)


async def test_the_commands_say_what_is_left_out_what_to_look_at_and_what_was_typed_wrong(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    project = repository(tmp_path / "shop", files={".gitignore": b"*.log\n", "a": b"a\n"})
    files = {"x.log": "x\n", "Makefile": "all:\n", "b": "b\n"}
    result = await work(project, desk.home, files=files)
    named = desk.toolkit("runs", "branch", result.run, "--name", "agent/x", "--message", "My words")
    assert named.code == 0
    assert named.out.startswith("agent/x  1 commit on ")
    assert "left out: shop/x.log (the project ignores it, or it is a cache" in named.err
    assert "look twice: shop/Makefile (runs elsewhere: where the project is built)" in named.err
    assert git(project, "log", "-1", "--format=%s", "agent/x") == "My words"
    only = desk.toolkit("runs", "branch", result.run, "--name", "agent/only", "--only", "b")
    assert only.code == 0
    assert git(project, "diff", "--name-only", "main", "agent/only") == "b"
    for words, told in {
        ("--name", "a..b"): "cannot be the name of a branch",
        ("--onto", "nowhere"): "has no commit 'nowhere'",
        ("--only", "zzz"): "nothing changed at 'zzz'",
        ("--mount", "zzz"): "no mount is called 'zzz'",
    }.items():
        done = desk.toolkit("runs", "branch", result.run, *words)
        assert done.code == 2
        assert told in done.err
        assert "Traceback" not in done.err
    mails = desk.toolkit("runs", "patch", result.run, "--pr-body", "body.md")
    assert mails.out.startswith("From ")
    assert "left out: shop/x.log" in mails.err
    nowhere = desk.toolkit("runs", "branch", result.run, "--name", "agent/no", "--pr-body", "no/such/body.md")
    assert nowhere.code == 2
    assert git(project, "branch", "--list", "agent/no") == ""
    assert (tmp_path / "body.md").read_text().startswith("## What")
    assert isinstance(desk.last(), StoredRun)


def test_a_launcher_that_is_killed_at_its_branch_leaves_all_of_it_or_none_and_bills_once(tmp_path: Path) -> None:
    project, home = repository(tmp_path / "shop"), tmp_path / "home"
    home.mkdir()
    words = [sys.executable, "-m", "tests.delivery.killed_at_the_branch", str(home), str(project)]
    root = Path(__file__).parents[2]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    whole, *killed = json.loads(done.stdout)
    assert (whole["was_killed"], len(whole["delivery"]["branches"]), whole["starts"] > 5) == (False, 1, True)
    assert "error" not in git(project, "fsck", "--strict", "--no-dangling")
    made = []
    for one in killed:
        assert one["was_killed"], one
        assert one["delivery"] is None  # nothing is said to be there that nobody wrote down
        assert (one["input"], one["calls"]) == (whole["input"], whole["calls"])
        assert one["text"] == "Done."
        branch = f"agent/{one['name']}"
        if git(project, "branch", "--list", branch):
            made.append(branch)
            assert git(project, "show", f"{branch}:new.py") == "x = 1"
        delivered = load_run(one["name"], home).branch(branch, force=True)
        assert [entry.commits for entry in delivered.branches] == [1]
    assert "agent/killed-0" in made
    assert len(made) < len(killed)
    assert not list(home.rglob("delivering-*"))
    assert git(project, "status", "--porcelain") == ""
