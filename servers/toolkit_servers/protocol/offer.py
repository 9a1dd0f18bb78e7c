"""What a server says of itself: name, capabilities, tools. The same for every way of serving; loads no mcp.

`Offer` is asked by mcp's server (`build.py`) and by the kernel of stdio, so that a client cannot tell them apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolkit_servers.offering import capabilities, server_info, tells_changes
from toolkit_servers.protocol.wire import JsonList

if TYPE_CHECKING:
    from toolkit.tools import Toolbox

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Protocol versions that begin with `initialize`."""
MODERN_VERSION = "2026-07-28"
"""The version without a session: every request carries the envelope."""

_KEYS = "io.modelcontextprotocol/"
VERSION_KEY = f"{_KEYS}protocolVersion"
CAPABILITIES_KEY = f"{_KEYS}clientCapabilities"
CLIENT_KEY = f"{_KEYS}clientInfo"
LOG_LEVEL_KEY = f"{_KEYS}logLevel"
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""From the least severe to the most."""
SERVER_KEY = f"{_KEYS}serverInfo"
TOOL_USE_ID = "claudecode/toolUseId"
"""The id by which Claude Code's own events name a call."""

_NEVER_CACHED = {"ttlMs": 0, "cacheScope": "private"}


class Offer:
    """A Toolbox as clients are told of it; another may take its place while they stay connected."""

    def __init__(self, box: Toolbox, *, notifies: bool, reloads: bool) -> None:
        self.toolbox = box
        """The tools of the next request."""
        self.notifies = notifies
        """Whether a tool's progress and log messages reach the client."""
        self.reloads = reloads
        """Whether the tools may change."""
        self.server_info = server_info(box)
        self.instructions = box.instructions
        self._listed: tuple[Toolbox, dict[bool, dict[str, Any]]] = (box, {})

    @property
    def is_live(self) -> bool:
        """Whether clients hear of changes."""
        return tells_changes(self.toolbox, notifies=self.notifies, reloads=self.reloads)

    def capabilities(self) -> dict[str, Any]:
        """What clients may ask for, in both eras."""
        return capabilities(self.toolbox, notifies=self.notifies, reloads=self.reloads)

    def greeting(self, version: str) -> dict[str, Any]:
        """The result of `initialize`."""
        return {
            "protocolVersion": version,
            "capabilities": self.capabilities(),
            "serverInfo": self.server_info,
            **self._said_instructions(),
        }

    def discovery(self) -> dict[str, Any]:
        """The result of `server/discover`."""
        return self.stamped(
            {
                **_NEVER_CACHED,
                "supportedVersions": [MODERN_VERSION],
                "capabilities": self.capabilities(),
                **self._said_instructions(),
            }
        )

    def listing(self, *, modern: bool) -> dict[str, Any]:
        """The result of `tools/list`, made once for each Toolbox and era."""
        box = self.toolbox
        if self._listed[0] is not box:
            self._listed = (box, {})
        ready = self._listed[1]
        if modern not in ready:
            tools = JsonList(box.listing())
            ready[modern] = self.stamped({**_NEVER_CACHED, "tools": tools}) if modern else {"tools": tools}
        return ready[modern]

    def stamped(self, result: dict[str, Any]) -> dict[str, Any]:
        """What 2026-07-28 wants in every result."""
        kind = result.get("resultType", "complete")
        return {**result, "resultType": kind, "_meta": {SERVER_KEY: self.server_info}}

    def _said_instructions(self) -> dict[str, str]:
        return {} if self.instructions is None else {"instructions": self.instructions}
