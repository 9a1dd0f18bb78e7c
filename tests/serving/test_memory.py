"""A server that runs for long does not grow. The bench makes a million calls; this is the short form."""

from __future__ import annotations

import json
from pathlib import Path

from tests.serving._client import Served

TOOLS = """
@tool
async def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

@tool
def shout(text: str) -> str:
    "In capitals, in a thread."
    return text.upper()

@tool
async def fails() -> str:
    "Fail."
    raise ToolError("no")

box = Toolbox("many", [add, shout, fails])
"""
CALLS = [
    {"name": "add", "arguments": {"a": 1, "b": 2}},
    {"name": "shout", "arguments": {"text": "x" * 100}},
    {"name": "add", "arguments": {"a": "one"}},
    {"name": "fails", "arguments": {}},
    {"name": "missing", "arguments": {}},
]


def _make_calls(served: Served, count: int) -> None:
    """Keep 50 calls in flight."""
    lines = [json.dumps({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": CALLS[n % 5]}) for n in range(50)]
    batch = "\n".join(lines).encode() + b"\n"
    for _ in range(count // 50):
        served.send_bytes(batch)
        assert {served.read()["id"] for _ in range(50)} == set(range(50))


def test_twenty_thousand_calls_leave_the_process_as_large_as_it_was(tmp_path: Path) -> None:
    with Served(tmp_path, TOOLS) as served:
        served.initialize()
        _make_calls(served, 2_000)
        before = served.rss
        _make_calls(served, 20_000)
        assert served.rss - before < 5_000_000
