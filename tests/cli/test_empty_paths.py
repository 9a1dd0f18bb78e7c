"""An empty path, as an unset variable of the shell leaves it, is a usage error: it never means the current folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli._command import toolkit
from toolkit.workspace import HostMount, WorkspaceError, WorkspaceSection

COMMANDS = [
    ["run", "hi", "--mount", ""],
    ["run", "hi", "--mount", ".:"],
    ["run", "hi", "--mount", ":src"],
    ["run", "hi", "--mount", ":"],
    ["run", "hi", "--plan", "--mount", ""],
    ["run", "hi", "--in-place", ""],
    ["run", "hi", "--tools", ""],
    ["serve", ""],
    ["inspect", ""],
    ["run", "hi", "--mount", "src", "--allow-root", ""],
    ["doctor", "--mount", ""],
    ["workspace", "plan", "--mount", ""],
    ["workspace", "plan", "--mount", "src:"],
    ["workspace", "plan", "--mount", "src", "--mount", ""],
    ["workspace", "plan", "--mount", "src", "--root", ""],
    ["workspace", "plan", "--mount", "src", "--exclude", ""],
    ["workspace", "prepare", "--mount", ""],
    ["workspace", "prepare", "--mount", "src", "--parent", ""],
    ["workspace", "list", "--parent", ""],
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.txt").write_text("a\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_empty_path_is_a_usage_error(project: Path, words: list[str]) -> None:
    env = {"ANTHROPIC_API_KEY": "fake-key", "TOOLKIT_HOME": str(project / "home"), "TMPDIR": str(project)}
    before = sorted(project.iterdir())
    done = toolkit(*words, cwd=project, env=env)
    assert (done.code, done.out) == (2, "")
    assert "Traceback" not in done.err
    assert sorted(project.iterdir()) == before


def test_the_refusal_says_what_to_write(project: Path) -> None:
    for written, says in (
        ("", "the path is empty: write '.' for the current folder"),
        (":src", "':src' has no path before the colon: write '.' for the current folder"),
        (".:", "'.:' has nothing after the colon: write where it lands, or leave the colon away"),
    ):
        done = toolkit("workspace", "plan", "--mount", written, cwd=project)
        assert done.err.endswith(f"Error: Invalid value for '--mount': {says}\n")


def test_what_names_a_folder_is_mounted_also_with_a_colon_in_its_name(project: Path) -> None:
    (project / "odd:").mkdir()
    for written in (".", "src", "src:lib", "./src:.", "odd:"):
        assert toolkit("workspace", "plan", "--mount", written, cwd=project).code == 0


def test_an_empty_path_chooses_no_changes(project: Path) -> None:
    with WorkspaceSection(project / "src", project, parent=project, keep=True) as section:
        (section.temp_dir / "src/a.txt").write_text("b\n", encoding="utf-8")
    for command in ("diff", "apply"):
        done = toolkit("workspace", command, str(section.temp_dir), "--path", "", cwd=project)
        assert (done.code, done.out) == (2, "")
    with pytest.raises(WorkspaceError):
        section.apply(paths=[""])
    assert (project / "src/a.txt").read_text(encoding="utf-8") == "a\n"


def test_an_empty_host_path_is_no_mount() -> None:
    with pytest.raises(WorkspaceError):
        HostMount("")
    assert HostMount(".").landing == Path.cwd().name
