"""A decision about git that lasts holds as long as git is set up as it was: its settings can run any program."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolkit.runs import Decision, Question, run
from toolkit.runs.asking.subjects import git_setup
from toolkit.testing import FakeCLI, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "app.py").write_text("old", encoding="utf-8")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost", "-C", str(folder)]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True, timeout=60)
    return folder


def _plants(*path: str, text: str = "x") -> Callable[[Path], None]:
    def plant(folder: Path) -> None:
        place = folder.joinpath(*path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    return plant


def _plants_bare(folder: Path) -> None:
    for name in ("docs/objects", "docs/refs"):
        (folder / name).mkdir(parents=True)
    (folder / "docs/config").write_text("[core]\nfsmonitor = evil", encoding="utf-8")


def _shares_hidden(folder: Path) -> None:
    """A repository in two parts, whose references are a file: git takes it for one."""
    _plants("part", "HEAD", text="ref: refs/heads/main")(folder)
    _plants("part", "commondir", text="../shared")(folder)
    _shared_hidden(folder)


def _shared_hidden(folder: Path) -> None:
    (folder / "shared/objects").mkdir(parents=True)
    _plants("shared", "config", text="[diff]\nexternal = evil")(folder)
    _plants("shared", "refs")(folder)
    (folder / "shared/refs").chmod(0o755)


def _plants_within(*path: str) -> Callable[[Path], None]:
    def plant(folder: Path) -> None:
        for name in ("HEAD", "config", "objects/x", "refs/x"):
            _plants(*path, name)(folder)

    return plant


def _links_config(folder: Path) -> None:
    (folder / ".git/config").unlink()
    (folder / ".git/config").symlink_to("../app.py")


@pytest.mark.parametrize(
    "change",
    [
        _plants(".git", "config", text="[core]\nfsmonitor = evil"),
        _plants(".git", "config.worktree"),
        _plants(".git", "hooks", "post-index-change"),
        _plants(".git", "info", "attributes", text="*.py diff=evil"),
        _plants(".git", "modules", "one", "config"),
        _plants(".git", "commondir", text="../elsewhere"),
        _plants("sub", ".git", text="gitdir: /tmp/evil"),
        _plants("sub", ".git", "config"),
        _plants(".gitmodules"),
        _plants_bare,
        _shares_hidden,
        _shared_hidden,
        _plants_within(".git", "logs", "evil"),
        _plants_within(".git", "objects", "evil", "further"),
        _links_config,
    ],
)
def test_whatever_git_reads_before_it_runs_something_changes_it(shop: Path, change: Callable[[Path], None]) -> None:
    before = git_setup(shop)
    change(shop)
    assert len({before, git_setup(shop), ""}) == 3


def test_git_takes_a_folder_for_a_repository_whose_references_are_a_file(tmp_path: Path) -> None:
    _shares_hidden(tmp_path)
    found = subprocess.run(["git", "rev-parse", "--git-dir"], cwd=tmp_path / "part", capture_output=True, timeout=60)
    assert found.stdout == b".\n"
    assert git_setup(tmp_path) != ""


def test_work_does_not_change_it(shop: Path) -> None:
    before = git_setup(shop)
    (shop / "new.py").write_text("new", encoding="utf-8")
    (shop / "config").write_text("of the project", encoding="utf-8")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost", "-C", str(shop)]
    for words in (["add", "-A"], ["commit", "-qm", "second"], ["switch", "-qc", "other"], ["stash", "list"]):
        subprocess.run([*git, *words], check=True, timeout=60)
    assert git_setup(shop) == before


def test_a_repository_within_another_changes_it(shop: Path) -> None:
    _plants_within("docs")(shop)
    before = git_setup(shop)
    _plants_within("docs", "refs", "evil")(shop)
    assert git_setup(shop) != before


def test_without_a_repository_there_is_nothing_to_say_and_what_cannot_be_seen_is_never_the_same(tmp_path: Path) -> None:
    assert git_setup(tmp_path) == ""
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "config")
    assert git_setup(tmp_path) != git_setup(tmp_path)
    assert git_setup(tmp_path / "none") != git_setup(tmp_path / "none")


@pytest.mark.parametrize(
    "line", ["[include]\npath = ../more", '[includeIf "gitdir:/"]\npath = x', "[core]\nhooksPath = .husky"]
)
def test_what_leads_elsewhere_is_never_the_same(shop: Path, line: str) -> None:
    with (shop / ".git/config").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    assert git_setup(shop) != git_setup(shop)


@pytest.mark.parametrize(
    "line",
    [
        "[core]\nfsmonitor = tools/watch.sh",
        '[diff "nb"]\n\ttextconv=sh tools/nb.sh',
        '[diff "nb"]\nCommand = tools/nb.sh',
        "[diff] external = tools/diff.sh",
        '[filter "x"]\nclean\t= tools/clean.sh',
        '[filter "x"]\nprocess = tools/filter.py',
        '[gpg "x"]\nprogram = tools/gpg',
        '[core]\nfsmonitor = "false" || tools/watch.sh',
    ],
)
def test_nor_is_what_names_a_program_that_the_agent_may_write(shop: Path, line: str) -> None:
    with (shop / ".git/config").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    assert git_setup(shop) != git_setup(shop)


def test_settings_that_run_nothing_hold(shop: Path) -> None:
    with (shop / ".git/config").open("a", encoding="utf-8") as file:
        file.write('[core]\nfsmonitor = "false"\n[diff]\nexternal=true\n[branch "clean"]\nremote = process\n')
    assert git_setup(shop) == git_setup(shop) != ""


async def test_a_question_says_that_nothing_is_remembered_of_git_that_runs_files_of_the_agent(shop: Path) -> None:
    _plants(".git", "config", text='[core]\nbare = false\n[diff "nb"]\ntextconv = sh tools/nb.sh\n')(shop)
    section = WorkspaceSection([HostMount(shop, git="copy")], [shop])
    asked: list[Question] = []

    def approve(question: Question) -> Decision:
        asked.append(question)
        return Decision.ALLOW_SESSION

    cli = FakeCLI(*[[tool_use("Bash", command="git diff")]] * 2, [text("Done.")], tools={"Bash": lambda _: "ran"})
    assert (await run("Go.", mode="normal", approve=approve, transport=cli, workspace=section)).ok
    assert len(asked) == 2
    assert asked[0].remembers.startswith("nothing, ")


def test_nor_is_a_link_whose_file_may_change_behind_it(shop: Path) -> None:
    _links_config(shop)
    assert git_setup(shop) != git_setup(shop)


async def _asked(shop: Path, commands: list[str], does: Callable[[Path], None]) -> list[Question]:
    asked: list[Question] = []
    section = WorkspaceSection([HostMount(shop)], [shop])

    def approve(question: Question) -> Decision:
        asked.append(question)
        return Decision.ALLOW_SESSION

    def bash(arguments: dict[str, Any]) -> str:
        if arguments["command"] == "make":
            does(section.temp_dir / "shop")
        return "ran"

    calls = [[tool_use("Bash", command=command)] for command in commands]
    cli = FakeCLI(*calls, [text("Done.")], tools={"Bash": bash})
    result = await run("Go.", mode="normal", approve=approve, transport=cli, workspace=section)
    assert result.ok
    return asked


@pytest.mark.parametrize("command", ["git status", "git diff", "git commit -m done"])
async def test_a_yes_is_asked_for_again_once_git_is_set_up_otherwise(shop: Path, command: str) -> None:
    evil = _plants(".git", "config", text="[core]\nattributesFile = evil\n")
    asked = await _asked(shop, [command, command, "make", command, command], evil)
    assert [question.input["command"] for question in asked] == [command, "make", command]
    assert asked[0].subject != asked[2].subject
    assert asked[0].remembers.endswith(", as long as git is set up as it is now")
    assert asked[1].remembers == "exactly this command"


async def test_a_yes_holds_while_the_agent_works(shop: Path) -> None:
    asked = await _asked(shop, ["git status", "make", "git status src"], _plants("app.py", text="new"))
    assert [question.input["command"] for question in asked] == ["git status", "make"]
