"""What an attacker plants is marked, shown and held back; what only looks odd is left alone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.docs_marks import FILE, page
from tests.workspace.copies import make_tree, prepare
from toolkit._base.words import hidden_in, safe_line, safe_name, safe_text
from toolkit.workspace import WorkspaceSection

BOMB = '[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tfsmonitor = "touch %s; false"\n'


@pytest.fixture
def ws(tmp_path: Path) -> WorkspaceSection:
    files: dict[str | bytes, bytes | str] = {
        "readme.md": b"#\n",
        "package.json": b'{"name": "x", "scripts": {"test": "jest"}}',
        "pyproject.toml": b'[project]\nname = "x"\n[build-system]\nrequires = ["hatchling"]\n',
        "shop/__init__.py": b"",
        "sub/x": b"x",
        "odd.py": "x = '\u200b'\n".encode(),
    }
    return prepare(make_tree(tmp_path / "host", files))


def marks(ws: WorkspaceSection) -> dict[str, tuple[str, ...]]:
    return {change.path.removeprefix("src/"): change.suspicious for change in ws.changes() if change.suspicious}


def plant(ws: WorkspaceSection, fired: Path) -> None:
    files: dict[str | bytes, bytes | str] = {
        "docs/data/HEAD": b"ref: refs/heads/main\n",
        "docs/data/config": (BOMB % fired).encode(),
        "docs/data/objects/keep": b"",
        "docs/data/refs/keep": b"",
        "docs/data/info.txt": b"data\n",
        "docs/page.md": b"page\n",
    }
    make_tree(ws.temp_dir / "src", files)


def test_git_really_runs_what_such_a_folder_says(ws: WorkspaceSection, tmp_path: Path) -> None:
    fired = tmp_path / "fired"
    plant(ws, fired)
    folder = ws.temp_dir / "src/docs/data"
    subprocess.run(
        ["git", "--work-tree=.", "status"], cwd=folder, capture_output=True, check=False, env={"PATH": "/usr/bin:/bin"}
    )
    assert fired.exists()


def test_a_repository_as_plain_files_is_marked_by_what_is_in_it(ws: WorkspaceSection, tmp_path: Path) -> None:
    plant(ws, tmp_path / "fired")
    found = {change.path: change for change in ws.changes()}
    planted = [path for path, change in found.items() if change.planted == "src/docs/data"]
    assert "src/docs/data/config" in planted
    assert "src/docs/data/info.txt" in planted
    assert "git takes for a repository" in found["src/docs/data/config"].suspicious[0]
    assert found["src/docs/page.md"].suspicious == ()
    assert found["src/docs/data/config"].to_json()["planted"] == "src/docs/data"


def test_such_a_folder_is_applied_only_by_its_name(ws: WorkspaceSection, tmp_path: Path) -> None:
    plant(ws, tmp_path / "fired")
    assert b"fsmonitor" not in ws.changes().patch()
    applied = ws.apply()
    assert not (tmp_path / "host/docs/data/config").exists()
    assert (tmp_path / "host/docs/page.md").exists()
    assert "src/docs/data/config" in dict(applied.left)
    ws.apply(paths=["src/docs"])
    assert not (tmp_path / "host/docs/data/config").exists()
    ws.apply(paths=["docs/data"])
    assert (tmp_path / "host/docs/data/config").exists()


def test_one_more_file_can_make_a_repository_of_what_was_there(tmp_path: Path) -> None:
    files: dict[str | bytes, bytes | str] = {"fix/objects/a": b"", "fix/refs/a": b"", "fix/config": b""}
    ws = prepare(make_tree(tmp_path / "host", files))
    make_tree(ws.temp_dir / "src", {"fix/head": b"ref: refs/heads/main\n"})
    assert ws.changes()[0].planted == "src/fix"


def test_a_folder_that_says_its_rest_lies_elsewhere_is_one_too(ws: WorkspaceSection) -> None:
    make_tree(ws.temp_dir / "src", {"a/HEAD": b"x", "a/commondir": b"../b\n"})
    assert marks(ws)["a/commondir"]


@pytest.mark.parametrize(
    "char",
    [
        "\u202e",
        "\u2066",
        "\u200b",
        "\u2060",
        "\U000e0041",
        "\ufe01",
        "\U000e0101",
        "\u115f",
        "\u3164",
        "\uffa0",
        "\u2800",
    ],
)
def test_characters_nobody_sees_are_marked_in_added_lines_and_names_and_escaped(
    ws: WorkspaceSection, char: str
) -> None:
    files: dict[str | bytes, bytes | str] = {
        "code.py": f"a = 1\nif admin{char}: pass\n".encode(),
        f"na{char}me": b"x",
    }
    make_tree(ws.temp_dir / "src", files)
    found = marks(ws)
    assert f"U+{ord(char):04X} in line 2" in found["code.py"][0]
    assert "invisible characters in the name" in found[f"na{char}me"]
    assert char not in ws.changes().summary()
    for written in (safe_text, safe_name, lambda text: safe_line(text, 200)):
        assert char not in written(f"a{char}b")
    patch = ws.changes().patch()
    head = patch[: patch.index(b"diff --git")]
    assert f"U+{ord(char):04X}".encode() in head
    assert char.encode() not in head


def test_lines_that_were_there_and_emoji_are_not_marked(ws: WorkspaceSection) -> None:
    (ws.temp_dir / "src/odd.py").write_text("x = '\u200b'\ny = 1\n")
    make_tree(ws.temp_dir / "src", {"note.md": "\ufeff# ok \u2764\ufe0f \U0001f469\u200d\U0001f4bb 1\ufe0f\n".encode()})
    assert marks(ws) == {}
    assert hidden_in("a\ufe0f") == [(1, "\ufe0f")]


OBEYED = """
    .codex/config.toml .agents/a.md .gemini/settings.json .opencode/x GEMINI.md AGENTS.md .cursorrules .clinerules
    .windsurfrules .gitconfig .gitattributes .bashrc .profile .envrc .ripgreprc .roo/x .kiro/x .zed/tasks.json
    .idea/x.xml .yarnrc.yml .pnpmfile.cjs .npmrc .cargo/config.toml .tool-versions .mise.toml
    .pre-commit-config.yaml conftest.py sitecustomize.py sub/evil.pth sub/.ROO/x
