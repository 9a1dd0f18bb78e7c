"""A project file is read once, every key is known, every value is as its option wants it, and nothing is obeyed unasked."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolkit import Limits, ProjectFile, RunSpec
from toolkit.errors import SettingsError
from toolkit.runs import NotAcceptedError, ProjectFileError, Retry, Setup, Verify
from toolkit.runs.kinds import OptionError
from toolkit.runs.projects.reading.lines import key_lines
from toolkit.runs.projects.reading.source import written
from toolkit.workspace import HostMount, WorkspaceSection


@pytest.fixture
def folder(tmp_path: Path, toolkit_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def write(folder: Path, text: str, name: str = "toolkit.toml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def options(folder: Path, text: str, **given: Any) -> dict[str, Any]:
    file = ProjectFile.read(write(folder, text))
    file.accept()
    return file.options(**given)


def refused(folder: Path, text: str, name: str = "toolkit.toml") -> ProjectFileError:
    with pytest.raises(ProjectFileError) as caught:
        ProjectFile.read(write(folder, text, name))
    return caught.value


FULL = """
mounts = ["."]
exclude_glob = ["*.log"]
gitignore = true
leave_out_secrets = true
readable = ["../sdk"]
tools = ["tools.py:box", "my_app.tools:box"]
model = "opus"
domains = ["a.example.org"]
thinking = 2000

[limits]
seconds = "1h30m"
memory_bytes = "8GB"
turns = 40

[env]
CI = "1"

[policy]
"Bash(git push)" = "deny"

[servers.db]
command = "my-server"
args = ["--stdio"]

