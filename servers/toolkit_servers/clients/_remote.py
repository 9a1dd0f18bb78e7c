"""A server that a client reaches by its URL. The token is named by a variable, never written down."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit_servers.clients import Client

_VARIABLES = {"claude-code": "${%s}", "cursor": "${env:%s}", "vscode": "${env:%s}"}
"""How each client writes the value of a variable; a client that is not here reaches no URL from its file."""


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """An HTTP server as a client reaches it."""

    name: str
    url: str
    token_variable: str | None = None
    """The environment variable with the bearer token, where one is needed."""

    @classmethod
    def of(cls, url: str, name: str | None = None, token_variable: str | None = None) -> RemoteServer:
        """The server at a URL, under its host's name unless another is given.

        Raises:
            ToolkitError: it is no URL, or no variable can be called so.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ToolkitError(f"'{url}' is no URL of a server", fix="Write it whole: https://tools.example/mcp")
        if parts.username or parts.password:
            raise ToolkitError("a URL with a password would be written down", fix="Use a token: --token-env NAME")
        if token_variable is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", token_variable):
            # Not what was given: it may be the token itself.
            raise ToolkitError("--token-env takes the name of a variable, not a token", fix="--token-env TOOLKIT_TOKEN")
        return cls(name or re.sub(r"[^A-Za-z0-9_-]+", "-", parts.hostname), url, token_variable)

    def entry(self, client: Client) -> dict[str, Any]:
        """The client's entry for this server.

        Raises:
            ToolkitError: the client's file takes no URLs.
        """
        if client.name not in _VARIABLES:
            raise ToolkitError(
                f"the configuration file of {client.title} takes no URL",
                fix=f"Add it as a connector in its settings: {self.url}",
            )
        kind = {"type": "http"} if client.has_type else {}
        entry: dict[str, Any] = {**kind, "url": self.url}
        if self.token_variable is not None:
            value = _VARIABLES[client.name] % self.token_variable
            entry["headers"] = {"Authorization": f"Bearer {value}"}
        return entry

    def snippet(self, client: Client) -> str:
        """The configuration file with this server alone."""
        return json.dumps({client.key: {self.name: self.entry(client)}}, indent=2, ensure_ascii=False)

    def shell_command(self) -> str:
        """The command that adds this server to Claude Code for the user who runs it."""
        command = ["claude", "mcp", "add", "--transport", "http", self.name, self.url]
        if self.token_variable is not None:
            # In quotes, so that the variable is filled in by Claude Code at each start and the token is in no file.
            command += ["--header", f"Authorization: Bearer ${{{self.token_variable}}}"]
        return shlex.join(command)

    def is_same(self, old: object) -> bool:
        """Whether an entry in a file is this server, perhaps with other settings."""
        return isinstance(old, dict) and old.get("url") == self.url
