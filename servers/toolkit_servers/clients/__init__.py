"""Put a server into an MCP client's configuration: as text to copy, or into its file.

The file keeps everything else it has, character by character. It is written in one
step, beside a backup of what was there; a file that cannot be read is left alone.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit._base import json_text
from toolkit._base.files import umask, write_whole
from toolkit.errors import ClientConfigError
from toolkit_servers.target import Target, is_user_file


@dataclass(frozen=True, slots=True)
class Client:
    """An MCP client and how it wants its servers written down."""

    name: str
    title: str
    key: str
    """The member of its configuration file that holds the servers."""
    has_type: bool = False
    """Whether an entry says `"type": "stdio"`."""
    comments: bool = False
    """Whether its file may carry comments."""
    after: str = ""
    """What the user does next."""

    def file(self, cwd: Path, env: Mapping[str, str], platform: str = sys.platform) -> Path:
        """Where the configuration lives: in the project where the client has a project file."""
        match self.name:
            case "claude-code":
                return cwd / ".mcp.json"
            case "cursor":
                return cwd / ".cursor" / "mcp.json"
            case "vscode":
                return cwd / ".vscode" / "mcp.json"
        home = Path(env.get("HOME") or Path.home())
        if platform == "darwin":
            base = home / "Library" / "Application Support"
        elif platform == "win32":
            base = Path(env.get("APPDATA") or home / "AppData" / "Roaming")
        else:
            base = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
        return base / "Claude" / "claude_desktop_config.json"


CLIENTS = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            "Claude Code",
            "mcpServers",
            has_type=True,
            after="Start claude in this folder and approve it.",
        ),
        Client("claude-desktop", "Claude Desktop", "mcpServers", after="Quit Claude Desktop and start it again."),
        Client("cursor", "Cursor", "mcpServers", comments=True, after="Switch it on in Cursor's MCP settings."),
        Client(
            "vscode", "VS Code", "servers", has_type=True, comments=True, after="Run 'MCP: List Servers' in VS Code."
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Server:
    """A stdio server as a client starts it."""

    name: str
    command: tuple[str, ...]

    @classmethod
    def of(cls, target: Target, name: str | None = None) -> Server:
        """The `toolkit serve` command for a target, in paths that hold from any directory."""
        return cls(name or target.toolbox.name, (*_toolkit_command(), "serve", *_lasting_spec(target)))

    def entry(self, client: Client) -> dict[str, Any]:
        """The client's entry for this server."""
        kind = {"type": "stdio"} if client.has_type else {}
        return {**kind, "command": self.command[0], "args": list(self.command[1:])}

    def snippet(self, client: Client) -> str:
        """The configuration file with this server alone."""
        return json.dumps({client.key: {self.name: self.entry(client)}}, indent=2, ensure_ascii=False)

    def shell_command(self) -> str:
        """The command that adds this server to Claude Code for the user who runs it."""
        return shlex.join(["claude", "mcp", "add", self.name, "--", *self.command])


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a configuration file."""

    file: Path
    backup: Path | None
    """A copy of the file as it was; None when it is new or needed no change."""
    changed: bool


def write_server(server: Server, client: Client, file: Path) -> Written:
    """Merge a server into a client's configuration file.

    An entry of the same name is updated when it serves the same target, and keeps its
    other members (`env` and the like).

    Raises:
        ClientConfigError: the file is not JSON, cannot be read or written, or another server has that name.
    """
    file = Path(os.path.realpath(file))  # a linked file is changed where it really is
    old = _read(file)
    bom, text = ("\ufeff", old[1:]) if old and old.startswith("\ufeff") else ("", old or "")
    try:
        data = json_text.read(text, comments=client.comments)
        entry = _merged(server, client, data, file)
        new = bom + json_text.with_member(text, (client.key, server.name), entry, comments=client.comments)
    except json.JSONDecodeError as error:
        raise ClientConfigError(
            f"{file} is not valid JSON: {error.msg}",
            file=file,
            where=(f"{file}:{error.lineno}:{error.colno}",),
            fix="Correct the file, or run this without --write and copy the entry yourself; nothing was changed",
        ) from error
    except json_text.NotAnObject as error:
        raise ClientConfigError(
            f"{file}: {'.'.join(error.path) or 'the whole file'} is not a JSON object",
            file=file,
            fix="Correct the file, or run this without --write and copy the entry yourself; nothing was changed",
        ) from error
    if old is not None and json_text.read(new.removeprefix("\ufeff"), comments=client.comments) == data:
        return Written(file, None, changed=False)
    try:
        backup = _back_up(file) if old is not None else None
        _replace(file, new)
    except OSError as error:
        raise _unusable(file, error) from error
    return Written(file, backup, changed=True)


def _merged(server: Server, client: Client, data: Any, file: Path) -> dict[str, Any]:
    """The new entry, on top of what an older one of the same target has."""
    entry = server.entry(client)
    servers = data.get(client.key) if isinstance(data, dict) else None
    if not isinstance(servers, dict) or server.name not in servers:
        return entry
    old = servers[server.name]
    args = old.get("args") if isinstance(old, dict) else None
    if not isinstance(args, list) or "serve" not in args or args[-1:] != entry["args"][-1:]:
        runs = old.get("command", old.get("url", old)) if isinstance(old, dict) else old
        raise ClientConfigError(
            f"{file} already has another server called '{server.name}'",
            file=file,
            where=(f"it runs {shlex.join([str(runs), *map(str, args or [])])}",),
            fix=f"Give this one another name: --name {server.name}-2",
        )
    return {**old, **entry}


def _read(file: Path) -> str | None:
    try:
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(file, error) from error


def _back_up(file: Path) -> Path:
    """Copy the file to the first free name beside it."""
    number = 1
    while (backup := file.with_name(f"{file.name}.bak{number if number > 1 else ''}")).exists():
        number += 1
    shutil.copy2(file, backup)
    return backup


def _replace(file: Path, text: str) -> None:
    """Write the file in one step: it is either the old or the new one, never half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else 0o644 & ~umask()
    write_whole(file, text, mode=mode, durable=True)


def _unusable(file: Path, error: OSError | UnicodeDecodeError) -> ClientConfigError:
    reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
    return ClientConfigError(
        f"{file} cannot be changed: {reason}",
        file=file,
        fix="Correct that, or run this without --write and copy the entry yourself; nothing was changed",
    )


def _toolkit_command() -> list[str]:
    """The running toolkit by absolute path: a client starts it without this shell's PATH."""
    script = Path(sys.executable).with_name("toolkit.exe" if sys.platform == "win32" else "toolkit")
    # -P: the client's working directory must not supply modules to the interpreter.
    return [str(script)] if script.is_file() else [sys.executable, "-P", "-m", "toolkit"]


def _lasting_spec(target: Target) -> list[str]:
    """TARGET in a form that holds from any working directory."""
    if target.module is None and target.file is None:  # ready-made: its paths are read from the folder
        return ["--cwd", str(target.folder), target.spec]
    if target.module is None:
        return [f"{target.file}:{target.name}" if target.name else str(target.file)]
    found_here = target.file is not None and is_user_file(target.file, target.folder)
    return [*(["--cwd", str(target.folder)] if found_here else []), target.spec]
