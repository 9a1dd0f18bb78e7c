"""`toolkit install` prints an entry that works from any folder, or merges it into a client's file and keeps the rest."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.cli._command import TOOLKIT, toolkit, write
from tests.serving._client import BOUND, HANDSHAKE
from toolkit.errors import ClientConfigError
from toolkit_servers.clients import CLIENTS, Server, write_server

TOOLS = "from toolkit import tool\n\n\n@tool\ndef double(number: int) -> int:\n    return number * 2\n"
SERVER = Server("notes", ("/bin/toolkit", "serve", "/home/me/notes.py"))
ENTRY = {"command": "/bin/toolkit", "args": ["serve", "/home/me/notes.py"]}
CODE, DESKTOP, CURSOR, VSCODE = (CLIENTS[name] for name in ("claude-code", "claude-desktop", "cursor", "vscode"))


def serves(entry: dict[str, Any], cwd: Path) -> str:
    """The name the server in a client's entry gives itself, started as the client would."""
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}) + "\n"
    command = [entry["command"], *entry["args"]]
    done = subprocess.run(
        command, input=hello, cwd=cwd, env={}, capture_output=True, text=True, timeout=BOUND, check=True
    )
    name: str = json.loads(done.stdout)["result"]["serverInfo"]["name"]
    return name


@pytest.mark.parametrize(
    ("target", "client", "key"),
    [
        ("notes.py", "claude-code", "mcpServers"),
        ("./notes.py:double", "claude-desktop", "mcpServers"),
        ("app.tools", "cursor", "mcpServers"),
        ("notes:double", "vscode", "servers"),
    ],
)
def test_the_printed_entry_starts_the_server_from_any_folder(
    target: str, client: str, key: str, tmp_path: Path
) -> None:
    write(tmp_path, notes=TOOLS, app__tools="from .words import *\n" + TOOLS, app__words="")
    (tmp_path / "elsewhere").mkdir()

    done = toolkit("install", target, "--client", client, "--name", "mine", cwd=tmp_path)

    entry = json.loads(done.out.replace("<here>", str(tmp_path.resolve())).replace("<toolkit>", str(TOOLKIT)))[key][
        "mine"
    ]
    assert done.code == 0
    assert ("type" in entry) == (client in ("claude-code", "vscode"))
    assert serves(entry, tmp_path / "elsewhere") == ("tools" if "app" in target else "notes")


def test_a_first_install_writes_a_new_file_and_says_where(tmp_path: Path) -> None:
    write(tmp_path, notes=TOOLS)
    done = toolkit("install", "notes.py", "--client", "cursor", "--write", cwd=tmp_path)
    assert (done.out, done.code) == ("<here>/.cursor/mcp.json\n", 0)
    assert "Cursor has the server 'notes' now." in done.err
    assert list(json.loads((tmp_path / ".cursor" / "mcp.json").read_text(encoding="utf-8"))["mcpServers"]) == ["notes"]
    assert [file.name for file in (tmp_path / ".cursor").iterdir()] == ["mcp.json"]


def test_without_write_no_file_is_touched(tmp_path: Path) -> None:
    write(tmp_path, notes=TOOLS)
    done = toolkit("install", "notes.py", cwd=tmp_path)
    assert not (tmp_path / ".mcp.json").exists()
    assert "claude mcp add notes -- <toolkit> serve <here>/notes.py" in done.err


def test_a_target_that_does_not_load_is_not_installed(tmp_path: Path) -> None:
    done = toolkit("install", "notes.py", "--write", cwd=tmp_path)
    assert (done.code, list(tmp_path.iterdir())) == (2, [])


BEFORE = """{
    "theme" : "dark",   "list": [1,2,
      3],
    "mcpServers": {
        "other": {"command": "npx", "args": ["-y", "other"], "env": {"KEY": "ü"}}
    },
    "last": null
}
"""
AFTER = """{
    "theme" : "dark",   "list": [1,2,
      3],
    "mcpServers": {
        "other": {"command": "npx", "args": ["-y", "other"], "env": {"KEY": "ü"}},
        "notes": {
            "command": "/bin/toolkit",
            "args": [
                "serve",
                "/home/me/notes.py"
            ]
        }
    },
    "last": null
}
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["plain", "byte order mark"])
def test_every_other_character_of_the_file_stays(start: str, newline: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    before, after = (start + text.replace("\n", newline) for text in (BEFORE, AFTER))
    file.write_bytes(before.encode())

    written = write_server(SERVER, DESKTOP, file)

    assert file.read_bytes().decode() == after
    assert written.backup is not None
    assert written.backup.read_bytes().decode() == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        "{}",
        "{ }\n",
        '{"a": 1}',
        '{"mcpServers": {}}',
        '{"mcpServers": {"x": {}}}',
        '{\t"mcpServers":{\n}\n}',
    ],
)
def test_any_readable_file_takes_the_server(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(text, encoding="utf-8")
    before = json.loads(text) if text.strip() else {}

    write_server(SERVER, DESKTOP, file)

    after = json.loads(file.read_text(encoding="utf-8"))
    assert after == {**before, "mcpServers": {**before.get("mcpServers", {}), "notes": ENTRY}}


def test_comments_of_vs_code_stay(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(
        '{\n  // mine "{\n  "servers": {\n    /* none yet, see https://x */\n  }, // end\n}\n', encoding="utf-8"
    )

    write_server(SERVER, VSCODE, file)
    write_server(Server("more", SERVER.command), VSCODE, file)

    text = file.read_text(encoding="utf-8")
    assert text.startswith('{\n  // mine "{\n  "servers": {\n    /* none yet, see https://x */\n    "notes": {')
    assert text.endswith("    }\n  }, // end\n}\n")
    assert text.count('"more"') == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [('{"mcpServers": {},}', 1), ("{\n// no\n}", 2), ("[1, 2]", None), ('{"mcpServers": []}', None), ('{"a": 1', 1)],
)
def test_a_file_that_cannot_be_read_is_left_alone(text: str, line: int | None, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(ClientConfigError) as caught:
        write_server(SERVER, DESKTOP, file)

    assert caught.value.file == file.resolve()
    assert line is None or f":{line}:" in caught.value.where[0]
    assert file.read_text(encoding="utf-8") == text
    assert list(tmp_path.iterdir()) == [file]


def test_broken_json_is_answered_with_its_place_and_a_way_out(tmp_path: Path) -> None:
    write(tmp_path, notes=TOOLS)
    (tmp_path / ".mcp.json").write_text('{\n  "mcpServers": {\n}\n', encoding="utf-8")
    done = toolkit("install", "notes.py", "--write", cwd=tmp_path)
    assert (done.out, done.code) == ("", 1)
    assert (
        done.err
        == """\
