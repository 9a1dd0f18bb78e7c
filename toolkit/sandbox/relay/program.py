"""How a stdio server is started in the jail so that the launcher hears what it says.

The CLI starts a program of ours with the server's own command behind it. What the CLI writes
goes straight to the server; what the server writes goes out to the launcher, comes back, and
only then reaches the CLI. The server is in namespaces of its own: it cannot open the handle that
leads on to the CLI.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from toolkit.sandbox.jail.walls import APART

PROGRAM = "server"
"""The program's name, among those that the CLI starts others with."""
SOCKET_NAME = "s"
"""The relay's socket, in the same folder; short, as paths of sockets have to be."""
_PATIENCE = 60
"""Seconds that the last words of a server that ended have to get to the CLI."""


def relay_program(bwrap: str, socat: str) -> str:
    """The text of the program: `server NAME COMMAND ARGUMENT…`."""
    apart = f"{shlex.quote(bwrap)} --unshare-user --unshare-pid --die-with-parent --dev-bind / /"
    away = f"{shlex.quote(socat)} -t {_PATIENCE} STDIO UNIX-CONNECT:{APART}/{SOCKET_NAME}"
    return f"""\
#!/bin/sh
name=$1
shift
{{ printf '%s\\n' "$name"; exec {apart} -- "$@"; }} | exec {away}
"""


def relayed(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a stdio server, for a jail with a relay: it says `name` of itself there."""
    return {**config, "command": f"{APART}/{PROGRAM}", "args": [name, config["command"], *config.get("args", ())]}