"""


@pytest.mark.parametrize("path", OBEYED.split())
def test_every_file_that_other_programs_obey_has_a_reason(ws: WorkspaceSection, path: str) -> None:
    make_tree(ws.temp_dir / "src", {path: b"x\n"})
    assert marks(ws)[path]


@pytest.mark.parametrize(
    "path", [".github/workflows/ci.yml", ".gitlab-ci.yml", "Jenkinsfile", "Makefile", "a/makefile"]
)
def test_a_change_to_the_projects_own_ci_runs_elsewhere(ws: WorkspaceSection, path: str) -> None:
    make_tree(ws.temp_dir / "src", {path: b"x\n"})
    assert any(mark.startswith("runs elsewhere") for mark in marks(ws)[path])


@pytest.mark.parametrize(
    ("path", "text", "is_marked"),
    [
        ("package.json", '{"name": "y", "scripts": {"test": "jest"}}', False),
        ("package.json", '{"name": "x", "scripts": {"test": "jest", "postinstall": "sh x"}}', True),
        ("package.json", "{", True),
        ("sub/package.json", '{"name": "z"}', False),
        ("pyproject.toml", '[project]\nname = "y"\n[build-system]\nrequires = ["hatchling"]\n', False),
        ("pyproject.toml", '[project]\nname = "x"\n[build-system]\nrequires = ["evil"]\n', True),
        (
            "pyproject.toml",
            '[project]\nname = "x"\n[build-system]\nrequires = ["hatchling"]\n[tool.hatch.build.hooks.custom]\n',
            True,
        ),
        ("pyproject.toml", "[", True),
    ],
)
def test_a_file_of_which_a_part_runs_is_marked_when_that_part_changed(
    ws: WorkspaceSection, path: str, text: str, is_marked: bool
) -> None:
    make_tree(ws.temp_dir / "src", {path: text.encode()})
    assert any("runs elsewhere" in mark for mark in marks(ws).get(path, ())) is is_marked


@pytest.mark.parametrize(
    ("table", "is_marked"), [("[tool.toolkit]\nmodel = 'x'\n", True), ("[tool.other]\nx = 1\n", False)]
)
def test_a_pyproject_is_marked_when_what_it_says_of_runs_changed(
    ws: WorkspaceSection, table: str, is_marked: bool
) -> None:
    same = '[project]\nname = "x"\n[build-system]\nrequires = ["hatchling"]\n'
    make_tree(ws.temp_dir / "src", {"pyproject.toml": (same + table).encode()})
    assert any("obeyed by toolkit run" in mark for mark in marks(ws).get("pyproject.toml", ())) is is_marked


@pytest.mark.parametrize(
    ("path", "is_marked"),
    [
        ("random.py", True),
        ("json/__init__.py", True),
        ("sub/ssl.cpython-311-x86_64-linux-gnu.so", True),
        ("shop/types.py", False),
        ("prices.py", False),
        ("random.md", False),
        ("test.py", False),
    ],
)
def test_a_new_file_before_a_module_of_the_standard_library_is_marked(
    ws: WorkspaceSection, path: str, is_marked: bool
) -> None:
    make_tree(ws.temp_dir / "src", {path: b"x = 1\n"})
    assert any("instead of its own module" in mark for mark in marks(ws).get(path, ())) is is_marked


def test_the_table_in_the_docs_is_the_one_that_is_used() -> None:
    written = FILE.read_text(encoding="utf-8")
    assert written == page(written), "write it anew: python -m tests.docs_marks"


def test_a_hostile_package_json_takes_no_time(ws: WorkspaceSection) -> None:
    make_tree(ws.temp_dir / "src", {"package.json": b"[" * 200_000})
    assert marks(ws)["package.json"] == ("runs elsewhere: it cannot be read",)
    assert json.dumps(ws.changes().to_json())
