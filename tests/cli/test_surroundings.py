"""The options of `toolkit run` about where an agent works, what it is lent and what it is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli._running import Desk, project
from tests.sandbox.upstream import make_certificate
from tests.serving._client import ServedHttp
from toolkit.testing import ScriptedAPI, text, tool_use

Start = Callable[..., ScriptedAPI]


def bash(command: str) -> list[object]:
    return [tool_use("Bash", command=command)]


def test_what_is_lent_is_named_first_and_works_and_cannot_be_written(tmp_path: Path, scripted_api: Start) -> None:
    command = "git log --oneline; command -v python; cat data/table.csv; touch data/x || echo LOCKED"
    api = scripted_api(bash(command), [text("Done.")])
    desk = Desk(tmp_path, api)
    src = project(desk)
    done = desk.toolkit("run", "Look.", "--mount", "src", "--lend", "data")

    assert done.code == 0, done.err
    lines = done.err.splitlines()
    began = next(number for number, line in enumerate(lines) if line.startswith("run-"))
    told = lines[:began]
    assert "lent       <here>/src/.venv: virtual environment" in told
    assert "lent       <here>/src/data: a folder of the mount" in told
    assert "git        works: it has the history of the host, and cannot change it" in told
    said = api.requests[-1]
    assert all(said.contains(words) for words in ("The first.", f"{src}/.venv/bin/python", "a,b", "LOCKED"))
    shown = desk.toolkit("runs", "show", "last").out
    assert all(line in shown for line in (*told, "inside     <here>/src"))


def test_place_git_variables_and_paths_are_as_asked(tmp_path: Path, scripted_api: Start) -> None:
    command = "pwd; ls -a; echo $COLOUR-$TOKEN_NAME-$OTHER-$VIRTUAL_ENV.; cat {}/more.txt; git status"
    more = tmp_path / "more"
    more.mkdir()
    (more / "more.txt").write_text("READABLE", encoding="utf-8")
    api = scripted_api(bash(command.format(more)), [text("Done.")])
    desk = Desk(tmp_path, api)
    project(desk)
    words = ["--at", "/work", "--git", "none", "--no-toolchain", "--exclude", ".venv", "--readable", "more"]
    words += ["--env", "COLOUR=b=ue", "--env-from", "TOKEN_NAME", "--memory", "3GB"]
    done = desk.toolkit("run", "Look.", "--mount", "src", *words, env={"TOKEN_NAME": "taken", "OTHER": "no"})

    assert done.code == 0, done.err
    said = api.requests[-1]
    assert all(said.contains(words) for words in ("b=ue-taken--.", "READABLE", "not a git repository"))
    facts = desk.last().facts
    assert (facts["inside"], facts["lent"]) == ("/work", [])
    assert facts["limits"] == {"memory_bytes": 3_000_000_000}


def test_a_server_is_started_inside_the_jail(tmp_path: Path, scripted_api: Start) -> None:
    server = (
        "import sys, json, os\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    if 'id' not in asked: continue\n"
        "    tool = {'name': 'where', 'description': 'Where it runs.', 'inputSchema': {'type': 'object'}}\n"
        "    answers = {'initialize': {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}},\n"
        "        'serverInfo': {'name': 'x', 'version': '1'}}, 'tools/list': {'tools': [tool]},\n"
        "        'tools/call': {'content': [{'type': 'text', 'text': f'HOME={os.environ.get(\"HOME\")} {sys.argv[1:]}'}]}}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': answers.get(asked['method'], {})}), flush=True)\n"
    )
    api = scripted_api([tool_use("mcp__mine__where")], [text("Done.")])
    desk = Desk(tmp_path, api)
    (desk.src / "server.py").write_text(server, encoding="utf-8")
    command = f"mine=/usr/bin/env python3 {desk.src}/server.py 'two words'"
    done = desk.toolkit("run", "Ask it.", "--mount", "src", "--server", command)
    assert done.code == 0, done.err
    assert api.requests[-1].contains("HOME=/home/agent ['two words']")


LOUD = '''
@tool
def shout(word: str) -> str:
    """Say it loudly."""
    return word.upper()

box = Toolbox("loud", [shout])
'''


@pytest.mark.parametrize("named_in", ["the project file", "a variable", "nothing"])
def test_a_server_with_tls_is_believed_by_the_authority_that_is_named(
    tmp_path: Path, scripted_api: Start, named_in: str
) -> None:
    key, cert = make_certificate(tmp_path, "localhost")
    api = scripted_api([tool_use("mcp__loud__shout", word="heard")], [text("Done.")], strict=False)
    desk = Desk(tmp_path, api)
    with ServedHttp(tmp_path, LOUD, options=["--tls-cert", str(cert), "--tls-key", str(key)]) as served:
        url = f"https://localhost:{served.port}/mcp"
        words, env = ["--server", f"loud={url}", "--allow-server", "loud"], {}
        if named_in == "the project file":
            said = f'allow_servers = ["loud"]\n[servers.loud]\ntype = "http"\nurl = "{url}"\nca_file = "cert.pem"\n'
            (tmp_path / "toolkit.toml").write_text(said, encoding="utf-8")
            words = ["--trust"]
        elif named_in == "a variable":
            env = {"SSL_CERT_FILE": str(cert)}
        done = desk.toolkit("run", "Ask it.", *words, env=env)
    if named_in == "nothing":
        assert (done.code, len(api.requests)) == (1, 0)
        assert "server_failed" in done.err
        assert "its certificate is not accepted: self-signed certificate" in done.err
        assert "SSL_CERT_FILE" in done.err
    else:
        assert (done.code, done.out) == (0, "Done.\n"), done.err
        assert "HEARD" in api.tool_results()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--lend", "data"], "--lend is about what is mounted: write --mount as well"),
        (["--at", "/work", "--in-place", "src"], "--at is about what is mounted"),
        (["--in-place", "src", "--leave-out-secrets"], "--leave-out-secrets is about what is mounted"),
        (["--in-place", "src", "--exclude", "*.key"], "--exclude is about what is mounted"),
        (["--gitignore"], "--gitignore is about what is mounted"),
        (["--allow-root", "."], "--allow-root is about what is mounted"),
        (["--mount", "/etc"], "Allow it: --allow-root /etc\n"),
        (["--mount", "/proc/nowhere"], "There is no such file or folder: check the path\n"),
        (["--mount", "src:../x"], "--mount: the place ../x climbs out"),
        (["--setup", "npm ci"], "Work in a copy of what it prepares: --mount DIR"),
        (["--branch", "agent/x"], "Mount a repository: --mount DIR"),
        (["--thinking", "5"], "--thinking 5: it is"),
        (["--settings", "src/app.py"], "--settings src/app.py: the settings are not JSON"),
        (["--agents", "src/app.py"], "--agents src/app.py: it is no JSON: "),
        (["--output-schema", "deep.json"], "--output-schema deep.json: it is nested too deep"),
        (["--mount", "src", "--lend", "nowhere"], "--lend nowhere: no mount has such a folder"),
        (["--mount", "src", "--lend", "/usr/lib"], "what lies elsewhere is shown with --readable"),
        (["--mount", "src", "--at", "work"], "--at work is no absolute path"),
        (["--mount", "src", "--at", "/etc/x"], "nothing can be shown at '/etc/x'"),
        (["--mount", "src", "--at", "/bin/x"], "nothing can be shown at '/bin/x'"),
        (["--mount", "src", "--at", "/usr/x/y"], "nothing can be shown at '/usr/x/y'"),
        (["--env-from", "NOT_SET_HERE"], "--env-from NOT_SET_HERE: no such variable is set here"),
        (["--env", "A=1", "--env", "A=2"], "the variable A is given twice"),
        (["--env", "HOME=/x"], "env: HOME is set by the jail"),
        (["--env", "CLAUDE_CODE_SIMPLE=1"], "env: CLAUDE_CODE_SIMPLE steers the CLI itself"),
        (["--model=--bare"], "it is the name of a model, which does not begin with a dash"),
        (["--env", "a-b=1"], "env: 'a-b' is no variable"),
        (["--server", "mine="], "--server mine: there is no command"),
        (["--server", "mine='x"], "--server mine: its command cannot be read"),
        (["--server", "a=x", "--server", "a=y"], "two servers are called a"),
        (["--memory", "much"], "'much' is no number of bytes"),
    ],
)
def test_a_mistake_is_told_before_anything_starts(words: list[str], told: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "deep.json").write_text("[" * 5_000, encoding="utf-8")
    done = desk.toolkit("run", "Go.", *words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert not desk.home.exists()


def test_a_variable_without_a_value_does_not_show_what_was_written(tmp_path: Path) -> None:
    done = Desk(tmp_path).toolkit("run", "Go.", "--env", "secret-word")
    assert done.code == 2
    assert "write NAME=VALUE" in done.err
    assert "secret-word" not in done.err


@pytest.mark.parametrize("folder", ["data", "src/data", "./data/", "{src}/data"])
def test_a_lent_folder_is_written_as_people_write_it(folder: str, tmp_path: Path, scripted_api: Start) -> None:
    desk = Desk(tmp_path, scripted_api([text("Done.")]))
    (desk.src / "data").mkdir()
    done = desk.toolkit("run", "Go.", "--mount", "src", "--no-toolchain", "--lend", folder.format(src=desk.src))
    assert done.code == 0, done.err
    data = str(desk.src / "data")
    assert json.loads((desk.last().folder / "run.json").read_text())["lent"] == [
        {"host": data, "inside": data, "what": "lent"}
    ]
