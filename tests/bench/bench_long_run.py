"""A million calls through one stdio server: how much it grows."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench._common import Row
from tests.bench._stdio import HERE, OURS, Peer, call, connected

CALLS = 1_000_000
_IN_FLIGHT = 50


def main() -> Iterator[Row]:
    with connected([*OURS, str(HERE / "small_tools.py")]) as peer:
        _make(peer, 10_000)
        before = peer.rss
        _make(peer, CALLS)
        yield Row("growth of a stdio server over 1,000,000 calls", peer.rss - before, None, 5.0, "MB")


def _make(peer: Peer, count: int) -> None:
    batch = b"".join(call("add", {"a": number, "b": 2}, request_id=number) for number in range(_IN_FLIGHT))
    for _ in range(count // _IN_FLIGHT):
        peer.ask_many(batch, _IN_FLIGHT)
