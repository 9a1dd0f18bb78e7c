"""stdio against mcp's lowlevel Server on its own stdio, and a long tools/list against mcp's MCPServer."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator

from tests.bench._common import Pair, Row
from tests.bench._stdio import HERE, OURS, Peer, call, connected, request

SMALL_OURS = [*OURS, str(HERE / "small_tools.py")]
SMALL_THEIRS = [sys.executable, str(HERE / "small_tools_mcp.py")]
MANY_OURS = [*OURS, str(HERE / "many_tools.py")]
MANY_THEIRS = [sys.executable, str(HERE / "many_tools.py")]

ITEMS = [{"name": f"item number {number}", "quantity": number, "tags": ["red", "large", "new"]} for number in range(25)]
ORDER = {"number": 17, "note": "leave it at the door", "items": ITEMS}
SMALL = call("add", {"a": 1, "b": 2})
NESTED = call("total", {"order": ORDER})


def main() -> Iterator[Row]:
    assert 1_900 < len(NESTED) < 2_300
    with connected(SMALL_OURS) as ours, connected(SMALL_THEIRS) as theirs:
        _check_same(ours, theirs)
        yield _alternate(ours, theirs, SMALL, batches=20, calls=150).row("stdio call, small, p50", 0.2, unit="us")
        nested = _alternate(ours, theirs, NESTED, batches=20, calls=100)
        yield nested.row("stdio call, 2 KB nested dataclass, p50", 1.0, unit="us")
    yield _spawns(rounds=11).row("stdio spawn, initialize, tools/list", 0.3)
    yield _crowds(rounds=5).row("twenty of our servers ready / five of mcp's", 1.0)
    yield _peaks(rounds=5).row("stdio spawn, initialize, tools/list: peak memory", 0.55, unit="MB")
    with connected(MANY_OURS) as ours, connected(MANY_THEIRS) as theirs:
        listing = _alternate(ours, theirs, request("tools/list"), batches=6, calls=5)
        yield listing.row("stdio tools/list of 1,000 tools, steady", 0.3)


def _check_same(ours: Peer, theirs: Peer) -> None:
    """Both sides do the work that is compared."""
    for line, expected in ((SMALL, "3"), (NESTED, "300")):
        for peer in (ours, theirs):
            assert json.loads(peer.ask(line))["result"]["content"][0]["text"] == expected


def _alternate(ours: Peer, theirs: Peer, line: bytes, *, batches: int, calls: int) -> Pair:
    pair = Pair([], [])
    sides: list[tuple[Callable[[bytes], bytes], list[float]]] = [(ours.ask, pair.ours), (theirs.ask, pair.theirs)]
    for ask, _ in sides:
        ask(line)
    for turn in range(batches):
        for ask, times in sides if turn % 2 == 0 else reversed(sides):
            for _ in range(calls):
                start = time.perf_counter()
                ask(line)
                times.append(time.perf_counter() - start)
    return pair


def _crowds(*, rounds: int) -> Pair:
    """All are started at once, as a client does, and then asked for their tools, until the last has listed them."""
    pair = Pair([], [])
    sides = [(SMALL_OURS, 20, pair.ours), (SMALL_THEIRS, 5, pair.theirs)]
    for turn in range(rounds):
        for argv, count, times in sides if turn % 2 == 0 else reversed(sides):
            start = time.perf_counter()
            peers = [Peer(argv) for _ in range(count)]
            try:
                for peer in peers:
                    peer.initialize()
                for peer in peers:
                    peer.ask(request("tools/list"))
                times.append(time.perf_counter() - start)
            finally:
                for peer in peers:
                    peer.close()
    return pair


def _peaks(*, rounds: int) -> Pair:
    pair = Pair([], [])
    for _ in range(rounds):
        for argv, taken in ((SMALL_OURS, pair.ours), (SMALL_THEIRS, pair.theirs)):
            with connected(argv) as peer:
                peer.ask(request("tools/list"))
                taken.append(peer.peak)
    return pair


def _spawns(*, rounds: int) -> Pair:
    """Until the tools are listed; how a server ends is another row."""
    pair = Pair([], [])
    sides = [(SMALL_OURS, pair.ours), (SMALL_THEIRS, pair.theirs)]
    for turn in range(-1, rounds):
        for argv, times in sides if turn % 2 == 0 else reversed(sides):
            start = time.perf_counter()
            with connected(argv) as peer:
                peer.ask(request("tools/list"))
                taken = time.perf_counter() - start
            if turn >= 0:
                times.append(taken)
    return pair
