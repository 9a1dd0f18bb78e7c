"""Ports inside a jail that lead to the gate, since programs know a proxy, and a server, by its port only.

There is a proxy for commands, also where no domain is allowed: what they ask for in vain is told
then, with what would allow it. It does not lead to the model API: what commands asked there, no
limit in dollars would count. For each port of the host's loopback that was allowed, the same
port leads there, so that a URL means the same inside and outside. Only the processes beside the
CLI can use those: commands have a network of their own, and their proxy does not know the word
that the gate wants to hear first.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from toolkit.errors import SandboxError
from toolkit.sandbox.jail.walls import PATH, PROXY_SOCKET

PROXY_PORT = 3129
_FIRST_FREE = 1024
"""Lower ones take a capability."""


# A command may want the proxy at once. `grep` and not a connection: the gate would count that one.
_ONCE_IT_LISTENS = f"""\
tries=0
until grep -q ":{PROXY_PORT:04X} 00000000:0000 0A" /proc/net/tcp; do
    tries=$((tries + 1))
    [ $tries -lt 1000 ] || {{ echo "the way out cannot be opened" >&2; exit 125; }}
    sleep 0.01
done
"""


def bridge(*, has_proxy: bool, host_ports: Sequence[int] = (), word: str = "", waits: bool = False) -> list[str]:
    """What to start before the CLI, and in front of its command; nothing where no port is needed.

    With `waits` the command is started only once the proxy can be used.

    Raises:
        SandboxError: a port that is taken inside.
    """
    for port in host_ports:
        if port == PROXY_PORT or not _FIRST_FREE <= port <= 65_535:
            raise SandboxError(
                f"port {port} cannot be opened in a jail", fix="Let the server listen on another, above 1024"
            )
    if not has_proxy and not host_ports:
        return []
    socat = shutil.which("socat", path=PATH) or "socat"  # not one that stands before it inside
    started = [f"{socat} {_listen(PROXY_PORT)} UNIX-CONNECT:{PROXY_SOCKET}"]
    for port in host_ports:
        asked = f"PROXY:127.0.0.1:127.0.0.1:{port},proxyport={PROXY_PORT},proxyauth={word}"
        started.append(f"{socat} {_listen(port)} {asked}")
    script = "".join(f"{command} {'2>/dev/null ' if waits else ''}& " for command in started)
    return ["/bin/sh", "-c", f'{script}{_ONCE_IT_LISTENS if waits else ""}exec "$@"', "sh"]


def _listen(port: int) -> str:
    return f"TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr"
