# ruff: noqa: PTH208
"""`toolkit workspace plan|prepare|list|clean`: what they print, how they end, what they never remove."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from toolkit.cli import toolkit
from toolkit.errors import WorkspaceError
from toolkit.workspace import HostMount, WorkspaceBudgetError, WorkspaceSection
from toolkit_workspace.workspace import Workspace


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with src/ and a folder for workspaces."""
    (tmp_path / "src/lib").mkdir(parents=True)
    (tmp_path / "src/a.py").write_text("a = 1\n", encoding="utf-8")
    (tmp_path / "src/lib/b.pyc").write_bytes(b"x" * 2_000)
    (tmp_path / "src/.gitignore").write_text("*.log\n", encoding="utf-8")
    (tmp_path / "src/x.log").write_text("log", encoding="utf-8")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(toolkit, ["workspace", *arguments])


def test_plan_prints_a_tree_and_makes_nothing(host: Path) -> None:
    result = run("plan", "--mount", "src", "--exclude", "*.pyc", "--gitignore")
    assert result.exit_code == 0
    assert result.stdout == (
        "src  2 files, 12 B  from src\n"
        "  lib/  0 files, 0 B\n"
        "  .gitignore  6 B\n"
        "  a.py  6 B\n"
        "  left out or remarked:\n"
        '    1 excluded by "exclude_glob *.pyc": lib/b.pyc\n'
        '    1 ignored by ".gitignore:1 *.log": x.log\n'
    )
    assert sorted(os.listdir(host)) == ["src", "work"]


def test_plan_as_json_and_over_budget(host: Path) -> None:
    result = run("plan", "--mount", "src:code/src", "--max-bytes", "1kB", "--json")
    assert result.exit_code == 1
    mount = json.loads(result.stdout)["mounts"][0]
    assert (mount["mount_path"], mount["files"], mount["needed_bytes"], mount["max_bytes"]) == (
        "code/src",
        4,
        2015,
        1000,
    )
    assert mount["largest"][0] == {"path": "lib/b.pyc", "bytes": 2000}


@pytest.mark.parametrize(("text", "size"), [("2000", 2000), ("2_015", 2015), ("1.5kB", 1500), ("3 MB", 3_000_000)])
def test_a_budget_can_be_written_with_a_unit(host: Path, text: str, size: int) -> None:
    result = run("plan", "--mount", "src", "--max-bytes", text, "--json")
    assert json.loads(result.stdout)["mounts"][0]["max_bytes"] == size


def test_a_mistyped_budget_is_a_mistyped_command(host: Path) -> None:
    assert run("plan", "--mount", "src", "--max-bytes", "5Q").exit_code == 2


