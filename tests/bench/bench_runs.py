"""What `run` costs beside the bare SDK: a whole run, a long stream, and the memory of a longer one."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, StreamEvent, query

from tests.bench._common import Row, interleave
from toolkit.runs import run, start
from toolkit.runs.storage import EventLog
from toolkit.runs.turn.translate import Translator
from toolkit.sandbox import confine
from toolkit.testing import FakeCLI, ScriptedAPI, Turn, text, tool_use

_DELTAS = 10_000
_EVENTS = 100_000


def main() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as home:
        os.environ["TOOLKIT_HOME"] = home
        yield _whole_run()
        yield _long_stream()
        yield _memory(Path(home))


def _whole_run() -> Row:
    """The same script in the same jail: `run` with its events and its store, against the SDK's `query`."""
    script = ([text("a"), tool_use("Bash", command="true")], [text("b")])

    async def ours() -> None:
        with ScriptedAPI(*script) as api:
            assert (await run("go", api_url=api.url, api_key="fake")).ok

    async def theirs() -> None:
        with ScriptedAPI(*script) as api, tempfile.TemporaryDirectory() as folder:
            async with confine(folder, api_url=api.url, api_key="fake") as jail:
                options = ClaudeAgentOptions(**jail.options(), include_partial_messages=True)
                async for _ in query(prompt="go", options=options):
                    pass

    pair = interleave(lambda: asyncio.run(ours()), lambda: asyncio.run(theirs()), rounds=8)
    return pair.row("run against the SDK's query, both in the jail", 1.03)


def _long_stream() -> Row:
    def cli() -> FakeCLI:
        return FakeCLI(Turn([text("x" * _DELTAS)], chunk=1))

    async def ours() -> None:
        async with start("go", transport=cli()) as live:
            count = 0
            async for event in live:
                count += event.kind == "text"
        assert count == _DELTAS

    async def theirs() -> None:
        count = 0
        async for message in cli().query("go", include_partial_messages=True):
            count += isinstance(message, StreamEvent)
        assert count >= _DELTAS

    pair = interleave(lambda: asyncio.run(ours()), lambda: asyncio.run(theirs()), rounds=5)
    return pair.row(f"{_DELTAS:,} text deltas as events against the SDK's iteration", 1.2)


def _memory(home: Path) -> Row:
    """Growth of a process that makes, keeps and reads 100,000 events."""
    return Row(f"growth over {_EVENTS:,} events", asyncio.run(_growth(home)), None, 5.0, "MB")


async def _growth(home: Path) -> float:
    log = EventLog(home / "events.jsonl")
    translator = Translator("run", lambda: 0.0)
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x" * 20}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
    stop = {"type": "content_block_stop", "index": 0}
    first = {"type": "message_start", "message": {"id": "m", "model": "m", "usage": {}}}

    def feed(event: dict[str, Any]) -> None:
        for made in translator.feed(StreamEvent(uuid="u", session_id="s", event=event)):
            log.append(made)

    async def read() -> None:
        async for _ in log.follow():
            pass

    reader = asyncio.create_task(read())
    feed(first)
    before = 0.0
    for number in range(_EVENTS):
        if number % 100 == 0:
            if number:
                feed(stop)
            feed(block)
            await asyncio.sleep(0)
        if number == _EVENTS // 10:
            before = _rss()
        feed(delta)
    await asyncio.sleep(0)
    after = _rss()
    log.close()
    await reader
    return after - before


def _rss() -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")
