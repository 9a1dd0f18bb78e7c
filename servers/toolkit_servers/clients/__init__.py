"""Put a server into an MCP client's configuration: as text to copy, or into its file (`write_server`)."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit_servers.clients._config_file import write_server
from toolkit_servers.clients._remote import RemoteServer
from toolkit_servers.target import Target, is_user_file

__all__ = ["CLIENTS", "Client", "RemoteServer", "Server", "write_server"]


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
    project_file: str = ""
    """Its configuration file in a project, where it has one."""

    def file(self, cwd: Path, env: Mapping[str, str], platform: str = sys.platform) -> Path:
        """Where the configuration lives: in the project where the client has a project file."""
        if self.project_file:
            return cwd / self.project_file
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
            project_file=".mcp.json",
        ),
        Client("claude-desktop", "Claude Desktop", "mcpServers", after="Quit Claude Desktop and start it again."),
        Client(
            "cursor",
            "Cursor",
            "mcpServers",
            comments=True,
            after="Switch it on in Cursor's MCP settings.",
            project_file=".cursor/mcp.json",
        ),
        Client(
            "vscode",
            "VS Code",
            "servers",
            has_type=True,
            comments=True,
            after="Run 'MCP: List Servers' in VS Code.",
            project_file=".vscode/mcp.json",
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

    def is_same(self, old: object) -> bool:
        """Whether an entry in a file serves the same target, perhaps by another command."""
        args = old.get("args") if isinstance(old, dict) else None
        return isinstance(args, list) and "serve" in args and args[-1:] == [self.command[-1]]


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
