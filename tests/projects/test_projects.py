"""An agent runs a project's own tests, sees one fail, fixes it, sees it pass and commits; the host is as it was."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs
from tests.projects.made import git, node_project, python_project
from tests.sandbox.jails import needs_jail
from toolkit import Toolbox, WorkspacePath, tool
from toolkit.runs import RunResult, run
from toolkit.testing import ScriptedAPI, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

FIX_PYTHON = "sed -i 's/prices\\[1:\\]/prices/' src/shop/__init__.py"
FIX_NODE = "sed -i 's/.slice(1)//' index.js"
has_node = needs(shutil.which("node") is not None, "node is needed")


async def play(
    section: WorkspaceSection, home: Path, *commands: str, **options: Any
) -> tuple[RunResult[Any], list[str]]:
    """A run in which the model gives these commands; its result, and what each printed."""
    script = [[tool_use("Bash", command=command)] for command in commands]
    with ScriptedAPI(*script, [text("done")]) as api:
        work = run("Make the failing test pass.", workspace=section, home=home, api_url=api.url, api_key="k", **options)
        result = await asyncio.wait_for(work, 240)
        return result, [str(answer) for answer in api.tool_results()]


@needs_jail
@pytest.mark.parametrize(
    ("make", "tests", "fix", "passed"),
    [
        pytest.param(python_project, "pytest -q", FIX_PYTHON, "1 passed", id="python"),
        pytest.param(node_project, "npm test", FIX_NODE, "passed", id="node", marks=has_node),
    ],
)
async def test_a_failing_test_is_fixed_and_committed_and_the_host_is_untouched(
    tmp_path: Path, make: Callable[[Path], Path], tests: str, fix: str, passed: str
) -> None:
    project = make(tmp_path / "shop")
    before = git(project, "log", "--oneline"), git(project, "status", "--porcelain")
    section = WorkspaceSection([HostMount(project)], [project])
    look = "pwd; git status --porcelain; git log --oneline"
    result, said = await play(
        section, tmp_path / "home", look, tests, fix, tests, "git commit -qam fixed; git log --oneline"
    )

    assert result.code == "ok", result.debug
    assert said[0].splitlines() == [str(project), before[0].strip()]
    assert "1 failed" in said[1] or "is not 6" in said[1], said[1]
    assert passed in said[3], said[3]
    assert said[4].splitlines()[0].endswith(" fixed")
    assert (git(project, "log", "--oneline"), git(project, "status", "--porcelain")) == before

    assert result.changes is not None
    changed = [
        change.path for change in result.changes if "__pycache__" not in change.path and ".pytest" not in change.path
    ]
    assert len(changed) == 1
    section.apply(paths=changed)
    assert git(project, "diff", "--stat").count("|") == 1
    section.cleanup()


@needs_jail
async def test_what_the_agent_sees_is_the_project_and_nothing_else(tmp_path: Path) -> None:
    project = python_project(tmp_path / "shop")
    section = WorkspaceSection([HostMount(project)], [project])
    asked = [
        "ls -A | sort",
        "which python pytest git; echo $VIRTUAL_ENV; python -c 'import shop; print(shop.__file__)'",
        "touch ~/mine /tmp/mine $TMPDIR/mine && echo written; ls -A",
        "echo x > ~/.bashrc; ls -A $HOME; echo $HOME",
    ]
    _, said = await play(section, tmp_path / "home", *asked)
    there = sorted(entry.name for entry in project.iterdir())
    assert said[0].split() == there
    assert said[1].split() == [
        *(f"{project}/.venv/bin/{name}" for name in ("python", "pytest")),
        "/usr/bin/git",
        f"{project}/.venv",
        f"{project}/src/shop/__init__.py",
    ]
    assert said[2].split() == ["written", *there]
    assert "Read-only file system" in said[3]
    assert said[3].split()[-1] == "/home/agent"
    section.cleanup()


@needs_jail
async def test_nothing_lent_can_be_written_moved_or_replaced(tmp_path: Path) -> None:
    project = python_project(tmp_path / "shop")
    deep = project / "packages/web/node_modules/same"
    deep.mkdir(parents=True)
    (deep / "i.js").write_text("own\n")
    section = WorkspaceSection([HostMount(project, lend="packages/web/node_modules")], [project])
    tries = [
        "touch .venv/x; rm -rf .venv/bin; mv .venv away; ls -d .venv/bin/python",
        "mv packages away; mv packages/web packages/away; rm -rf packages; cat packages/web/node_modules/same/i.js",
        "umount .venv; mount --bind /tmp .venv; unshare -Urm umount .venv; ls -d .venv/bin/python",
        "rm -rf /run/toolkit/git/0/*; echo x > /run/toolkit/git/0/x; git fsck && echo sound",
        f"cat {project}/.git/config; cat /run/toolkit/git/0/../config; touch {project.parent}/beside; ls {project.parent}",
    ]
    before = git(project, "fsck"), sorted(path.name for path in (project / ".venv").rglob("*") if path.is_file())
    git(project, "config", "remote.origin.url", "https://name:secret-token@example.org/shop.git")
    result, said = await play(section, tmp_path / "home", *tries)

    assert said[0].splitlines()[-1] == ".venv/bin/python"
    assert said[1].splitlines()[-1] == "own"
    assert said[2].splitlines()[-1] == ".venv/bin/python"
    assert said[3].splitlines()[-1] == "sound"
    assert "secret-token" not in "".join(said)
    assert said[4].splitlines()[-1] == "shop"
    assert before == (git(project, "fsck"), sorted(p.name for p in (project / ".venv").rglob("*") if p.is_file()))
    assert (deep / "i.js").read_text() == "own\n"
    assert not (project.parent / "beside").exists()
    assert result.changes is not None
    assert [change.path for change in result.changes if ".venv" in change.path or "node_modules" in change.path] == []
    section.cleanup()


@needs_jail
async def test_two_mounts_of_one_repository_lie_as_on_the_host(tmp_path: Path) -> None:
    for name in ("api", "web"):
        (tmp_path / "mono" / name).mkdir(parents=True)
        (tmp_path / "mono" / name / "code.txt").write_text(name)
    mounts = [HostMount(tmp_path / "mono" / name) for name in ("api", "web")]
    section = WorkspaceSection(mounts, [tmp_path / "mono"])
    _, said = await play(
        section, tmp_path / "home", "pwd; cat api/code.txt ../mono/web/code.txt; echo more > web/new.txt"
    )
    assert said[0].splitlines() == [str(tmp_path / "mono"), "apiweb"]
    assert [change.path for change in section.changes()] == ["web/new.txt"]
    section.cleanup()


@needs_jail
async def test_another_place_and_no_tools_can_be_chosen(tmp_path: Path) -> None:
    project = python_project(tmp_path / "shop")
    section = WorkspaceSection([HostMount(project)], [project], at="/work")
    _, said = await play(section, tmp_path / "home", "pwd; which pytest; PYTHONPATH=src pytest -q; git status --short")
    assert said[0].splitlines()[:2] == ["/work", "/work/.venv/bin/pytest"]
    assert "1 failed" in said[0]
    section.cleanup()

    bare = WorkspaceSection([HostMount(project, exclude_glob=".venv/", git="none")], [project])
    _, said = await play(bare, tmp_path / "home", "ls -A; which pytest; git status", toolchain=False)
    assert said[0].split()[:6] == ["Exit", "code", "128", ".gitignore", "pyproject.toml", "src"]
    bare.cleanup()


@needs_jail
async def test_a_section_that_was_prepared_before_has_the_tools_lent_over_its_copies(tmp_path: Path) -> None:
    project = python_project(tmp_path / "shop")

    @tool
    def take(path: WorkspacePath) -> str:
        """Take a file."""
        return str(path)

    with WorkspaceSection([HostMount(project)], [project], parent=tmp_path) as section:
        assert (section.temp_dir / "shop/.venv/pyvenv.cfg").exists()
        (section.temp_dir / "shop/.venv/pyvenv.cfg").write_text("home = /evil\n")
        script = [
            [tool_use("Bash", command="which pytest; cat .venv/pyvenv.cfg; pytest -q")],
            [tool_use("mcp__mine__take", path=".venv/pyvenv.cfg")],
            [tool_use("mcp__mine__take", path=f"{project}/src/shop/__init__.py")],
        ]
        with ScriptedAPI(*script, [text("done")]) as api:
            work = run(
                "go",
                workspace=section,
                tools=[Toolbox("mine", [take])],
                home=tmp_path / "home",
                api_url=api.url,
                api_key="k",
            )
            result = await asyncio.wait_for(work, 240)
            answers = [str(answer) for answer in api.tool_results()]
        assert result.code == "ok", result.debug
        assert f"{project}/.venv/bin/pytest" in answers[0]
        assert "/evil" not in answers[0]
        assert "1 failed" in answers[0]
        assert "shown from the host" in answers[1]
        assert answers[2] == f"{project}/src/shop/__init__.py"
        assert not any(".venv" in change.path for change in section.changes())
