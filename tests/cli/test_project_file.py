"""`toolkit run` obeys a project's toolkit.toml as its user has accepted it, and says so."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli._command import TOOLKIT
from tests.cli._running import Desk, project
from tests.escape.users import ROOT, as_plain_user, can_become_plain
from tests.needs import needs
from toolkit.testing import ScriptedAPI, text, tool_use

Start = Callable[..., ScriptedAPI]

FILE = """\
mounts = ["src"]
exclude_glob = ["*.log"]
lend = ["data"]

[limits]
seconds = "5m"

[env]
COLOUR = "blue"
"""


LOOK = "ls; test -e old.log || echo NO-LOG; echo COLOUR $COLOUR; touch data/x || echo LOCKED"


def write(desk: Desk, words: str = FILE) -> Path:
    file = desk.folder / "toolkit.toml"
    file.write_text(words, encoding="utf-8")
    return file


def test_a_run_is_as_the_file_says_once_it_is_trusted(tmp_path: Path, scripted_api: Start) -> None:
    api = scripted_api([tool_use("Bash", command=LOOK)], [text("Done.")])
    desk = Desk(tmp_path, api)
    project(desk)
    (desk.src / "old.log").write_text("x", encoding="utf-8")
    write(desk)
    done = desk.toolkit("run", "Go.", "--trust")

    assert done.code == 0, done.err
    assert "obeys toolkit.toml\n" in done.err
    facts = desk.last().facts
    assert (facts["inside"], facts["limits"]) == (str(desk.src), {"seconds": 300})
    said = api.requests[-1]
    assert all(said.contains(words) for words in ("COLOUR blue", "LOCKED", "app.py", "NO-LOG"))


def test_a_folder_in_place_does_not_show_the_secrets_that_the_file_leaves_out(
    tmp_path: Path, scripted_api: Start
) -> None:
    desk = Desk(tmp_path, scripted_api([text("Done.")]))
    project(desk)
    write(desk, 'mounts = ["src"]\nleave_out_secrets = true\n')
    done = desk.toolkit("run", "Go.", "--trust", "--in-place", "src")
    assert (done.code, done.out) == (2, "")
    assert "--in-place shows the folder as it is, and toolkit.toml leaves out secrets" in done.err
    assert desk.toolkit("run", "Go.", "--trust", "--in-place", "src", "--with-secrets").code == 0


def test_without_a_terminal_an_unknown_file_is_shown_and_not_obeyed(tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api([text("Done.")]))
    project(desk)
    write(desk)
    done = desk.toolkit("run", "Go.")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "the project file toolkit.toml is new on this machine; it says:\n"
        + "".join(f"  {line}\n" for line in FILE.splitlines())
        + "the project file was not accepted on this machine, so it is not obeyed\n"
        "  <here>/toolkit.toml\n"
        "  Read it, then accept it as it is with --trust, or do without it: --no-config\n"
    )
    assert not desk.home.exists()
    assert desk.toolkit("run", "--plan", "--trust").code == 0
    assert desk.toolkit("run", "Go.").code == 0


def test_a_change_is_shown_and_asked_about_and_others_are_not(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    project(desk)
    write(desk)
    assert desk.toolkit("run", "--plan", "--trust").code == 0
    write(desk, FILE + 'TOKEN = "x"\n')
    done = desk.toolkit("run", "--plan")
    assert done.code == 2
    assert "has changed since you accepted it" in done.err
    assert '+TOKEN = "x"' in done.err
    assert "mounts" not in done.err  # only what has changed, with a little around it
    write(desk)
    assert desk.toolkit("run", "--plan").err.splitlines()[0] == "obeys toolkit.toml"


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 2), ("\n", 2), ("what\n", 2)])
def test_on_a_terminal_the_person_is_asked(answer: str, code: int, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    project(desk)
    write(desk)
    with desk.terminal("run", "--plan") as terminal:
        terminal.see("[y/N]")
        terminal.type(answer)
        assert terminal.end() == code
    assert ("obeys toolkit.toml" in terminal.shown) == (code == 0)
    assert desk.toolkit("run", "--plan").code == code


def test_nothing_in_a_file_steers_the_terminal_and_notes_stand_last(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    hidden = "# \u202eevil\u2066 \u200b\n" + "\n" * 300
    write(desk, f'mounts = ["src"]\ntools = ["src/app.py"]\n{hidden}')
    done = desk.toolkit("run", "--plan")
    assert not any(char in done.err for char in "\u202e\u2066\u200b\x1b")
    assert "202eevil" in done.err
    lines = done.err.splitlines()
    note = next(number for number, line in enumerate(lines) if line.startswith("note: "))
    assert "runs on this machine, outside of the jail" in lines[note]
    assert lines[note + 1].startswith("the project file was not accepted")


def test_options_win_over_the_file(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    project(desk)
    (desk.src / "old.log").write_text("x", encoding="utf-8")
    (desk.src / "old.tmp").write_text("x", encoding="utf-8")
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.log").write_text("x", encoding="utf-8")
    write(desk, FILE + '[policy]\nBash = "deny"\n')
    words = ["--deadline", "1m", "--env", "COLOUR=red", "--exclude", "*.tmp", "--git", "none", "--no-toolchain"]
    plan = json.loads(desk.toolkit("run", "--plan", "--json", "--trust", *words).out)
    assert plan["limits"]["seconds"] == 60
    assert plan["has_git"] is False
    assert [row["what"] for row in plan["lent"]] == ["lent"]
    [mount] = plan["copied"]["mounts"]
    assert all(f"exclude_glob {pattern}" in str(mount) for pattern in ("*.log", "*.tmp"))

    plan = json.loads(desk.toolkit("run", "--plan", "--json", "--mount", "other").out)
    [mount] = plan["copied"]["mounts"]
    assert (mount["host_path"], mount["files"]) == ("other", 0)  # its excludes hold, its mounts and lent folders do not


JOB = """\
mounts = ["src"]
protect = ["src/app.py"]