[settings.permissions]
deny = ["Read(//etc/**)"]
"""


def test_the_authority_of_a_server_lies_relative_to_the_file(folder: Path) -> None:
    said = '[servers.db]\ntype = "http"\nurl = "https://127.0.0.1:8443/"\nca_file = "certs/ca.pem"\n'
    assert options(folder, said)["servers"]["db"]["ca_file"] == str(folder / "certs/ca.pem")


def test_what_a_file_says_is_what_a_run_is_asked(folder: Path) -> None:
    spec = RunSpec("Go.", **options(folder, FULL))
    assert spec.limits == Limits(seconds=5400, memory_bytes=8_000_000_000, turns=40)
    assert (spec.model, spec.domains, spec.jail_profile, spec.thinking) == (
        "opus",
        ("a.example.org",),
        "allowlist",
        2000,
    )
    assert (spec.env, spec.policy) == ({"CI": "1"}, {"Bash(git push)": "deny"})
    assert spec.tools == (f"{folder}/tools.py:box", "my_app.tools:box")
    assert spec.readable == (str(folder.parent / "sdk"),)
    assert (spec.servers["db"]["command"], spec.servers["db"]["args"]) == ("my-server", ["--stdio"])
    assert spec.settings is not None
    assert isinstance(spec.workspace, WorkspaceSection)
    [mount] = spec.workspace.mounts
    assert mount == HostMount(folder, exclude_glob=["*.log"], gitignore=True, leave_out_secrets=True)
    assert spec.workspace.allowed_host_roots == (folder,)


def test_a_table_of_pyproject_says_the_same(folder: Path) -> None:
    text = '[project]\nname = "shop"\n\n[tool.toolkit]\nmounts = ["."]\n\n[tool.toolkit.limits]\nusd = 2\n'
    file = ProjectFile.find()
    assert file is None
    write(folder, text, "pyproject.toml")
    file = ProjectFile.find()
    assert file is not None
    assert file.text == 'mounts = ["."]\nlimits = { usd = 2 }\n'
    file.accept()
    assert file.options()["limits"] == Limits(usd=2)
    write(folder, text.replace("shop", "other"), "pyproject.toml")
    again = ProjectFile.find()
    assert again is not None
    assert again.trust == "accepted"  # what it says to us has not changed


def test_mounts_have_what_is_said_for_each_and_for_all(folder: Path) -> None:
    for name in ("a/data", "b"):
        (folder / name).mkdir(parents=True)
    text = """
    exclude_glob = ["*.log"]
    git = "none"
    lend = ["data"]
    at = "/work"
    [[mounts]]
    host_path = "a"
    exclude_glob = ["*.tmp"]
    git = "copy"
    max_bytes = "5MB"
    [[mounts]]
    host_path = "b"
    mount_path = "lib"
    """
    section = options(folder, text)["workspace"]
    first = HostMount(folder / "a", exclude_glob=["*.tmp", "*.log"], git="copy", max_bytes=5_000_000, lend=["data"])
    assert section.mounts == (first, HostMount(folder / "b", "lib", exclude_glob=["*.log"], git="none"))
    assert section.at == "/work"


def test_how_work_is_verified_and_tried_again_can_be_said(folder: Path) -> None:
    (folder / "tests").mkdir()
    text = 'mounts = ["."]\nprotect = ["tests"]\nretry = 2\n[verify]\ncommand = "pytest -q"\nattempts = 3\ndeadline = "5m"\n'
    spec = RunSpec("Go.", **options(folder, text))
    assert spec.verify == Verify("pytest -q", attempts=3, deadline=300)
    assert (spec.protect, spec.retry) == (("tests",), Retry(2))


MISTAKES: dict[str, tuple[str, int, str, str]] = {
    "an option's name": (
        '\nmounts = ["."]\nexclude = ["x"]\n',
        3,
        "exclude",
        "no such key; did you mean 'exclude_glob'?",
    ),
    "nearly one": ('\nmounts = ["."]\nexclud = ["x"]\n', 3, "exclud", "no such key; did you mean 'exclude_glob'?"),
    "unknown key": ('\nmounts = ["."]\nexcldue_glob = ["x"]\n', 3, "excldue_glob", "did you mean 'exclude_glob'?"),
    "a name of the command": ('deadline = "10m"\n', 1, "deadline", "'seconds' in the table [limits]"),
    "unknown key of a table": ("[limits]\nsecond = 3\n", 2, "limits.second", "did you mean 'seconds'?"),
    "unknown key of a mount": ('[[mounts]]\nhost_path = "a"\nexclude = []\n', 3, "mounts[0].exclude", "exclude_glob"),
    "a text for a list": ('\ndomains = "a.example.org"\n', 2, "domains", 'Write: domains = ["a.example.org"]'),
    "a number in a list": ('domains = [\n  "a.example.org",\n  3,\n]\n', 3, "domains[1]", "it is a text, not a number"),
    "a number for a text": ("model = 4\n", 1, "model", "it is a text, not a number"),
    "a text for a number": ('[limits]\nusd = "two"\n', 2, "limits.usd", "it is a number, not a text"),
    "a text that is no time": ('[limits]\nseconds = "soon"\n', 2, "limits.seconds", "a length of time"),
    "a text for a flag": ('toolchain = "yes"\n', 1, "toolchain", "it is true or false, not a text"),
    "a date": ("model = 1979-05-27\n", 1, "model", "it is a text, not a date or time"),
    "a value that the rule refuses": ('profile = "ofline"\n', 1, "profile", "did you mean 'offline'?"),
    "an entry that the rule refuses": ('native = [\n"Bash",\n"Bahs"]\n', 3, "native[1]", "did you mean 'Bash'?"),
    "a limit below zero": ("[limits]\nturns = 2\nusd = -1\n", 3, "limits.usd", "a number above zero"),
    "a variable of the jail": ('[env]\nCI = "1"\nPATH = "/x"\n', 3, "env.PATH", "PATH"),
    "a number as a variable": ("[env]\nCI = 1\n", 2, "env.CI", 'Write: CI = "1"'),
    "a mount without a path": ('[[mounts]]\ngit = "copy"\n', 1, "mounts[0]", "host_path"),
    "a pattern that never matches": ('exclude_glob = ["#x"]\n', 1, "exclude_glob[0]", "can never match"),
    "a server without a command": ('[servers.db]\nargs = ["x"]\n', 1, "servers.db", "'command'"),
    "a setting that there is not": ("[settings]\nsandboxx = {}\n", 1, "settings", "sandboxx"),
    "nobody's home": ('readable = ["~no-such-user/x"]\n', 1, "readable[0]", "no home folder"),
    "what a run is asked": ('prompt = "Go."\n', 1, "prompt", "said with each run"),
    "a program": ('before_run = "x"\n', 1, "before_run", "Python object"),
    "where the key is sent": ('api_url = "https://evil.example"\n', 1, "api_url", "where your key is sent"),
    "in place": ('in_place = "."\n', 1, "in_place", "nothing to undo"),
    "trust": ("trust = true\n", 1, "trust", "vouch for itself"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_line_and_what_is_expected(name: str, folder: Path) -> None:
    text, line, key, says = MISTAKES[name]
    error = refused(folder, text)
    assert (error.line, error.key, error.file) == (line, key, folder / "toolkit.toml")
    assert says in str(error)
    assert f"toolkit.toml:{line}" in str(error)
    assert error.exit_code == 2


def test_the_whole_text_of_a_mistake_reads_as_one(folder: Path) -> None:
    assert str(refused(folder, '# ours\nmounts = "."\n')) == (
        'mounts: it is a list of mounts, not a text\n  toolkit.toml:2  mounts = "."\n  Write: mounts = ["."]'
    )


def test_a_mistake_in_pyproject_has_the_line_of_that_file(folder: Path) -> None:
    error = refused(folder, '[project]\nname = "x"\n[tool.toolkit]\nmodle = "x"\n', "pyproject.toml")
    assert (error.line, error.key) == (4, "modle")


@pytest.mark.parametrize("text", ["mounts = [\n", "= 3\n", "a = 1\na = 2\n[[a]]\n", "x = \x01\n", "\ufeff["])
def test_what_is_no_toml_is_told_with_the_line(text: str, folder: Path) -> None:
    error = refused(folder, text)
    assert "is no TOML" in error.what
    assert error.line is not None


SECRET = "sk-ant-" + "a" * 40


@pytest.mark.parametrize(
    "text",
    [
        f'api_key = "{SECRET}"\n',
        f'auth_token = "{SECRET}"\n',
        f'api_kye = "{SECRET}"\n',
        f'[env]\nMY_KEY = "{SECRET}"\n',
        f'[servers.db]\ncommand = "x"\nenv = {{ TOKEN = "{SECRET}" }}\n',
        f'system = "the key is {SECRET}"\n',
        f'[api_headers]\nx-key = "{SECRET}"\n',
    ],
)
def test_keys_and_tokens_are_refused_and_never_shown(text: str, folder: Path) -> None:
    error = refused(folder, text)
    assert "everybody who has the project" in str(error)
    assert SECRET not in str(error)


def test_the_callers_options_win_and_lists_and_tables_are_added(folder: Path) -> None:
    text = """
    model = "opus"
    domains = ["a.example.org"]
    native = ["Bash", "Read"]
    mode = "normal"
    [limits]
    seconds = 60
    usd = 1
    [env]
    A = "file"
    B = "file"
    [policy]
    "Bash(git push)" = "deny"
    Write = "deny"
    Bash = "ask"
    """
    both = options(
        folder,
        text,
        model="haiku",
        domains=["b.example.org", "a.example.org"],
        native=["Read"],
        limits=Limits(usd=5),
        env={"B": "caller", "C": "caller"},
        policy={"Read": "ask", "Bash": "allow"},
        mode=None,
    )
    assert (both["model"], both["mode"], both["native"]) == ("haiku", "normal", ["Read"])
    assert both["domains"] == ("a.example.org", "b.example.org")
    assert both["limits"] == Limits(seconds=60, usd=5)
    assert both["env"] == {"A": "file", "B": "caller", "C": "caller"}
    # The rule of the file about `git push` would come behind the caller's about all of Bash.
    assert list(both["policy"].items()) == [("Read", "ask"), ("Bash", "allow"), ("Write", "deny")]


def test_the_launchers_part_is_combined_part_by_part(folder: Path) -> None:
    text = """
    [verify]
    command = "pytest"
    attempts = 2
    [retry]
    times = 4
    on = ["throttled"]
    [setup]
    command = "npm ci"
    domains = ["a.example.org"]
    """
    more: dict[str, Any] = {"setup": {"domains": ["b.example.org"], "deadline": 60.0}, "retry": {"times": 1}}
    both = options(folder, text, verify={"attempts": 5}, **more)
    assert both["verify"] == Verify("pytest", attempts=5)
    assert both["retry"] == Retry(1, on=["throttled"])
    assert both["setup"] == Setup("npm ci", domains=["a.example.org", "b.example.org"], deadline=60)
    assert options(folder, text, verify={"command": "tox"})["verify"] == Verify("tox", attempts=2)
    assert options(folder, text, verify=Verify("tox"))["verify"] == Verify("tox")
    with pytest.raises(OptionError, match="verify: it has no 'attemps'; did you mean 'attempts'"):
        options(folder, text, verify={"attemps": 5})


def test_a_workspace_of_the_caller_takes_the_place_of_the_mounts(folder: Path) -> None:
    mine = WorkspaceSection([HostMount(folder)], allowed_host_roots=[folder])
    assert options(folder, 'mounts = ["elsewhere"]\n', workspace=mine)["workspace"] is mine


def test_a_conversation_keeps_the_workspace_it_had(folder: Path) -> None:
    session = "0c0ffee0-0000-4000-8000-000000000000"
    assert "workspace" not in options(folder, 'mounts = ["."]\n', resume=session)


def test_variables_are_taken_by_name_and_have_to_be_set(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_INDEX", "here")
    assert options(folder, 'env_from = ["MY_INDEX"]\n')["env"] == {"MY_INDEX": "here"}
    with pytest.raises(ProjectFileError) as caught:
        options(folder, '# x\nenv_from = ["NOT_SET_HERE"]\n')
    assert (caught.value.line, caught.value.key) == (2, "env_from[0]")


def test_a_folder_to_lend_that_no_mount_has_is_an_error_with_its_line(folder: Path) -> None:
    with pytest.raises(ProjectFileError) as caught:
        options(folder, 'mounts = ["."]\nlend = ["data"]\n')
    assert (caught.value.line, caught.value.key) == (2, "lend[0]")


def test_nothing_is_obeyed_before_it_is_accepted_nor_after_it_changed(folder: Path, toolkit_home: Path) -> None:
    file = ProjectFile.read(write(folder, 'model = "opus"\n'))
    assert file.trust == "new"
    with pytest.raises(NotAcceptedError):
        file.options()
    file.accept()
    assert ProjectFile.read(file.path).options()["model"] == "opus"

    changed = ProjectFile.read(write(folder, 'model = "haiku"\n'))
    assert changed.trust == "changed"
    with pytest.raises(NotAcceptedError):
        changed.options()
    assert '-model = "opus"\n+model = "haiku"' in changed.difference()
    write(folder, 'model = "opus"\n')
    assert ProjectFile.read(file.path).trust == "accepted"
    assert (toolkit_home / "projects").stat().st_mode & 0o077 == 0


def test_what_was_read_is_what_is_accepted(folder: Path) -> None:
    file = ProjectFile.read(write(folder, 'model = "opus"\n'))
    write(folder, 'model = "haiku"\n')  # somebody writes it while its user reads
    file.accept()
    assert file.options()["model"] == "opus"
    assert ProjectFile.read(file.path).trust == "changed"


def test_the_text_of_one_file_is_not_accepted_for_another(folder: Path) -> None:
    (folder / "other").mkdir()
    ProjectFile.read(write(folder, 'model = "opus"\n')).accept()
    assert ProjectFile.read(write(folder / "other", 'model = "opus"\n')).trust == "new"


def _cut(kept: Path) -> None:
    kept.write_bytes(kept.read_bytes()[:20])


def _retext(kept: Path) -> None:
    data = json.loads(kept.read_text())
    kept.write_text(json.dumps({**data, "text": 'model = "haiku"\n'}))


def _refile(kept: Path) -> None:
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "file": "/elsewhere"}))


def _list(kept: Path) -> None:
    kept.write_text("[]")


def _open_to_all(kept: Path) -> None:
    kept.chmod(0o666)


def _link(kept: Path) -> None:
    kept.rename(kept.with_suffix(".moved"))
    kept.symlink_to(kept.with_suffix(".moved"))


@pytest.mark.parametrize("tamper", [_cut, _retext, _refile, _list, _open_to_all, _link])
def test_an_accepted_text_that_is_not_sound_counts_as_not_accepted(
    tamper: Any, folder: Path, toolkit_home: Path
) -> None:
    file = ProjectFile.read(write(folder, 'model = "opus"\n'))
    file.accept()
    [kept] = (toolkit_home / "projects").iterdir()
    tamper(kept)
    assert ProjectFile.read(file.path).trust == "new"


def test_a_link_and_what_is_no_file_are_refused(folder: Path) -> None:
    write(folder, 'model = "opus"\n', "real.toml")
    (folder / "toolkit.toml").symlink_to("real.toml")
    with pytest.raises(ProjectFileError, match="is a link"):
        ProjectFile.find()
    (folder / "toolkit.toml").unlink()
    os.mkfifo(folder / "toolkit.toml")
    with pytest.raises(ProjectFileError, match="no ordinary file"):
        ProjectFile.find()
    (folder / "toolkit.toml").unlink()
    (folder / "toolkit.toml").mkdir()
    with pytest.raises(ProjectFileError, match="no ordinary file"):
        ProjectFile.find()


def test_a_file_that_everybody_may_write_is_refused(folder: Path) -> None:
    write(folder, 'model = "opus"\n').chmod(0o666)
    with pytest.raises(ProjectFileError, match="everybody on this machine may write") as caught:
        ProjectFile.find()
    assert "chmod o-w toolkit.toml" in caught.value.fix


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(folder: Path) -> None:
    os.chown(write(folder, 'model = "opus"\n'), 4321, 4321)
    with pytest.raises(ProjectFileError, match="belongs to another user"):
        ProjectFile.find()


@pytest.mark.parametrize("data", [b"\xff = 1\n", b"# " + b"x" * 300_000], ids=["not UTF-8", "too large"])
def test_what_cannot_be_a_project_file_is_refused(data: bytes, folder: Path) -> None:
    (folder / "toolkit.toml").write_bytes(data)
    with pytest.raises(ProjectFileError):
        ProjectFile.find()


def test_the_nearest_file_up_to_the_top_of_the_repository_holds(folder: Path) -> None:
    below = folder / "a" / "b"
    below.mkdir(parents=True)
    write(folder.parent, 'model = "outside"\n')
    assert ProjectFile.find(below) is None  # in no repository only the folder's own counts
    (folder / ".git").mkdir()
    assert ProjectFile.find(below) is None  # what is above the repository does not count
    top = write(folder, 'model = "top"\n')
    assert _found(below) == top
    near = write(folder / "a", '[tool.toolkit]\nmodel = "near"\n', "pyproject.toml")
    assert _found(below) == near
    write(below, '[project]\nname = "x"  # no table for a toolkit\n', "pyproject.toml")
    assert _found(below) == near


def _found(folder: Path) -> Path | None:
    found = ProjectFile.find(folder)
    return None if found is None else found.path


def test_two_files_in_one_folder_are_an_error(folder: Path) -> None:
    write(folder, 'model = "a"\n')
    write(folder, '[tool.toolkit]\nmodel = "b"\n', "pyproject.toml")
    with pytest.raises(ProjectFileError, match="two project files"):
        ProjectFile.find()


def test_a_broken_pyproject_stops_nobody_unless_it_may_be_about_us(folder: Path) -> None:
    write(folder, "[project\n", "pyproject.toml")
    assert ProjectFile.find() is None
    write(folder, "[tool.toolkit\n", "pyproject.toml")
    with pytest.raises(ProjectFileError, match="cannot be told"):
        ProjectFile.find()


def test_a_pyproject_that_is_no_file_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pyproject.toml")
    assert ProjectFile.find() is None
    (folder / "pyproject.toml").unlink()
    write(folder, "[tool.toolkit]\nmodel = 'x'\n", "real.toml")
    (folder / "pyproject.toml").symlink_to("real.toml")
    with pytest.raises(ProjectFileError, match="is a link"):
        ProjectFile.find()


def test_what_leaves_the_folder_the_jail_or_the_machine_is_pointed_out(folder: Path) -> None:
    (folder / "way").symlink_to("/etc")
    text = 'mounts = [".", "../x"]\nreadable = ["way", "here"]\ntools = ["t.py"]\ndomains = ["a.example.org"]\n'
    remarks = ProjectFile.read(write(folder, text + 'env_from = ["SOME_TOKEN"]\n')).remarks()
    assert [remark.partition(":")[0] for remark in remarks] == ["mounts", "readable", "tools", "domains", "env_from"]
    assert "runs on this machine, outside of the jail" in remarks[2]


def test_options_that_do_not_go_together_are_no_run(folder: Path) -> None:
    with pytest.raises(SettingsError, match="reaches no domains"):
        RunSpec("Go.", **options(folder, 'profile = "offline"\ndomains = ["a.example.org"]\n'))


_KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=6)
_LEAVES = st.text(max_size=8) | st.integers(-9, 9) | st.booleans()
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3), max_leaves=8
)


@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_every_key_has_its_line_and_what_is_written_is_read_back(data: dict[str, Any]) -> None:
    text = "# a comment [x]\n\n" + written(data)
    assert tomllib.loads(text) == data
    lines = key_lines(text)
    assert [lines[(name,)] for name in data] == list(range(3, 3 + len(data)))


def test_lines_are_found_through_everything_toml_has() -> None:
    text = 'a.b = """\n[no]\nx = 1\\\n"""  # = [\n"q.r" = [ 1,\n 2, # ]\n {w = \'#\'}]\n[[l]]\nn = 1\n[[l]]\nn = 2\n[l.s]\np = 1\n'
    tomllib.loads(text)
    lines = key_lines(text)
    found: dict[tuple[str | int, ...], int] = {
        ("a", "b"): 1,
        ("q.r", 1): 6,
        ("q.r", 2, "w"): 7,
        ("l", 0, "n"): 9,
        ("l", 1, "n"): 11,
        ("l", 1, "s", "p"): 13,
    }
    assert {path: lines[path] for path in found} == found
