"""`toolkit run --plan`: what the agent would have, which is what it has then, and nothing is done for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli._running import Desk, project
from tests.workspace.repositories import git, repository
from toolkit.errors import RunError
from toolkit.runs import RunSpec, plan_run
from toolkit.testing import ScriptedAPI, text, tool_use

Start = Callable[..., ScriptedAPI]


@pytest.mark.parametrize(
    "more", [[], ["--at", "/srv/project"], ["--no-toolchain", "--git", "none"]], ids=["own", "at", "bare"]
)
def test_what_is_planned_is_what_the_run_has(more: list[str], tmp_path: Path, scripted_api: Start) -> None:
    api = scripted_api([tool_use("Bash", command='echo "PATH IS $PATH."; pwd')], [text("Done.")])
    desk = Desk(tmp_path, api)
    project(desk)
    words = ["--mount", "src", "--lend", "data", "--deadline", "5m", *more]
    plan = json.loads(desk.toolkit("run", "--plan", "--json", *words).out.replace("<here>", str(tmp_path)))
    assert not desk.home.exists()
    done = desk.toolkit("run", "Go.", *words)

    assert done.code == 0, done.err
    facts = desk.last().facts
    assert (plan["start"], plan["lent"]) == (facts["inside"], facts["lent"])
    assert plan["has_git"] == (not more or more[0] == "--at")
    assert api.requests[-1].contains(f"PATH IS /run/toolkit/bin:{':'.join(plan['path'])}.")
    assert plan["limits"]["seconds"] == 300
    (mount,) = plan["copied"]["mounts"]
    copied = [path for path in (Path(facts["workspace"]) / "src").rglob("*") if path.is_file()]
    own = [path for path in copied if ".git" not in path.parts]
    assert (mount["files"], mount["inside"]) == (len(own), plan["start"])


def test_a_plan_needs_no_key_starts_nothing_and_loads_no_tools(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "tools.py").write_text("open('loaded', 'w')\n", encoding="utf-8")
    (desk.src / "old.log").write_text("x" * 2000, encoding="utf-8")
    words = ["--tools", "tools.py", "--server", "mine=touch started", "--env", "TOKEN=hidden-value"]
    words += ["--allow-domain", "a.example.org", "--memory", "2GB", "--exclude", "*.log", "--readable", "tools.py"]
    before = sorted(tmp_path.rglob("*"))
    done = desk.toolkit("run", "--plan", "--mount", "src", *words)

    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[:3] == [
        "starts in  <here>/src",
        "copies     src: 1 file, 13 B, which the agent finds at <here>/src",
        '             1 excluded by "exclude_glob *.log": old.log',
    ]
    assert {
        "readable   <here>/tools.py",
        "variable   TOKEN: as you gave it",
        "tools      tools.py",
        "server     mine, inside the jail",
        "network    commands reach a.example.org; the CLI reaches the model API at api.anthropic.com",
        "mode       yolo, profile allowlist",
        "limit      memory_bytes 2.0 GB",
    } <= set(lines)
    assert "hidden-value" not in done.out + done.err
    assert sorted(tmp_path.rglob("*")) == before


def test_what_may_hold_credentials_is_in_the_plan_as_in_the_run(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api([text("Done.")]))
    (desk.src / ".env").write_text("TOKEN=x\n", encoding="utf-8")
    planned = json.loads(desk.toolkit("run", "--plan", "--json", "--mount", "src").out)
    told = desk.toolkit("run", "--plan", "--mount", "src").out
    (warning,) = planned["warnings"]
    assert "src/.env (environment variables)" in warning
    assert f"warning    {warning}\n" in told
    assert f"warning: {warning}\n" in desk.toolkit("run", "Go.", "--mount", "src").err
    without = desk.toolkit("run", "--plan", "--mount", "src", "--leave-out-secrets").out
    assert "warning" not in without
    assert "1 left out for credentials: .env" in without


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "copies     nothing: the agent begins in an empty folder"),
        (["--in-place", "src"], "the agent changes this folder of the host itself"),
    ],
)
def test_where_nothing_is_copied_the_plan_says_so(words: list[str], told: str, tmp_path: Path) -> None:
    done = Desk(tmp_path).toolkit("run", "Go.", "--plan", *words)
    assert done.code == 0, done.err
    assert told in done.out


def test_a_run_that_could_not_be_is_no_plan(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (desk.src / ".git").symlink_to(tmp_path)
    done = desk.toolkit("run", "--plan", "--mount", "src")
    assert (done.code != 0, done.out) == (True, "")
    assert "has a link for its .git" in done.err


@pytest.mark.parametrize("url", ["nope", "http://[::1", "http://127.0.0.1:99999"])
def test_an_address_of_the_model_api_that_is_none_is_no_plan(url: str, tmp_path: Path) -> None:
    done = Desk(tmp_path).toolkit("run", "Go.", "--plan", env={"ANTHROPIC_BASE_URL": url})
    assert (done.code != 0, done.out) == (True, "")
    assert f"the API base URL '{url}' is no" in done.err
    assert "Traceback" not in done.err


def test_the_launchers_own_part_is_planned_and_what_cannot_be_is_refused(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    shop = repository(tmp_path / "shop")
    job = ["--mount", "shop", "--verify", "pytest -q", "--attempts", "3", "--protect", "app.py", "--retry", "2"]
    done = desk.toolkit("run", "--plan", *job, "--branch", "agent/x")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-4:] == [
        "verify     pytest -q, up to 3 times, for 10 m 0 s at most each",
        "protected  app.py",
        "retry      up to 2 times, after throttled, api_error, crashed",
        "branch     agent/x, made at the end if it is verified",
    ]
    git(shop, "branch", "agent/x")
    taken = desk.toolkit("run", "--plan", *job, "--branch", "agent/x")
    assert (taken.code, taken.out) == (2, "")
    assert "there is a branch agent/x already" in taken.err
    whole = desk.toolkit("run", "--plan", "--mount", "shop", "--protect", "shop")
    assert (whole.code, "'shop' is all that the agent has to work in" in whole.err) == (2, True)
    mistyped = desk.toolkit("run", "--plan", "--mount", "shop", "--branch", "bad name")
    assert (mistyped.code, "Error: --branch 'bad name': git takes no such name" in mistyped.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--tools", "nope.py"], "there is no file nope.py"),
        (["--policy", "wpe=deny"], "--policy: no tool of this run is called 'wpe'"),
        (["--safe", "Bsh"], "--safe: no tool of this run is called 'Bsh'; did you mean 'Bash'?"),
        (["--api-url", "nope"], "the API base URL 'nope' is no http(s) URL"),
    ],
)
def test_a_plan_refuses_what_the_run_would(words: list[str], says: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for more in (["--plan"], []):
        done = desk.toolkit("run", "Go.", *more, *words)
        assert (done.code, done.out, says in done.err) == (2, "", True), done.err
    assert not desk.home.exists()


def test_a_plan_of_something_else_than_a_run_is_refused_in_words() -> None:
    assert plan_run("Go.").works_in == "empty"  # type: ignore[arg-type]
    for wrong in (None, 5):
        with pytest.raises(RunError, match="prompt"):
            plan_run(wrong)  # type: ignore[arg-type]
    with pytest.raises(RunError, match="no tool of this run is called 'wpe'"):
        plan_run(RunSpec("Go.", policy={"wpe": "deny"}))