def test_a_mount_outside_the_current_folder_needs_a_root(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(host / "work")
    assert run("plan", "--mount", "../src").exit_code == 2
    assert run("plan", "--mount", "../src", "--root", "..").exit_code == 0


def test_prepare_prints_the_folder_and_leaves_it(host: Path) -> None:
    result = run("prepare", "--mount", "src", "--parent", "work")
    temp_dir = Path(result.stdout.strip())
    assert (temp_dir / "src/a.py").is_file()
    listed = json.loads(run("list", "--parent", "work", "--json").stdout)
    assert [(one["path"], one["status"], one["mounts"]) for one in listed] == [(str(temp_dir), "kept", ["src"])]
    assert run("clean", "--parent", "work").stdout == ""
    assert temp_dir.is_dir()
    assert run("clean", "--parent", "work", "--kept").stdout == f"removed {temp_dir}\n"
    assert os.listdir(host / "work") == []


def test_prepare_over_budget_leaves_nothing(host: Path) -> None:
    result = run("prepare", "--mount", "src", "--parent", "work", "--max-bytes", "1kB")
    assert isinstance(result.exception, WorkspaceBudgetError)
    assert os.listdir(host / "work") == []


@contextmanager
def _another_process(work: Callable[[], None]) -> Iterator[int]:
    """A process that has done `work` and lives on until it is killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        work()
        os.write(writing, b"ready")
        signal.pause()
    assert os.read(reading, 5) == b"ready"
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_a_left_over_of_a_killed_process_is_cleaned_and_never_one_in_use(host: Path) -> None:
    section = WorkspaceSection([HostMount("src")], ["."], parent="work", keep_bases=False)

    def prepare() -> None:
        section.prepare()

    with _another_process(prepare) as pid:
        listed = json.loads(run("list", "--parent", "work", "--json").stdout)
        assert [(one["status"], one["pid"]) for one in listed] == [("in use", pid)]
        assert run("clean", "--parent", "work", "--kept").stdout == ""
        assert len(os.listdir("work")) == 2
    assert [one["status"] for one in json.loads(run("list", "--parent", "work", "--json").stdout)] == ["left over"]
    with WorkspaceSection([HostMount("src")], ["."], parent="work") as mine:
        assert run("clean", "--parent", "work").stdout == f"removed {listed[0]['path']}\n"
        assert (mine.temp_dir / "src/a.py").is_file()
    assert os.listdir("work") == []


@pytest.mark.usefixtures("host")
def test_a_kept_workspace_stays_kept_when_whoever_works_with_it_is_killed() -> None:
    with WorkspaceSection([HostMount("src")], ["."], parent="work", keep=True) as section:
        (section.temp_dir / "src/agent.py").write_text("work\n", encoding="utf-8")

    def show() -> None:
        WorkspaceSection.open(section.temp_dir).show_inside()

    with _another_process(show):
        assert [one["status"] for one in json.loads(run("list", "--parent", "work", "--json").stdout)] == ["in use"]
    assert [one["status"] for one in json.loads(run("list", "--parent", "work", "--json").stdout)] == ["kept"]
    assert run("clean", "--parent", "work").stdout == ""
    assert (section.temp_dir / "src/agent.py").is_file()


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.usefixtures("host")
def test_why_a_block_failed_is_told_before_that_its_workspace_is_in_trouble_too(
    keep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    section = WorkspaceSection([HostMount("src")], ["."], parent="work", keep=keep).prepare()
    monkeypatch.setattr(Workspace, "write_facts", fail)
    monkeypatch.setattr(Workspace, "remove", fail)
    with pytest.raises(WorkspaceError) as caught, section:
        raise WorkspaceError("the changes cannot be written", where=["here"], fix="Make room.")
    assert caught.value.what == "the changes cannot be written"
    assert caught.value.where[0] == "here"
    assert "No space left" in caught.value.where[1]


@pytest.mark.usefixtures("host")
def test_what_cannot_be_written_down_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    section = WorkspaceSection([HostMount("src")], ["."], parent="work").prepare()
    monkeypatch.setattr(Workspace, "write_facts", fail)
    for act in (section.show_inside, lambda: section.show_over({"src/lib": Path("work")})):
        with pytest.raises(WorkspaceError) as caught:
            act()
        assert caught.value.where[-1].endswith("are free")
    section.cleanup()


def test_clean_follows_no_link_and_takes_nothing_that_is_not_ours(host: Path) -> None:
    (host / "work/toolkit-workspace-mine").mkdir()
    (host / "work/notes").mkdir()
    (host / "work/.toolkit-workspace-link.state").symlink_to(host / "src")
    (host / "work/.toolkit-workspace-file.state").write_text("{}", encoding="utf-8")
    before = sorted(os.listdir("work"))
    assert run("clean", "--parent", "work", "--kept").exit_code == 0
    assert sorted(os.listdir("work")) == before
    assert (host / "src/a.py").is_file()


def test_a_state_nobody_can_read_belongs_to_nobody_alive(host: Path) -> None:
    state = host / "work/.toolkit-workspace-odd.state"
    state.mkdir()
    (state / "owner.json").write_text('{"pid": "x", "mounts": [1]}', encoding="utf-8")
    (host / "work/toolkit-workspace-odd").mkdir()
    assert run("clean", "--parent", "work").stdout == f"removed {host / 'work' / 'toolkit-workspace-odd'}\n"
    assert os.listdir("work") == []
