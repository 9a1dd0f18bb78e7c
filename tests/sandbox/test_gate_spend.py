"""A spend limit holds against clients that hang up, that ask all at once, and an API that never answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.upstream import (
    API,
    HELLO,
    WAIT,
    Jailed,
    Seen,
    answer_hello,
    delta_event,
    loopback_api,
    post_bytes,
    send_json,
    send_stream,
    sse,
    start_event,
)
from toolkit.sandbox import Gate, ModelCall, SpendLimit

KEY = "key"
LIMITS = [SpendLimit(tokens=100), SpendLimit(usd=1.0, price=lambda call: call.tokens / 100)]
IDS = ["tokens", "usd"]


async def settled(api: API) -> None:
    """Wait until the API was hung up on: the gate has entered the call by then."""
    async with asyncio.timeout(WAIT):
        await api.hangups.get()


async def ask_and_hang_up(path: Path, arrived: asyncio.Queue[None]) -> bool:
    """Ask, and leave as soon as the API has the request; whether it got there."""
    async with Jailed(path) as agent:
        agent.writer.write(post_bytes(HELLO))
        waits = {asyncio.ensure_future(arrived.get()), asyncio.ensure_future(agent.reader.read(1))}
        done, _ = await asyncio.wait(waits, timeout=WAIT, return_when=asyncio.FIRST_COMPLETED)
        for one in waits - done:
            one.cancel()
        return not arrived.empty() or any(one.result() is None for one in done)


@pytest.mark.parametrize("limit", LIMITS, ids=IDS)
async def test_calls_hung_up_before_their_answer_are_counted(tmp_path: Path, limit: SpendLimit) -> None:
    arrived: asyncio.Queue[None] = asyncio.Queue()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        arrived.put_nowait(None)  # and no answer

    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s", spend_limit=limit) as gate:
        for _ in range(40):
            if await ask_and_hang_up(tmp_path / "s", arrived):
                await settled(api)
        assert len(api.seen) == 3  # about 40 tokens each, by their length and max_tokens
        assert gate.usage.tokens >= 100
        assert gate.usage.estimated == gate.usage.tokens
        assert all(call.is_estimate for call in gate.calls)
        assert gate.audit[-1].code == "spend"


@pytest.mark.parametrize("limit", LIMITS, ids=IDS)
async def test_calls_that_leave_together_cannot_pass_the_limit_together(tmp_path: Path, limit: SpendLimit) -> None:
    most = under_way = 0

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        for _ in range(20):  # as long as others need to get here as well
            await asyncio.sleep(0)
        under_way -= 1
        await send_stream(writer, sse(start_event(input_tokens=15)), sse(delta_event(output_tokens=10)))

    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s", spend_limit=limit) as gate:
        async with asyncio.timeout(WAIT):
            statuses = await asyncio.gather(*(self_contained(tmp_path / "s") for _ in range(40)))
        assert sorted(statuses) == [200] * 4 + [429] * 36
        assert (len(api.seen), gate.usage.tokens, gate.usage.estimated) == (4, 100, 0)
        assert most == 2  # two may come to less than the limit, three may not


async def self_contained(path: Path) -> int:
    async with Jailed(path) as agent:
        return (await agent.post(HELLO)).status


async def test_an_answer_hung_up_on_halfway_costs_what_was_said_until_then(tmp_path: Path) -> None:
    said = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word " * 60}}

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        piece = sse(start_event(input_tokens=500), said, said)
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()

    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s") as gate:
        async with Jailed(tmp_path / "s") as agent, asyncio.timeout(WAIT):
            agent.writer.write(post_bytes({**HELLO, "max_tokens": 10_000}))
            await agent.reader.readuntil(b'word "}}\n\n')
        await settled(api)
        async with Jailed(tmp_path / "s") as agent, asyncio.timeout(WAIT):
            agent.writer.write(post_bytes({**HELLO, "max_tokens": 20}))
            await agent.reader.readuntil(b'word "}}\n\n')
        await settled(api)
        first, second = gate.calls

    assert first.input == second.input == 500  # this much the API has told
    assert 2 * 60 <= first.output <= 4 * 60
    assert second.output == 20  # it was not allowed to say more
    assert first.is_estimate


async def test_of_several_answers_that_pass_the_limit_together_one_is_seen_through(tmp_path: Path) -> None:
    said = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word " * 1_200}}

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        pieces = [sse(start_event(input_tokens=50))] + [sse(said)] * 8 + [sse(delta_event(output_tokens=9_600))]
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in pieces:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
            for _ in range(20):  # for the others to say as much
                await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")

    async def ask() -> bool:
        async with Jailed(tmp_path / "s") as agent, asyncio.timeout(WAIT):
            agent.writer.write(post_bytes({**HELLO, "max_tokens": 100_000}))
            try:
                return b"message_delta" in await agent.reader.readuntil(b"0\r\n\r\n")
            except asyncio.IncompleteReadError:
                return False

    limit = SpendLimit(tokens=25_000)
    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s", spend_limit=limit) as gate:
        seen_through = await asyncio.gather(ask(), ask(), ask())
        assert len(api.seen) == 3
        assert sum(seen_through) == 1
        assert [refusal.code for refusal in gate.audit] == ["spend", "spend"]
        assert 25_000 <= gate.usage.tokens < 40_000


async def test_an_answer_that_came_whole_is_exact_even_if_nobody_reads_its_end(tmp_path: Path) -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        piece = sse(start_event(input_tokens=10), delta_event(output_tokens=5))
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()

    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s") as gate:
        async with Jailed(tmp_path / "s") as agent, asyncio.timeout(WAIT):
            agent.writer.write(post_bytes(HELLO))
            await agent.reader.readuntil(b"message_delta")
        await settled(api)
        assert gate.calls == (ModelCall("msg_1", "claude-test", input=10, output=5),)
        assert gate.usage.estimated == 0


async def _refuses(seen: Seen, writer: asyncio.StreamWriter) -> None:
    await send_json(writer, {"type": "error"}, status=529)


async def _closes(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def _compresses(seen: Seen, writer: asyncio.StreamWriter) -> None:
    await send_json(writer, {}, extra=b"content-encoding: gzip\r\n")


async def _breaks_off(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{")
    await writer.drain()
    writer.transport.abort()


@pytest.mark.parametrize(
    ("answer", "costs"),
    [(_refuses, False), (_closes, True), (_compresses, True), (_breaks_off, True)],
)
async def test_only_what_the_api_refused_is_free(tmp_path: Path, answer: Any, costs: bool) -> None:
    limit = SpendLimit(tokens=10)
    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s", spend_limit=limit) as gate:
        async with Jailed(tmp_path / "s") as agent:
            agent.writer.write(post_bytes(HELLO))
            async with asyncio.timeout(WAIT):
                await agent.reader.readuntil(b"\r\n\r\n")
        async with Jailed(tmp_path / "s") as agent:
            agent.writer.write(post_bytes(HELLO))
            async with asyncio.timeout(WAIT):
                again = await agent.reader.readuntil(b"\r\n\r\n")
        assert (gate.usage.tokens > 0, again.startswith(b"HTTP/1.1 429 ")) == (costs, costs)


async def test_an_api_that_cannot_be_reached_costs_nothing(tmp_path: Path) -> None:
    gate = Gate("http://127.0.0.1:9", KEY, tmp_path / "s", spend_limit=SpendLimit(tokens=10))
    async with gate:
        for _ in range(2):
            async with Jailed(tmp_path / "s") as agent:
                assert (await agent.post(HELLO)).status == 502
        assert gate.usage.tokens == 0


async def test_a_picture_is_not_estimated_as_text(tmp_path: Path) -> None:
    picture = {"type": "base64", "media_type": "image/png", "data": "A" * 300_000}
    body = {**HELLO, "messages": [{"role": "user", "content": [{"type": "image", "source": picture}]}]}
    arrived = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        arrived.set()

    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s") as gate:
        async with Jailed(tmp_path / "s") as agent, asyncio.timeout(WAIT):
            agent.writer.write(post_bytes(body))
            await arrived.wait()
        await settled(api)
        assert 2_000 <= gate.usage.tokens <= 15_000


async def refused_meanwhile(path: Path) -> bool:
    """A whole exchange with the gate, in which it notices what happened before on other connections."""
    async with Jailed(path) as agent:
        return (await agent.raw(b"GET / HTTP/1.1\r\nhost: gate\r\n\r\n")).status == 403


async def test_who_hangs_up_while_waiting_costs_nothing_and_lets_the_next_one_go(tmp_path: Path) -> None:
    go_on, arrived = asyncio.Event(), asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await go_on.wait()
        await answer_hello(seen, writer)

    limit = SpendLimit(tokens=50)
    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s", spend_limit=limit) as gate:
        async with Jailed(tmp_path / "s") as first, asyncio.timeout(WAIT):
            first.writer.write(post_bytes(HELLO))
            await arrived.wait()
            async with Jailed(tmp_path / "s") as impatient:
                impatient.writer.write(post_bytes(HELLO))
                assert await refused_meanwhile(tmp_path / "s")
            assert await refused_meanwhile(tmp_path / "s")
            third = asyncio.create_task(self_contained(tmp_path / "s"))
            go_on.set()
            assert (await first.reply()).status == 200
            assert await third == 200
        assert (len(api.seen), gate.usage.tokens) == (2, 30)