[verify]
command = "python app.py"
attempts = 2

[setup]
command = "make deps"
domains = ["a.example.org"]

[retry]
times = 2
"""


def test_options_about_a_job_change_that_part_of_the_files_job(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    write(desk, JOB)

    def plan(*words: str) -> dict[str, Any]:
        done = desk.toolkit("run", "--plan", "--json", "--trust", *words)
        assert done.code == 0, done.err
        found: dict[str, Any] = json.loads(done.out)
        return found

    asked = plan("--attempts", "5", "--setup-domain", "b.example.org", "--retry", "4", "--setup-deadline", "60s")
    assert asked["verify"] == {"name": "python app.py", "attempts": 5, "deadline": 600}
    assert asked["setup"]["command"] == "make deps"
    assert (asked["setup"]["domains"], asked["setup"]["deadline"]) == (["a.example.org", "b.example.org"], 60)
    assert asked["retry"]["times"] == 4
    assert plan("--verify", "tox", "--verify-deadline", "9s")["verify"] == {
        "name": "tox", "attempts": 2, "deadline": 9
    }  # fmt: skip
    assert plan()["verify"]["attempts"] == 2

    without = desk.toolkit("run", "--plan", "--no-config", "--attempts", "5")
    assert (without.code, "--attempts is about a verification" in without.err) == (2, True)
    without = desk.toolkit("run", "--plan", "--no-config", "--setup-keyed-by", "x")
    assert (without.code, "--setup-keyed-by is about a setup" in without.err) == (2, True)


def test_the_file_of_a_folder_above_holds_with_its_own_paths(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    project(desk)
    (desk.src / "toolkit.toml").write_text('mounts = ["."]\nlend = ["data"]\n', encoding="utf-8")
    (desk.src / "deep" / "er").mkdir(parents=True)
    desk.folder = desk.src / "deep" / "er"
    done = desk.toolkit("run", "--plan", "--json", "--trust")
    assert done.code == 0, done.err
    assert f"obeys {desk.src}/toolkit.toml" in done.err
    assert json.loads(done.out)["start"] == str(desk.src)


def test_config_and_no_config_choose(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    write(desk, "this is no TOML")
    (tmp_path / "ci.toml").write_text('mounts = ["src"]\n', encoding="utf-8")
    assert desk.toolkit("run", "--plan").code == 2
    none = desk.toolkit("run", "--plan", "--no-config")
    assert (none.code, "obeys" in none.err) == (0, False)
    named = desk.toolkit("run", "--plan", "--config", "ci.toml", "--trust")
    assert (named.code, "obeys ci.toml" in named.err) == (0, True)
    both = desk.toolkit("run", "--plan", "--config", "ci.toml", "--no-config")
    assert (both.code, "write one of them" in both.err) == (2, True)
    (tmp_path / "toolkit.toml").unlink()
    assert "there is none here" in desk.toolkit("run", "--plan", "--trust").err


def test_a_mistake_in_the_file_is_a_usage_error_with_its_line(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    write(desk, '# ours\nmount = ["."]\n')
    done = desk.toolkit("run", "Go.")
    assert (done.code, done.err) == (2, "mount: there is no such key; did you mean 'mounts'?\n  toolkit.toml:2\n")


def test_what_an_agent_wrote_is_marked_and_not_obeyed_after_it_is_applied(tmp_path: Path, scripted_api: Start) -> None:
    widen = "printf '[limits]\\nusd = 900\\n' >> toolkit.toml"
    api = scripted_api([tool_use("Bash", command=widen)], [text("Done.")])
    desk = Desk(tmp_path, api)
    write(desk, 'mounts = ["."]\nexclude_glob = ["toolkit-home"]\n')
    assert desk.toolkit("run", "Go.", "--trust").code == 0
    assert "obeyed by toolkit run" in desk.toolkit("runs", "diff", "last", "--stat").out
    applied = desk.toolkit("runs", "apply", "last")
    assert applied.code == 0, applied.err
    assert "usd = 900" in (tmp_path / "toolkit.toml").read_text(encoding="utf-8")
    again = desk.toolkit("run", "Go.")
    assert again.code == 2
    assert "+usd = 900" in again.err


def test_a_conversation_goes_on_where_it_was_and_not_in_a_new_copy(tmp_path: Path, scripted_api: Start) -> None:
    first = [[tool_use("Bash", command="echo MADE > made.txt")], [text("Done.")]]
    second = [[tool_use("Bash", command="cat made.txt; echo COLOUR $COLOUR")], [text("Done.")]]
    api = scripted_api(*first, *second)
    desk = Desk(tmp_path, api)
    project(desk)
    write(desk)
    assert desk.toolkit("run", "Go.", "--trust").code == 0
    before = desk.last().facts["workspace"]
    done = desk.toolkit("run", "Go on.", "--resume", "last")
    assert done.code == 0, done.err
    assert desk.last().facts["workspace"] == before
    assert all(api.requests[-1].contains(words) for words in ("MADE", "COLOUR blue"))


def test_the_doctor_obeys_the_file_too(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    project(desk)
    write(desk, "toolchain = false\n")
    refused = desk.toolkit("doctor", "--mount", "src")
    assert (refused.code, "not accepted" in refused.err) == (2, True)
    done = desk.toolkit("doctor", "--mount", "src", "--trust")
    assert "obeys toolkit.toml" in done.err
    assert "src/.venv" not in done.out
    assert "src/.venv" in desk.toolkit("doctor", "--mount", "src", "--no-config").out


def test_the_example_of_the_page_is_a_plan(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "project-file.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    desk = Desk(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "tools.py").touch()
    write(desk, example)
    plan = json.loads(desk.toolkit("run", "--plan", "--json", "--trust").out)
    assert (plan["limits"]["seconds"], plan["limits"]["usd"], plan["domains"]) == (1200, 2, ["a.example.org"])
    [mistake] = re.findall(r"```text\n(domains: .*?)```", page, re.DOTALL)
    write(desk, "\n" * 6 + 'domains = "a.example.org"\n')
    assert desk.toolkit("run", "--plan").err == mistake


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@needs(can_become_plain(), "setpriv and unshare are needed")
def test_a_plain_user_obeys_files_of_its_own_and_of_root_only(anyones_folder: Path) -> None:
    home = anyones_folder / "home"
    home.mkdir()

    def plan(owner: int) -> subprocess.CompletedProcess[str]:
        file = home / "toolkit.toml"
        file.write_text('model = "opus"\n', encoding="utf-8")
        os.chown(file, owner, owner)
        command = as_plain_user([str(TOOLKIT), "run", "--plan", "--trust"], home)
        env = {"PATH": os.environ["PATH"], "TOOLKIT_HOME": str(home / "state"), "LANG": "C.UTF-8"}
        return subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, timeout=60, check=False)

    assert [plan(owner).returncode for owner in (65_534, 0)] == [0, 0]
    done = plan(4321)
    assert (done.returncode, "belongs to another user (uid 4321" in done.stderr) == (2, True)
