"""What passes the gate, how it passes, and what is counted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import ssl
import stat
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.upstream import (
    HELLO,
    WAIT,
    Jailed,
    Seen,
    answer_hello,
    delta_event,
    loopback_api,
    make_certificate,
    post_bytes,
    send_json,
    send_stream,
    sse,
    start_event,
)
from toolkit.errors import SandboxError
from toolkit.sandbox import Gate, ModelCall, SpendLimit

KEY = "real-key-of-the-host"


async def test_a_message_passes_with_the_real_key_in_place_of_whatever_came(tmp_path: Path) -> None:
    async with loopback_api() as api, Gate(api.url, KEY, tmp_path / "s"), Jailed(tmp_path / "s") as agent:
        stolen = "x-api-key: dummy\r\nauthorization: Bearer dummy\r\ncookie: a=b\r\nproxy-authorization: x\r\n"
        reply = await agent.post(HELLO, path="/v1/messages?beta=true", headers=stolen)

    assert reply.status == 200
    (seen,) = api.seen
    assert seen.line == "POST /v1/messages?beta=true HTTP/1.1"
    assert seen.headers["x-api-key"] == KEY
    assert not {"authorization", "cookie", "proxy-authorization"} & set(seen.headers)
    assert json.loads(seen.body) == HELLO
    assert not (tmp_path / "s").exists()


async def test_only_headers_the_api_needs_travel_in_either_direction(tmp_path: Path) -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        extra = b"set-cookie: s=1\r\nlocation: http://x/\r\nanthropic-organization-id: o\r\nretry-after: 7\r\nx-should-retry: false\r\n"
        await send_json(writer, {"type": "error"}, status=529, extra=extra)

    async with loopback_api(answer) as api, Gate(api.url, None, tmp_path / "s"), Jailed(tmp_path / "s") as agent:
        sent = "anthropic-beta: effort-2025-11-24\r\nanthropic-version: 2023-06-01\r\nx-stainless-os: Linux\r\nx-forwarded-host: evil\r\nanthropic-workspace-id: other\r\n"
        reply = await agent.post(HELLO, headers=sent)

    assert {"anthropic-beta", "anthropic-version", "x-stainless-os"} <= set(api.seen[0].headers)
    assert not {"x-api-key", "x-forwarded-host", "anthropic-workspace-id"} & set(api.seen[0].headers)
    assert reply.status == 529
    names = {name for name, _ in reply.headers.pairs}
    assert names == {"content-type", "retry-after", "x-should-retry", "transfer-encoding"}


async def test_a_bearer_token_of_the_host_replaces_the_agents(tmp_path: Path) -> None:
    own = {"Authorization": "Bearer host-token", "user-agent": "host"}
    async with loopback_api() as api, Gate(api.url, None, tmp_path / "s", headers=own), Jailed(tmp_path / "s") as agent:
        await agent.post(HELLO, headers="authorization: Bearer dummy\r\nuser-agent: agent\r\n")
    assert api.seen[0].headers["authorization"] == "Bearer host-token"
    assert api.seen[0].headers["user-agent"] == "host"


async def test_an_answer_streams_while_it_is_still_being_written(tmp_path: Path) -> None:
    client_has_first = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        writer.write(b"7\r\nfirst\n\n\r\n")
        async with asyncio.timeout(WAIT):
            await client_has_first.wait()
        writer.write(b"4\r\nlast\r\n0\r\n\r\n")

    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s"), Jailed(tmp_path / "s") as agent:
        agent.writer.write(post_bytes(HELLO))
        async with asyncio.timeout(WAIT):
            await agent.reader.readuntil(b"first\n\n")
            client_has_first.set()
            await agent.reader.readuntil(b"last")


async def test_requests_share_a_connection_on_both_sides(tmp_path: Path) -> None:
    async with loopback_api() as api, Gate(api.url, KEY, tmp_path / "s") as gate, Jailed(tmp_path / "s") as agent:
        replies = [await agent.post(HELLO) for _ in range(3)]
        assert [reply.status for reply in replies] == [200, 200, 200]
        assert (len(api.seen), api.connections, gate.usage.requests) == (3, 1, 3)


async def test_pipelined_requests_are_answered_in_turn(tmp_path: Path) -> None:
    async with loopback_api() as api, Gate(api.url, KEY, tmp_path / "s"), Jailed(tmp_path / "s") as agent:
        agent.writer.write(post_bytes(HELLO) + post_bytes(HELLO, path="/v1/messages/count_tokens"))
        assert [(await agent.reply()).status, (await agent.reply()).status] == [200, 200]
        assert [seen.line.split()[1] for seen in api.seen] == ["/v1/messages", "/v1/messages/count_tokens"]


async def test_a_chunked_body_arrives_whole_and_with_a_length(tmp_path: Path) -> None:
    body = json.dumps(HELLO).encode()
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:7], body[7:])) + b"0\r\n\r\n"
    head = b"POST /v1/messages HTTP/1.1\r\nhost: gate\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n"
    async with loopback_api() as api, Gate(api.url, KEY, tmp_path / "s"), Jailed(tmp_path / "s") as agent:
        agent.writer.write(head)
        async with asyncio.timeout(WAIT):
            assert await agent.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await agent.raw(chunks)).status == 200
    assert api.seen[0].body == body
    assert "transfer-encoding" not in api.seen[0].headers


async def test_a_connection_the_api_closed_meanwhile_is_replaced(tmp_path: Path) -> None:
    async def answer_and_close(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await answer_hello(seen, writer)
        writer.close()

    async with loopback_api(answer_and_close) as api, Gate(api.url, KEY, tmp_path / "s") as gate:
        async with Jailed(tmp_path / "s") as agent:
            assert [(await agent.post(HELLO)).status for _ in range(5)] == [200] * 5
        assert len(api.seen) == 5
        assert gate.audit == ()


async def test_what_the_api_says_unasked_is_not_taken_for_the_next_answer(tmp_path: Path) -> None:
    async def answer_and_complain(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await answer_hello(seen, writer)
        writer.write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()

    async with (
        loopback_api(answer_and_complain) as api,
        Gate(api.url, KEY, tmp_path / "s"),
        Jailed(tmp_path / "s") as agent,
    ):
        assert [(await agent.post(HELLO)).status for _ in range(5)] == [200] * 5
        assert api.connections == 5


async def test_an_answer_without_a_length_ends_with_its_connection(tmp_path: Path) -> None:
    async def answer_old(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b'HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{"usage": {"input_tokens": 2}}')
        writer.close()

    async with (
        loopback_api(answer_old) as api,
        Gate(api.url, KEY, tmp_path / "s") as gate,
        Jailed(tmp_path / "s") as agent,
    ):
        assert [(await agent.post(HELLO)).json for _ in range(2)] == [{"usage": {"input_tokens": 2}}] * 2
        assert gate.usage.input == 4


async def test_a_path_in_the_base_url_is_a_prefix(tmp_path: Path) -> None:
    async with loopback_api() as api, Gate(f"{api.url}/team/a/", KEY, tmp_path / "s"), Jailed(tmp_path / "s") as agent:
        assert (await agent.post(HELLO)).status == 200
    assert api.seen[0].line == "POST /team/a/v1/messages HTTP/1.1"


async def test_a_hundred_streams_are_held_at_once(tmp_path: Path) -> None:
    all_here = asyncio.Event()
    waiting = 0

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        nonlocal waiting
        waiting += 1
        if waiting == 100:
            all_here.set()
        async with asyncio.timeout(WAIT * 2):
            await all_here.wait()
        await answer_hello(seen, writer)

    async def one() -> int:
        async with Jailed(tmp_path / "s") as agent:
            return (await agent.post(HELLO)).status

    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s") as gate:
        assert await asyncio.gather(*(one() for _ in range(100))) == [200] * 100
        assert (gate.usage.calls, gate.usage.tokens) == (100, 1500)


async def test_when_the_agent_hangs_up_the_api_is_hung_up_on_too(tmp_path: Path) -> None:
    has_started = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        event = sse(start_event(input_tokens=30))
        writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        has_started.set()

    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s") as gate:
        async with asyncio.timeout(WAIT):
            async with Jailed(tmp_path / "s") as agent:
                agent.writer.write(post_bytes(HELLO))
                await has_started.wait()
                await agent.reader.readuntil(b"message_start")
            await api.hangups.get()
        assert gate.usage.input == 30


async def test_closing_the_gate_ends_what_is_under_way_and_removes_the_socket(tmp_path: Path) -> None:
    async def never(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")

    async with loopback_api(never) as api, asyncio.timeout(WAIT):
        gate = Gate(api.url, KEY, tmp_path / "s")
        async with gate:
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
            agent = await Jailed(tmp_path / "s").__aenter__()
            agent.writer.write(post_bytes(HELLO))
            await agent.reader.readuntil(b"\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert await agent.reader.read() == b""
        agent.writer.close()
        await api.hangups.get()
        assert not (tmp_path / "s").exists()
        await gate.aclose()  # a second time does nothing


async def test_tokens_are_counted_by_kind_from_a_stream_cut_anywhere(tmp_path: Path) -> None:
    text = {
        "type": "content_block_delta",
        "delta": {"text": 'data: {"type":"message_delta","usage":{"output_tokens":999}}'},
    }
    start = start_event(input_tokens=100, cache_read_input_tokens=20, cache_creation_input_tokens=3)
    raw = sse(start, text, delta_event(output_tokens=40), delta_event(output_tokens=50, input_tokens=0))

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await send_stream(writer, *(raw[at : at + 7] for at in range(0, len(raw), 7)))

    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s") as gate, Jailed(tmp_path / "s") as agent:
        assert (await agent.post(HELLO)).body == raw
        assert gate.calls == (ModelCall("msg_1", "claude-test", input=100, output=50, cache_read=20, cache_write=3),)
        assert (gate.usage.calls, gate.usage.tokens, gate.usage.usd) == (1, 173, None)


async def test_a_plain_answer_is_counted_and_a_token_count_is_not(tmp_path: Path) -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if "count_tokens" in seen.line:
            await send_json(writer, {"input_tokens": 1000})
        else:
            await send_json(writer, {"id": "m", "model": "c", "usage": {"input_tokens": 4, "output_tokens": 2}})

    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s") as gate, Jailed(tmp_path / "s") as agent:
        await agent.post(HELLO)
        assert (await agent.post(HELLO, path="/v1/messages/count_tokens")).json == {"input_tokens": 1000}
        assert (gate.usage.requests, gate.usage.calls, gate.usage.tokens, gate.usage.unmetered) == (2, 1, 6, 0)


@pytest.mark.parametrize(
    "limit",
    [
        SpendLimit(tokens=30),
        SpendLimit(usd=0.3, price=lambda call: call.tokens / 100),
    ],
    ids=["tokens", "usd"],
)
async def test_a_spent_budget_ends_further_requests_without_a_retry(tmp_path: Path, limit: SpendLimit) -> None:
    async with loopback_api() as api, Gate(api.url, KEY, tmp_path / "s", spend_limit=limit) as gate:
        statuses = []
        for _ in range(4):
            async with Jailed(tmp_path / "s") as agent:
                reply = await agent.post(HELLO)
                statuses.append(reply.status)
        assert statuses == [200, 200, 429, 429]
        assert reply.headers.get("x-should-retry") == "false"
        assert len(api.seen) == 2
        assert [refusal.code for refusal in gate.audit] == ["spend", "spend"]


async def test_a_request_begun_before_the_budget_was_spent_is_refused_too(tmp_path: Path) -> None:
    raw = post_bytes(HELLO)
    async with loopback_api() as api, Gate(api.url, KEY, tmp_path / "s", spend_limit=SpendLimit(tokens=15)):
        async with Jailed(tmp_path / "s") as early, Jailed(tmp_path / "s") as agent:
            early.writer.write(raw[:-1])
            await early.writer.drain()
            assert (await agent.post(HELLO)).status == 200
            assert (await early.raw(raw[-1:])).status == 429
        assert len(api.seen) == 1


def _no_price(call: ModelCall) -> float:
    raise KeyError(call.model)


async def _answer_without_usage(seen: Seen, writer: asyncio.StreamWriter) -> None:
    await send_json(writer, {"id": "m"})


def _answering(usage: dict[str, Any], *, streams: bool) -> Any:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if streams:
            await send_stream(writer, sse(start_event(**usage), delta_event(**usage)))
        else:
            await send_json(writer, {"id": "m", "usage": usage})

    return answer


@pytest.mark.parametrize("streams", [True, False], ids=["a stream", "a plain answer"])
@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": "12", "output_tokens": "9"},
        {"input_tokens": 12, "output_tokens": {"text": 9}},
        {"input_tokens": -12, "output_tokens": 9},
        {"input_tokens": True, "output_tokens": 9},
        {"input_tokens": float("inf"), "output_tokens": 9},
    ],
    ids=["texts", "an object", "below zero", "a truth value", "infinity"],
)
async def test_a_count_of_tokens_that_is_no_number_is_unknown_and_not_free(
    tmp_path: Path, usage: dict[str, Any], streams: bool
) -> None:
    limit = SpendLimit(tokens=10**9)
    gate = partial(Gate, api_key=KEY, socket_path=tmp_path / "s", spend_limit=limit)
    async with (
        loopback_api(_answering(usage, streams=streams)) as api,
        gate(api.url) as one,
        Jailed(tmp_path / "s") as agent,
    ):
        assert [(await agent.post(HELLO)).status for _ in range(2)] == [200, 429]
        assert one.usage.unmetered == 1


async def test_a_plain_answer_that_names_no_counts_is_unknown_and_not_free(tmp_path: Path) -> None:
    gate = partial(Gate, api_key=KEY, socket_path=tmp_path / "s", spend_limit=SpendLimit(tokens=10**9))
    async with loopback_api(_answering({}, streams=False)) as api, gate(api.url), Jailed(tmp_path / "s") as agent:
        assert [(await agent.post(HELLO)).status for _ in range(2)] == [200, 429]


async def test_counts_with_a_fraction_are_rounded_up(tmp_path: Path) -> None:
    answer = _answering({"input_tokens": 12.0, "output_tokens": 8.5}, streams=False)
    gate = partial(Gate, api_key=KEY, socket_path=tmp_path / "s", spend_limit=SpendLimit(tokens=21))
    async with loopback_api(answer) as api, gate(api.url) as one, Jailed(tmp_path / "s") as agent:
        assert [(await agent.post(HELLO)).status for _ in range(2)] == [200, 429]
        assert (one.usage.input, one.usage.output) == (12, 9)


@pytest.mark.parametrize(
    ("limit", "answer"),
    [(SpendLimit(usd=5, price=_no_price), answer_hello), (SpendLimit(tokens=10**9), _answer_without_usage)],
    ids=["a price that fails", "an answer without usage"],
)
async def test_a_budget_that_can_no_longer_be_known_counts_as_spent(
    tmp_path: Path, limit: SpendLimit, answer: Any
) -> None:
    gate = partial(Gate, api_key=KEY, socket_path=tmp_path / "s", spend_limit=limit)
    async with loopback_api(answer) as api, gate(api.url), Jailed(tmp_path / "s") as agent:
        assert [(await agent.post(HELLO)).status for _ in range(2)] == [200, 429]


async def test_an_api_that_cannot_be_reached_is_a_502_that_names_no_host(tmp_path: Path) -> None:
    async with Gate("http://127.0.0.1:9", KEY, tmp_path / "s") as gate, Jailed(tmp_path / "s") as agent:
        reply = await agent.post(HELLO)
    assert reply.status == 502
    assert b"127.0.0.1" not in reply.body
    assert KEY.encode() not in reply.body
    assert gate.audit[0].code == "upstream"


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A key and a certificate for localhost that nobody has signed."""
    if shutil.which("openssl") is None and not os.environ.get("CI"):
        pytest.skip("needs the openssl command to make a certificate")
    return make_certificate(tmp_path, "localhost")


