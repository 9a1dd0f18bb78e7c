"""From end of file on stdin to the end of the process, while a tool runs that does not end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from tests.bench._common import Row, end_of
from tests.bench._stdio import BOUND, HERE, OURS, Peer, call, request


def main() -> Iterator[Row]:
    for tool in ("idle", "blocked", "stubborn", "hogging"):
        yield Row(f"end of file to exit, {tool}", max(_seconds_to_end(tool) for _ in range(3)), None, 1.0, "s")


def _seconds_to_end(tool: str) -> float:
    peer = Peer([*OURS, str(HERE / "stuck_tools.py")])
    peer.initialize()
    assert peer.process.stdin is not None
    if tool != "idle":
        # The answer to the ping shows that the call before it has begun.
        os.write(peer.process.stdin.fileno(), call(tool, {}, request_id=2))
        if tool != "hogging":
            peer.ask(request("ping", request_id=3))
    start = time.perf_counter()
    peer.process.stdin.close()
    end_of(peer.process, BOUND)
    taken = time.perf_counter() - start
    peer.close()
    return taken
