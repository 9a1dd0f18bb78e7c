"""Serve targets over stdin and stdout, which belong to the protocol from before the user's code is imported."""

from __future__ import annotations

import sys

from toolkit_servers.stdio import claim_stdio, explain_first_print, serve_stdio

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def serve_over_stdio(specs: Sequence[str], *, name: str | None = None, reload: bool = False) -> None:
    """Serve until the client is gone; `reload` follows changes of the files."""
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(f"Waiting for an MCP client on stdin. To try a tool: toolkit call {specs[0]} TOOL\n")
    wires = claim_stdio()
    explain_first_print()
    from toolkit_servers.target import load_targets

    target = load_targets(specs, name=name)
    if not reload:
        serve_stdio(target.toolbox, wires)
        return
    from toolkit_servers import Reload

    serve_stdio(Reload(target), wires)
