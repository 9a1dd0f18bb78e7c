"""`toolkit init` writes a project file that fits the project, and what it writes is obeyed without a question."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli._command import TOOLKIT, Done
from tests.cli._running import Desk
from tests.escape.users import as_plain_user, can_become_plain
from tests.needs import needs
from tests.projects.made import node_project, python_project
from toolkit import ProjectFile
from toolkit.testing import ScriptedAPI, text, tool_use

Start = Callable[..., ScriptedAPI]
needs_node = pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm")


def desk_at(folder: Path, api: ScriptedAPI | None = None) -> Desk:
    """A user in the project itself, whose stored runs are elsewhere."""
    own = folder.parent / "desk"
    own.mkdir()
    desk = Desk(own, api)
    desk.folder = folder
    return desk


def made(desk: Desk, *words: str) -> tuple[Done, str]:
    done = desk.toolkit("init", *words)
    assert done.code == 0, done.err
    return done, (desk.folder / "toolkit.toml").read_text(encoding="utf-8")


def test_a_python_project_with_a_virtual_environment(tmp_path: Path, scripted_api: Start) -> None:
    api = scripted_api([tool_use("Bash", command="pytest -q; ls -A")], otherwise=[text("Done.")])
    top = python_project(tmp_path / "shop")
    (top / "uv.lock").write_text("", encoding="utf-8")
    (top / ".env").write_text("TOKEN=x\n", encoding="utf-8")
    (top / ".pytest_cache").mkdir()
    desk = desk_at(top, api)
    done, written = made(desk)
    assert done.out == written
    assert 'mounts = ["."]' in written
    assert 'exclude_glob = [".pytest_cache"]' in written
    assert "leave_out_secrets = true" in written
    assert '[verify]\ncommand = "pytest"\nattempts = 3\n' in written
    assert "[setup]" not in written  # all is there
    assert "found  Python: tests by pytest; packages pinned by uv.lock\n" in done.err
    assert "found  1 file may hold credentials: .env\n" in done.err
    assert "pip install" not in done.err  # they are there
    assert 'toolkit run "' in done.err

    ran = desk.toolkit("run", "Run the tests.")
    assert (ran.code, desk.last().result().code) == (1, "unverified"), ran.err
    assert ran.err.startswith("obeys toolkit.toml\n")
    said = api.requests[1]
    assert all(said.contains(words) for words in ("1 failed", "toolkit.toml"))
    facts = desk.last().facts
    assert facts["limits"] == {"seconds": 1800, "usd": 5}
    assert not (Path(facts["workspace"]) / "shop" / ".env").exists()


@needs_node
def test_a_node_project(tmp_path: Path, scripted_api: Start) -> None:
    api = scripted_api([tool_use("Bash", command="npm test")], otherwise=[text("Done.")])
    top = node_project(tmp_path / "shop")
    (top / "package-lock.json").write_text("{}", encoding="utf-8")
    desk = desk_at(top, api)
    done, written = made(desk)
    assert "npm test" in written
    assert "node_modules (node packages)" in written
    assert "found  Node: tests by npm test; packages pinned by package-lock.json\n" in done.err
    assert "leave_out_secrets" not in written
    ran = desk.toolkit("run", "Run the tests.")
    assert "attempt 1: not verified" in ran.err
    assert api.requests[1].contains("5 is not 6")


def test_a_project_in_both(tmp_path: Path) -> None:
    top = node_project(tmp_path / "shop")
    shutil.rmtree(top / "node_modules")
    (top / "package.json").write_text('{"scripts": {"test": "x"}, "dependencies": {"same": "1"}}', encoding="utf-8")
    (top / "yarn.lock").write_text("", encoding="utf-8")
    (top / "requirements.txt").write_text("pytest\n", encoding="utf-8")
    desk = desk_at(top)
    done, written = made(desk)
    assert json.loads(desk.toolkit("init", "--dry-run", "--json").out)["test"] == "pytest && npm test"
    install = "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt && yarn install --frozen-lockfile"
    assert f'# [setup]\n# command = "{install}"\n# domains = [' in written
    assert tomllib.loads(written)["verify"]["command"] == "pytest && npm test"
    (top / "toolkit.toml").write_text(written.replace("# [setup]\n# ", "[setup]\n"), encoding="utf-8")
    assert ProjectFile.read(top / "toolkit.toml").said("setup").command == install
    steps = done.err.partition("Next:\n")[2]
    assert "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt" in steps
    assert "yarn install --frozen-lockfile" in steps
    assert "export ANTHROPIC_API_KEY=" in steps


@pytest.mark.parametrize(
    ("files", "test"),
    [
        ({}, None),
        ({"readme.md": "Words."}, None),
        ({"a.py": "x = 1\n"}, None),
        ({"test_a.py": "def test_x(): ...\n"}, "pytest"),
        ({"tests/test_a.py": "import unittest\n", "setup.py": ""}, "python -m unittest"),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, "pytest"),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, None),
        ({"package.json": "["}, None),
        ({"package.json": '{"scripts": 3}'}, None),
        ({"Makefile": "all:\n\techo\ntest: all\n\techo\n"}, "make test"),
        ({"Makefile": "test := 3\n"}, None),
        ({"go.mod": "module x\n", "Makefile": "test:\n"}, "go test ./..."),
        ({"Cargo.toml": "[package]\n"}, "cargo test --offline"),
    ],
)
def test_how_a_project_is_tested_is_told_by_its_files(files: dict[str, str], test: str | None, tmp_path: Path) -> None:
    top = tmp_path / "shop"
    top.mkdir()
    for name, words in files.items():
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text(words, encoding="utf-8")
    has_language = any(name.endswith((".py", ".json")) for name in files)
    desk = desk_at(top)
    done, _ = made(desk)
    assert json.loads(desk.toolkit("init", "--dry-run", "--json").out)["test"] == test
    assert ("no language that was recognised" in done.err) == (test is None and not has_language)
    assert desk.toolkit("run", "--plan").code == 0


def test_nothing_is_overwritten_unless_asked_and_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    top = tmp_path / "shop"
    top.mkdir()
    desk = desk_at(top)
    assert desk.toolkit("init", "--dry-run").code == 0
    assert list(top.iterdir()) == []
    assert not desk.home.exists()
    (top / "toolkit.toml").write_text("# mine\n", encoding="utf-8")
    refused = desk.toolkit("init")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "there is a toolkit.toml already\n  To write it anew: toolkit init --force\n"
    assert (top / "toolkit.toml").read_text(encoding="utf-8") == "# mine\n"
    _, written = made(desk, "--force")
    assert "mounts" in written


def test_a_link_is_replaced_and_never_written_through(tmp_path: Path) -> None:
    top, elsewhere = tmp_path / "shop", tmp_path / "elsewhere"
    top.mkdir()
    elsewhere.write_text("mine", encoding="utf-8")
    (top / "toolkit.toml").symlink_to(elsewhere)
    desk = desk_at(top)
    assert desk.toolkit("init").code == 2
    made(desk, "--force")
    assert not (top / "toolkit.toml").is_symlink()
    assert elsewhere.read_text(encoding="utf-8") == "mine"
    assert stat.S_IMODE((top / "toolkit.toml").stat().st_mode) & 0o022 == 0


def test_a_table_in_pyproject_is_enough(tmp_path: Path) -> None:
    top = tmp_path / "shop"
    top.mkdir()
    (top / "pyproject.toml").write_text("[tool.toolkit]\nmodel = 'x'\n", encoding="utf-8")
    done = desk_at(top).toolkit("init", "--force")
    assert (done.code, "already" in done.err, (top / "toolkit.toml").exists()) == (2, True, False)


def test_names_that_were_made_to_mislead_stay_in_their_comment(tmp_path: Path) -> None:
    top = tmp_path / "shop"
    top.mkdir()
    for name in ('.env.x\ndomains = ["evil.example"]', ".env.\u202eexe", ".env.\x1b[2J"):
        (top / name).write_text("", encoding="utf-8")
    os.mkfifo(top / "package.json")
    (top / "pyproject.toml").symlink_to("/dev/zero")
    desk = desk_at(top)
    done, written = made(desk)
    file = ProjectFile.read(top / "toolkit.toml", home=desk.home)
    assert (file.trust, file.said("domains")) == ("accepted", None)
    assert not any(char in written + done.err + done.out for char in "\u202e\x1b")


def test_a_change_afterwards_is_asked_about(tmp_path: Path) -> None:
    top = tmp_path / "shop"
    top.mkdir()
    desk = desk_at(top)
    made(desk)
    with (top / "toolkit.toml").open("a", encoding="utf-8") as file:
        file.write('memory_bytes = "2GB"\n')
    done = desk.toolkit("run", "--plan")
    assert (done.code, '+memory_bytes = "2GB"' in done.err) == (2, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@needs(can_become_plain(), "setpriv and unshare are needed")
def test_a_plain_user_makes_a_file_and_obeys_it(anyones_folder: Path) -> None:
    home = anyones_folder / "home"
    home.mkdir()

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = as_plain_user([str(TOOLKIT), *words], home)
        env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        return subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, timeout=60, check=False)

    assert run("init").returncode == 0
    planned = run("run", "--plan")
    assert (planned.returncode, planned.stderr) == (0, "obeys toolkit.toml\n")
    home.chmod(0o555)
    refused = run("init", "--force")
    says = f"toolkit.toml cannot be written: Permission denied\n  {home}/toolkit.toml\n"
    assert (refused.returncode, refused.stderr) == (2, says)
