"""Changes a reviewer should look at twice are marked, and only those."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.workspace.copies import make_tree, prepare
from toolkit.workspace import WorkspaceSection


@pytest.fixture
def ws(tmp_path: Path) -> WorkspaceSection:
    (tmp_path / "secret").write_text("outside")
    files: dict[str | bytes, bytes | str] = {"readme.md": b"#\n", "tool.sh": b"#!/bin/sh\n", "sub/x": b"x"}
    return prepare(make_tree(tmp_path / "host", files))


def marks(ws: WorkspaceSection) -> dict[str, tuple[str, ...]]:
    return {change.path.removeprefix("src/"): change.suspicious for change in ws.changes() if change.suspicious}


@pytest.mark.parametrize(
    ("path", "mark"),
    [
        (".claude/settings.json", "settings and commands of an agent"),
        ("sub/.claude/agents/helper.md", "settings and commands of an agent"),
        (".mcp.json", "starts programs for an agent"),
        ("CLAUDE.md", "instructions to an agent"),
        ("claude.MD", "instructions to an agent"),
        (".git/hooks/pre-commit", "a git hook"),
        (".git/config", "git settings, which can run programs"),
        ("sub/.git/config", "git settings, which can run programs"),
        (".gitattributes", "changes how git reads files"),
        (".vscode/tasks.json", "obeyed by an editor"),
        (".envrc", "run when a shell enters the folder"),
        ("evil.pth", "run whenever Python starts"),
        ("toolkit.toml", "obeyed by toolkit run"),
        ("sub/toolkit.toml", "obeyed by toolkit run"),
    ],
)
def test_files_other_programs_obey_are_marked(ws: WorkspaceSection, path: str, mark: str) -> None:
    make_tree(ws.temp_dir / "src", {path: b"x\n"})
    assert mark in marks(ws)[path]


def test_what_can_run_is_marked_when_it_is_new(ws: WorkspaceSection) -> None:
    (ws.temp_dir / "src/tool.sh").chmod(0o755)
    make_tree(ws.temp_dir / "src", {"new": b"x"})
    (ws.temp_dir / "src/new").chmod(0o4755)
    assert marks(ws) == {"new": ("executable", "runs with its owner's rights"), "tool.sh": ("executable",)}


@pytest.mark.parametrize(
    ("target", "is_marked"),
    [
        ("/etc/passwd", True),
        ("../../secret", True),
        ("sub/../../outside", True),
        ("hop/../../x", False),
        ("hop/../../../x", True),
        ("readme.md", False),
        ("sub/nothing-there", False),
        ("../src/readme.md", True),
        ("n" * 300, False),
        ("n" * 300 + "/../../x", True),
    ],
)
def test_a_link_is_marked_when_it_leads_out_by_any_way(ws: WorkspaceSection, target: str, is_marked: bool) -> None:
    make_tree(ws.temp_dir / "src", {"deep/er/": b"", "hop": "deep/er", "link": target})
    assert ("link leads out of its mount" in marks(ws).get("link", ())) is is_marked


@pytest.mark.parametrize(
    ("below", "is_marked"),
    [
        ("/readme.md", False),
        ("", False),
        ("/sub/./nothing-there", False),
        ("/hop/er2", False),
        ("/../secret", True),
        ("/sub/../../secret", True),
        ("/out/passwd", True),
        ("/again/readme.md", False),
        ("-elsewhere/readme.md", True),
    ],
)
def test_an_absolute_link_into_the_projects_own_host_folder_stays_inside(
    ws: WorkspaceSection, below: str, is_marked: bool
) -> None:
    host = str(Path(ws.mounts[0].host_path).resolve())
    files: dict[str | bytes, bytes | str] = {"deep/er2": b"", "hop": "deep", "out": "/etc", "again": host}
    make_tree(ws.temp_dir / "src", {**files, "link": host + below})
    found = marks(ws)
    assert ("link leads out of its mount" in found.get("link", ())) is is_marked
    assert "link leads out of its mount" in found["out"]
    assert "link leads out of its mount" not in found.get("again", ())


def test_names_made_to_be_misread_are_marked(ws: WorkspaceSection) -> None:
    make_tree(
        ws.temp_dir / "src",
        {
            "README.md": b"x",
            b"\xff": b"x",
            "new\nline": b"x",
            "inv\u200bisible": b"x",
            "space ": b"x",
            "plain.txt": b"x",
        },
    )
    assert set(marks(ws)) == {"README.md", os.fsdecode(b"\xff"), "new\nline", "inv\u200bisible", "space "}
    assert marks(ws)["README.md"] == ("another name here differs only in case",)


def test_special_files_are_marked_and_never_opened(ws: WorkspaceSection) -> None:
    os.mkfifo(ws.temp_dir / "src/pipe")
    (change,) = ws.changes()
    assert (change.type, bool(change.suspicious)) == ("special", True)
    assert ws.changes().patch() == b""


def test_deleting_and_plain_edits_are_not_suspicious(ws: WorkspaceSection) -> None:
    (ws.temp_dir / "src/tool.sh").unlink()
    (ws.temp_dir / "src/readme.md").write_text("changed\n")
    make_tree(ws.temp_dir / "src", {"sub/new.py": b"print()\n"})
    assert marks(ws) == {}


def test_a_summary_shows_marks_and_hides_no_row_that_has_one(ws: WorkspaceSection) -> None:
    make_tree(ws.temp_dir / "src", {f"many/{n}.txt": b"x\n" for n in range(60)})
    make_tree(ws.temp_dir / "src", {"zz/.mcp.json": b"{}\n"})
    summary = ws.changes().summary(max_rows=5)
    assert "src/zz/.mcp.json" in summary
    assert "… and 56 more" in summary
    assert "1 to look at twice (!)" in summary


def test_a_hostile_name_cannot_break_the_table(ws: WorkspaceSection) -> None:
    make_tree(ws.temp_dir / "src", {"\x1b[2J\nA  fine.txt": b"x\n"})
    summary = ws.changes().summary()
    assert "\x1b" not in summary
    assert len(summary.splitlines()) == 2


def test_git_settings_of_the_tree_are_never_obeyed(ws: WorkspaceSection, tmp_path: Path) -> None:
    trap = tmp_path / "executed"
    config = f"[core]\n\tfsmonitor = touch {trap}\n\thooksPath = {tmp_path}\n"
    make_tree(ws.temp_dir / "src", {".git/config": config.encode(), ".git/HEAD": b"ref: refs/heads/main\n"})
    changes = ws.changes()
    assert changes.patch() == b""
    assert changes.summary()
    assert not trap.exists()