<here>/.mcp.json is not valid JSON: Expecting ',' delimiter
  <here>/.mcp.json:4:1
  Correct the file, or run this without --write and copy the entry yourself; nothing was changed
"""
    )


def test_installing_twice_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    first, second = (write_server(SERVER, CODE, file) for _ in range(2))
    assert (first.changed, second.changed, second.backup) == (True, False, None)
    assert list(tmp_path.iterdir()) == [file]


def test_an_older_entry_of_the_same_target_is_updated_and_keeps_its_environment(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    old = {"command": "/old/toolkit", "args": ["serve", "/home/me/notes.py"], "env": {"KEY": "1"}, "disabled": True}
    file.write_text(json.dumps({"mcpServers": {"notes": old}}), encoding="utf-8")

    write_server(SERVER, DESKTOP, file)

    assert json.loads(file.read_text(encoding="utf-8")) == {"mcpServers": {"notes": {**old, **ENTRY}}}


@pytest.mark.parametrize(
    "other",
    [
        {"command": "npx", "args": ["notes"]},
        {"url": "http://x"},
        {"command": "/bin/toolkit", "args": ["serve", "/other.py"]},
        None,
        5,
    ],
)
def test_another_server_of_that_name_is_never_replaced(other: object, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    text = json.dumps({"mcpServers": {"notes": other}})
    file.write_text(text, encoding="utf-8")

    with pytest.raises(ClientConfigError, match="another server called 'notes'"):
        write_server(SERVER, DESKTOP, file)

    assert file.read_text(encoding="utf-8") == text


def test_backups_never_replace_each_other(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text("{}", encoding="utf-8")
    backups = [write_server(Server(name, SERVER.command), DESKTOP, file).backup for name in ("a", "b", "c")]
    assert [backup.name for backup in backups if backup] == ["config.json.bak", "config.json.bak2", "config.json.bak3"]
    assert (tmp_path / "config.json.bak").read_text(encoding="utf-8") == "{}"


def test_a_link_and_the_files_mode_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles.json", tmp_path / "config.json"
    real.write_text("{}", encoding="utf-8")
    real.chmod(0o600)
    link.symlink_to(real)

    write_server(SERVER, DESKTOP, link)

    assert link.is_symlink()
    assert json.loads(real.read_text(encoding="utf-8")) == {"mcpServers": {"notes": ENTRY}}
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


def test_a_write_that_fails_leaves_the_old_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.json"
    file.write_text("{}", encoding="utf-8")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ClientConfigError, match="No space left on device"):
        write_server(SERVER, DESKTOP, file)

    assert file.read_text(encoding="utf-8") == "{}"
    assert {each.name for each in tmp_path.iterdir()} <= {"config.json", "config.json.bak"}


@pytest.mark.parametrize(
    ("client", "platform", "env", "expected"),
    [
        (CODE, "linux", {}, "/project/.mcp.json"),
        (CURSOR, "linux", {}, "/project/.cursor/mcp.json"),
        (VSCODE, "linux", {}, "/project/.vscode/mcp.json"),
        (DESKTOP, "linux", {}, "/home/me/.config/Claude/claude_desktop_config.json"),
        (DESKTOP, "linux", {"XDG_CONFIG_HOME": "/cfg"}, "/cfg/Claude/claude_desktop_config.json"),
        (DESKTOP, "darwin", {}, "/home/me/Library/Application Support/Claude/claude_desktop_config.json"),
        (DESKTOP, "win32", {"APPDATA": "/roaming"}, "/roaming/Claude/claude_desktop_config.json"),
    ],
)
def test_each_client_has_its_file(client: Any, platform: str, env: dict[str, str], expected: str) -> None:
    assert client.file(Path("/project"), {"HOME": "/home/me", **env}, platform) == Path(expected)


def test_the_real_client_accepts_the_written_file(tmp_path: Path) -> None:
    write(tmp_path, notes=TOOLS)
    toolkit("install", "notes.py", "--write", cwd=tmp_path)
    sdk = find_spec("claude_agent_sdk")
    assert sdk is not None
    assert sdk.origin is not None
    env = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "ANTHROPIC_API_KEY": "fake",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    command = [str(Path(sdk.origin).parent / "_bundled" / "claude"), "mcp", "get", "notes"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert f"Args: serve {tmp_path.resolve()}/notes.py" in done.stdout, done.stdout + done.stderr
    assert "Scope: Project" in done.stdout