async def test_https_needs_a_certificate_the_host_trusts(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    key, cert = certificate
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(cert, key)

    async with loopback_api(tls=server) as api:
        async with Gate(api.url, KEY, tmp_path / "a", ca_file=cert), Jailed(tmp_path / "a") as agent:
            assert (await agent.post(HELLO)).status == 200
        async with Gate(api.url, KEY, tmp_path / "b"), Jailed(tmp_path / "b") as agent:
            assert (await agent.post(HELLO)).status == 502
    assert len(api.seen) == 1


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("", {}),
        ("api.example.com", {}),
        ("ftp://api.example.com", {}),
        ("https://", {}),
        ("https://user:secret@api.example.com", {}),
        ("https://api.example.com?x=1", {}),
        ("https://api.example.com:0", {}),
        ("https://api.example.com:99999", {}),
        ("https://api.example.com/a b", {}),
        ("http://[::1", {}),
        ("http://127.0.0.1", {"api_key": "two\r\nlines"}),
        ("http://127.0.0.1", {"api_key": ""}),
        ("http://127.0.0.1", {"headers": {"x y": "1"}}),
        ("http://127.0.0.1", {"headers": {"x": "1\n2"}}),
        ("http://127.0.0.1", {"domains": ["https://example.com"]}),
        ("http://127.0.0.1", {"max_body": 0}),
        ("https://api.example.com", {"ca_file": Path("/none.pem")}),
    ],
)
def test_a_gate_asked_for_wrongly_is_refused_before_it_exists(
    tmp_path: Path, url: str, options: dict[str, Any]
) -> None:
    key = options.pop("api_key", KEY)
    with pytest.raises(SandboxError) as caught:
        Gate(url, key, tmp_path / "s", **options)
    assert "secret" not in str(caught.value)
    assert "two" not in str(caught.value)


@pytest.mark.parametrize("name", ["taken", "none/s", "x" * 120])
async def test_a_socket_that_cannot_be_made_is_an_error_and_nothing_is_left(tmp_path: Path, name: str) -> None:
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    with pytest.raises(SandboxError):
        async with Gate("http://127.0.0.1:9", KEY, tmp_path / name):
            pass
    assert (tmp_path / "taken").read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / name).is_socket()


def test_a_budget_in_dollars_needs_prices() -> None:
    with pytest.raises(SandboxError):
        SpendLimit(usd=1.0)
    with pytest.raises(SandboxError):
        SpendLimit(tokens=0)
