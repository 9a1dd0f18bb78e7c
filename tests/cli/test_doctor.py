"""`toolkit doctor`: what would stop a run, with the fix beside it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.cli._command import toolkit
from tests.cli._running import Desk, project
from tests.readme.people import is_here, person
from toolkit.doctor import examine
from toolkit.sandbox import CREDENTIALS


def test_what_stops_a_run_is_told_with_its_fix_and_exit_code_1(tmp_path: Path) -> None:
    done = toolkit("doctor", cwd=tmp_path, env={"TOOLKIT_HOME": str(tmp_path / "home")})
    assert done.code == 1
    missing = "ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, CLAUDE_CODE_OAUTH_TOKEN and ANTHROPIC_BASE_URL"
    assert f"stops model API           none of {missing} is set\n" in done.out
    assert "→ Set ANTHROPIC_API_KEY; without one: toolkit demo\n" in done.out
    assert "ok    stored runs         <here>/home/runs, 0 runs\n" in done.out


def test_the_findings_as_json_have_the_facts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = {"TOOLKIT_HOME": str(tmp_path / "file" / "home"), "ANTHROPIC_API_KEY": "not-a-key"}
    done = toolkit("doctor", "--json", cwd=tmp_path, env=env)
    findings = {finding["name"]: finding for finding in json.loads(done.out)}
    assert (findings["model API"]["ok"], findings["python"]["ok"]) == (True, True)
    assert (findings["stored runs"]["ok"], findings["stored runs"]["stops"]) == (False, True)
    assert findings["stored runs"]["fix"] == "Set TOOLKIT_HOME to a folder of yours"
    assert done.code == 1


@pytest.mark.parametrize(("version", "ok"), [("0.11.9", False), ("0.12.0", True), ("?", False)])
def test_a_bubblewrap_without_the_fix_is_named_and_stops_nothing(tmp_path: Path, version: str, ok: bool) -> None:
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    real = shutil.which("bwrap") or "/usr/bin/bwrap"
    fake.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap {version} || exec {real} "$@"\n', encoding="ascii"
    )
    fake.chmod(0o755)
    path = f"{fake.parent}:{os.environ['PATH']}"

    done = toolkit("doctor", "--json", cwd=tmp_path, env={"TOOLKIT_HOME": str(tmp_path / "home"), "PATH": path})

    found = next(finding for finding in json.loads(done.out) if finding["name"] == "bubblewrap")
    assert (found["ok"], found["stops"]) == (ok, ok)
    assert ("CVE-2026-87766" in found["found"]) == (version == "0.11.9")


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ({"ANTHROPIC_AUTH_TOKEN": "t"}, "ANTHROPIC_AUTH_TOKEN set"),
        ({"CLAUDE_CODE_OAUTH_TOKEN": "t"}, "CLAUDE_CODE_OAUTH_TOKEN set"),
        ({"CLAUDE_CODE_OAUTH_TOKEN": "t", "ANTHROPIC_API_KEY": "k"}, "ANTHROPIC_API_KEY set"),
        (
            {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_CUSTOM_HEADERS": "x-team: t"},
            "ANTHROPIC_BASE_URL and ANTHROPIC_CUSTOM_HEADERS set",
        ),
    ],
)
def test_every_credential_that_a_run_takes_is_found(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], found: str
) -> None:
    for name in (*CREDENTIALS.values(), "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    (finding,) = [one for one in examine() if one.name == "model API"]
    assert (finding.ok, finding.found) == (True, found)


@pytest.mark.parametrize("url", ["nope", "http://[::1", "127.0.0.1:80"])
def test_an_address_of_the_model_api_that_every_run_refuses_is_not_told_as_set(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
    (finding,) = [one for one in examine() if one.name == "model API"]
    assert (finding.ok, f"the API base URL '{url}' is no" in finding.found) == (False, True)


def test_a_project_is_told_what_an_agent_has_in_it_and_from_where(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    src = project(desk)
    fake = src / ".venv" / "bin" / "pytest"
    fake.write_text("#!/bin/sh\necho pytest 7.1\n[ ! -e /etc/shadow ] || exit 3\n", encoding="ascii")
    fake.chmod(0o755)
    done = desk.toolkit("doctor", "--json", "--mount", "src")
    found = {finding["name"]: finding for finding in json.loads(done.out) if finding["name"].startswith("agent's ")}

    version = ".".join(map(str, sys.version_info[:3]))
    assert found["agent's python"]["found"] == f"Python {version} at <here>/src/.venv/bin/python (virtual environment)"
    assert found["agent's pytest"]["found"] == "pytest 7.1 at <here>/src/.venv/bin/pytest (virtual environment)"
    assert found["agent's git"]["found"].startswith("git version ")
    assert found["agent's git"]["found"].endswith("/git (the system's)")
    assert found["agent's history"]["found"] == "git shows that of your repository"
    assert {"agent's node", "agent's compiler"} < set(found)
    assert not any(finding["stops"] for finding in found.values())


def test_a_program_that_does_not_start_in_the_jail_or_is_missing_is_told_with_its_fix(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (desk.src / ".venv" / "bin").mkdir(parents=True)
    (desk.src / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n", encoding="ascii")
    program = desk.src / ".venv" / "bin" / "python"
    program.write_text("#!/bin/sh\necho Traceback: >&2\necho broken >&2\nexit 1\n", encoding="ascii")
    program.chmod(0o755)
    done = desk.toolkit("doctor", "--mount", "src")
    python = "<here>/src/.venv/bin/python (virtual environment) does not start: broken"
    assert f"note  agent's python      {python}\n{'':<26}→ Make an environment in the project" in done.out
    assert "ok    agent's history     none: the folder is no git repository\n" in done.out


def test_a_folder_with_a_repository_is_looked_at_without_being_named(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    src = project(desk)
    done = toolkit("doctor", "--json", cwd=src, env=desk.env)
    names = [finding["name"] for finding in json.loads(done.out)]
    assert "agent's python" in names
    outside = toolkit("doctor", "--json", cwd=tmp_path, env=desk.env)
    assert "agent's python" not in [finding["name"] for finding in json.loads(outside.out)]


def test_a_project_file_that_nobody_accepted_is_named_and_not_obeyed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (desk.src / "toolkit.toml").write_text('profile = "read-only"\n', encoding="utf-8")
    done = toolkit("doctor", cwd=desk.src, env=desk.env)
    assert "note  toolkit.toml        not accepted on this machine, so the following is without it\n" in done.out
    assert "agent's git" in done.out


def test_an_environment_whose_interpreter_is_out_of_reach_is_none_of_the_users(tmp_path: Path) -> None:
    if not is_here("plain user"):
        pytest.skip("this process cannot act as a plain user")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "python").touch(mode=0o755)
    with person("plain user") as reader:
        project_folder = reader.home / "shop"
        (project_folder / ".venv" / "bin").mkdir(parents=True)
        (project_folder / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n", encoding="ascii")
        (project_folder / ".venv" / "bin" / "python").symlink_to(closed / "python")
        done = reader.types("toolkit doctor --mount .", project_folder)
    assert "Traceback" not in done.stderr
    assert "agent's git" in done.stdout
