"""What does not pass the gate: judged by what reached the API, which is nothing."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.upstream import HELLO, WAIT, Jailed, loopback_api, post_bytes
from toolkit.sandbox import Gate
from toolkit.sandbox.gate.http import Headers
from toolkit.sandbox.gate.policy import Asked, asked_to_wait, check_offline_body, read_asked

BODY = json.dumps(HELLO).encode()
_HTTP_DATE = "%a, %d %b %Y %H:%M:%S GMT"


async def refused(tmp_path: Path, raw: bytes, **options: Any) -> tuple[int, str]:
    """Send raw bytes to a gate; the status and the audit's word for it, after checking that nothing got out."""
    async with loopback_api() as api, Gate(api.url, "key", tmp_path / "s", **options) as gate:
        async with Jailed(tmp_path / "s") as agent:
            reply = await agent.raw(raw)
            assert reply.headers.get("x-should-retry") == "false"
            async with asyncio.timeout(WAIT):
                assert await agent.reader.read() == b""  # nothing after a refusal is read as a request
        assert api.seen == []
        (refusal,) = gate.audit
        assert (gate.usage.refused, gate.usage.requests) == (1, 0)
        assert refusal.message in reply.json["error"]["message"]
        return reply.status, refusal.code


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "post"])
async def test_no_method_but_post_passes(tmp_path: Path, method: str) -> None:
    raw = f"{method} /v1/messages HTTP/1.1\r\nhost: gate\r\n\r\n".encode()
    assert await refused(tmp_path, raw) == (403, "method")


@pytest.mark.parametrize("first", [b"\x04\x01\x01\xbb\x7f\0\0\x01\0", b"\x05\x01\0"], ids=["SOCKS4", "SOCKS5"])
async def test_whoever_takes_the_gate_for_a_socks_proxy_is_told_at_once(tmp_path: Path, first: bytes) -> None:
    assert await refused(tmp_path, first) == (400, "socks")


async def test_a_tunnel_is_refused_while_offline(tmp_path: Path) -> None:
    raw = b"CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n"
    assert await refused(tmp_path, raw) == (403, "method")


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "*",
        "/v1/complete",
        "/v1/files",
        "/v1/models",
        "/v1/messages/",
        "/v1/messages/batches",
        "/v1/messages/../files",
        "/v1/./messages",
        "/v1/messages/..",
        "//v1/messages",
        "/v1//messages",
        "/v1/%6dessages",
        "/v1/messages%2f..%2ffiles",
        "/v1/messages%00",
        "/V1/messages",
        "/v1/messages;x=1",
        "/v1/messages#x",
        "/v1/messages?next=http://example.com/",
        "/v1/messages?a=%2e%2e",
        "/v1/messages?" + "a" * 300,
        "v1/messages",
        "http://example.com/v1/messages",
        "https://api.anthropic.com/v1/messages",
        "http:/v1/messages",
        "@example.com/v1/messages",
        "/api/oauth/usage",
    ],
)
async def test_no_path_but_the_two_passes_however_it_is_spelt(tmp_path: Path, target: str) -> None:
    assert await refused(tmp_path, post_bytes(HELLO, path=target)) == (403, "path")


def with_head(*lines: str, body: bytes = BODY, first: str = "POST /v1/messages HTTP/1.1") -> bytes:
    return "\r\n".join([first, *lines, "", ""]).encode("latin-1") + body


LENGTH = f"content-length: {len(BODY)}"


@pytest.mark.parametrize(
    "raw",
    [
        with_head("host: a", LENGTH, LENGTH),
        with_head("host: a", LENGTH, "content-length: 0"),
        with_head("host: a", f"content-length: {len(BODY)}, {len(BODY)}"),
        with_head("host: a", f"content-length: +{len(BODY)}"),
        with_head("host: a", "content-length: -1"),
        with_head("host: a", "content-length: 0x10"),
        with_head("host: a", "content-length: 1 2"),
        with_head("host: a", LENGTH, "transfer-encoding: chunked"),
        with_head("host: a", "transfer-encoding: chunked", "transfer-encoding: chunked"),
        with_head("host: a", "transfer-encoding: gzip, chunked"),
        with_head("host: a", "transfer-encoding: identity"),
        with_head("host: a", "transfer-encoding: chunked", body=b"zz\r\n"),
        with_head("host: a", "transfer-encoding: chunked", body=b"-5\r\nhello\r\n0\r\n\r\n"),
        with_head("host: a", "transfer-encoding: chunked", body=b"2\r\nhello\r\n0\r\n\r\n"),
        with_head("host: a", "transfer-encoding: chunked", body=b"1" * 70_000),
        with_head("host: a", "content-length : 5"),
        with_head("host: a", " folded: 1", LENGTH),
        with_head("host: a", "a: 1\n content-length: 5", LENGTH),
        with_head("host: a", "a: 1\ncontent-length: 5", LENGTH),
        with_head("host: a", "a: 1\rb: 2", LENGTH),
        with_head("host: a", "a: \x00", LENGTH),
        with_head("host: a", "a: \xe9", LENGTH),
        with_head("host: a", "no colon", LENGTH),
        with_head("host: a", ": no name", LENGTH),
        with_head("host: a", "host: b", LENGTH),
        with_head(LENGTH),
        with_head("host: a", LENGTH, first="POST  /v1/messages HTTP/1.1"),
        with_head("host: a", LENGTH, first="POST /v1/messages"),
        with_head("host: a", LENGTH, first="POST\t/v1/messages HTTP/1.1"),
        with_head("host: a", LENGTH, first="\r\nPOST /v1/messages HTTP/1.1"),
        with_head("host: a", LENGTH, first="P\xd6ST /v1/messages HTTP/1.1"),
    ],
)
async def test_a_request_that_two_parsers_could_read_in_two_ways_is_refused(tmp_path: Path, raw: bytes) -> None:
    assert await refused(tmp_path, raw) == (400, "malformed")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (with_head("host: a"), 411),
        (with_head("host: a", LENGTH, first="POST /v1/messages HTTP/1.0"), 505),
        (with_head("host: a", LENGTH, first="POST /v1/messages HTTP/2.0"), 505),
        (with_head("host: a", LENGTH, first="POST /v1/messages http/1.1"), 505),
        (with_head("host: a", LENGTH, "content-type: multipart/form-data"), 415),
        (with_head("host: a", LENGTH, "content-encoding: gzip"), 415),
        (with_head("host: a", LENGTH, "expect: the-worst"), 417),
        (with_head("host: a", LENGTH, *(f"a{n}: 1" for n in range(200))), 431),
        (with_head("host: a", LENGTH, "a: " + "x" * 70_000), 431),
    ],
)
async def test_an_unusual_request_gets_the_status_that_says_so(tmp_path: Path, raw: bytes, status: int) -> None:
    assert (await refused(tmp_path, raw))[0] == status


@pytest.mark.parametrize(
    "raw",
    [
        post_bytes(b'{"x": "' + b"a" * 2000 + b'"}'),
        with_head("host: a", "transfer-encoding: chunked", body=b"5\r\n12345\r\n" * 300),
        with_head("host: a", "content-length: 999999999999", body=b""),
    ],
    ids=["length", "chunks", "a huge length"],
)
async def test_a_body_over_the_bound_is_refused(tmp_path: Path, raw: bytes) -> None:
    assert await refused(tmp_path, raw, max_body=1000) == (413, "size")


async def test_many_large_bodies_at_once_are_refused_rather_than_kept(tmp_path: Path) -> None:
    head = with_head("host: a", "content-length: 1000", body=b"x" * 999)
    async with loopback_api() as api, Gate(api.url, "key", tmp_path / "s", max_body=1000) as gate:
        agents = [await Jailed(tmp_path / "s").__aenter__() for _ in range(12)]
        for agent in agents:
            agent.writer.write(head)
        done, waiting = await asyncio.wait(
            {asyncio.create_task(agent.reply()) for agent in agents}, timeout=WAIT, return_when=asyncio.FIRST_COMPLETED
        )
        assert {task.result().status for task in done} == {503}
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for agent in agents:
            agent.writer.close()
        assert {refusal.code for refusal in gate.audit} == {"busy"}
        assert api.seen == []


async def test_connections_over_the_bound_are_closed(tmp_path: Path) -> None:
    async with loopback_api() as api, Gate(api.url, "key", tmp_path / "s", max_connections=1) as gate:
        async with Jailed(tmp_path / "s") as first, Jailed(tmp_path / "s") as second:
            assert (await first.post(HELLO)).status == 200
            async with asyncio.timeout(WAIT):
                assert await second.reader.read() == b""
            assert (await first.post(HELLO)).status == 200
        assert gate.audit[0].code == "busy"


def message(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {**HELLO, "messages": [{"role": "user", "content": list(blocks)}]}


URL = {"type": "url", "url": "https://example.com/?secret"}
IMAGE = {"type": "image", "source": URL}
WEB = {"type": "web_fetch_20250910", "name": "web_fetch"}


@pytest.mark.parametrize(
    "body",
    [
        {**HELLO, "tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {**HELLO, "tools": [WEB]},
        {**HELLO, "tools": [{"name": "ok", "input_schema": {}}, {"type": "code_execution_20250825", "name": "c"}]},
        {**HELLO, "tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]},
        {**HELLO, "tools": [{"type": "some_future_tool_20990101", "name": "x"}]},
        {**HELLO, "tools": [{"type": "bash_20250124_but_remote", "name": "x"}]},
        {**HELLO, "tools": [{"type": ["custom"], "name": "x"}]},
        {**HELLO, "mcp_servers": [{"type": "url", "url": "https://example.com", "name": "x"}]},
        {**HELLO, "mcp_servers": []},
        {**HELLO, "container": "container_1"},
        {**HELLO, "some_future_field": 1},
        {**HELLO, "fallbacks": [{"model": "x", "tools": [WEB]}]},
        {**HELLO, "system": [IMAGE]},
        message(IMAGE),
        message({"type": "document", "source": URL}),
        message({"type": "document", "source": {"type": "file", "file_id": "file_1"}}),
        message({"type": "document", "source": {"type": "content", "content": [IMAGE]}}),
        message({"type": "tool_result", "tool_use_id": "t", "content": [IMAGE]}),
        message(
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": [{"type": "search_result", "source": "s", "title": "t", "content": [IMAGE]}],
            }
        ),
        message({"type": "container_upload", "file_id": "file_1"}),
        message({"type": "mcp_tool_use", "id": "x", "name": "y", "server_name": "z", "input": {}}),
        message({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": WEB}}),
        message({"type": "tool_addition", "tool": WEB}),
        message({"type": "tool_addition", "tool": {"type": "other", "definition": {"name": "x"}}}),
        message({"type": "tool_addition", "tool": "x"}),
        message({"type": "tool_addition"}),
        message({"type": "search_result", "source": URL, "title": "t", "content": []}),
        message({"type": "image", "source": "https://example.com/"}),
        message({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa", "url": "x"}}),
        message({"type": "document", "source": {"type": "content", "content": "x", "url": "https://example.com"}}),
        message({"type": "image", "source": {"type": ["base64"]}}),
        {**HELLO, "metadata": {"user_id": "u", "zzz": "plum"}},
        {**HELLO, "service_tier": "plum"},
        {**HELLO, "service_tier": ["auto"]},
        {**HELLO, "inference_geo": "the secret is plum"},
        {**HELLO, "fallbacks": [{"model": "x", "speed": "plum"}]},
        {**HELLO, "messages": [{"role": "PLUM", "content": "hi"}]},
        {**HELLO, "messages": [{"role": ["user"], "content": "hi"}]},
        message({"type": ["text"], "text": "x"}),
        message({"text": "no type"}),
    ],
)
async def test_offline_the_api_is_not_asked_to_reach_out_for_the_agent(tmp_path: Path, body: dict[str, Any]) -> None:
    assert await refused(tmp_path, post_bytes(body)) == (403, "server_side")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"tools": [], "tools": [{"type": "web_search_20250305"}]}',
        b'{"messages": [{"role": "user", "content": "x", "content": []}]}',
        b'{"temperature": NaN}',
        b'{"x": "\xff"}',
        b'\xef\xbb\xbf{"model": "x"}',
        '{"model": "x"}'.encode("utf-16"),
        b'{"messages": ' + b"[" * 200_000,
        b'{"max_tokens": ' + b"9" * 5000 + b"}",
        b'{"tools": {"type": "web_search_20250305"}}',
        b'{"tools": ["web_search_20250305"]}',
        b'{"messages": "x"}',
        b'{"messages": [{"role": "user", "content": 5}]}',
    ],
)
async def test_a_body_that_could_be_read_in_two_ways_is_refused(tmp_path: Path, body: bytes) -> None:
    assert await refused(tmp_path, post_bytes(body)) == (400, "malformed")


async def test_a_small_body_that_would_grow_in_memory_is_refused(tmp_path: Path) -> None:
    assert await refused(tmp_path, post_bytes(b'{"messages": [' + b"[]," * 1_000_000 + b"[]]}")) == (413, "size")


@pytest.mark.parametrize(
    "body",
    [
        {**HELLO, "tools": [{"name": "x", "input_schema": {"type": "object"}}, {"type": "custom", "name": "y"}]},
        {**HELLO, "tools": [{"type": "bash_20250124", "name": "bash"}, {"type": "text_editor_20250728", "name": "e"}]},
        {**HELLO, "system": [{"type": "text", "text": "s"}], "thinking": {"type": "adaptive"}, "stream": True},
        {**HELLO, "fallbacks": "default", "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
        message({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}}),
        message({"type": "tool_use", "id": "t", "name": "x", "input": {"source": URL, "tools": [WEB]}}),
        message({"type": "tool_result", "tool_use_id": "t", "content": "https://example.com"}),
        message({"type": "tool_addition", "tool": {"type": "tool_reference", "name": "x"}}),
        message({"type": "text", "text": "x", "citations": [{"type": "web", "url": "https://example.com"}]}),
        {
            **HELLO,
            "fallbacks": [
                {"model": "m", "max_tokens": 5, "thinking": {}, "temperature": 1, "output_config": {}, "speed": "fast"}
            ],
        },
        {
            **HELLO,
            "tools": [{"type": kind, "name": "x"} for kind in ("memory_20250818", "computer_20250124")]
            + [
                {"type": "tool_search_tool_regex_20251119", "name": "s"},
                {"type": "tool_search_tool_bm25", "name": "b"},
            ],
        },
        message({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}}),
        message({"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "x"}]}}),
        message({"type": "document", "source": {"type": "content", "content": "x"}}),
        message({"type": "search_result", "source": "https://example.com", "title": "t", "content": []}),
        {
            **HELLO,
            "metadata": {"user_id": "u"},
            "service_tier": "standard_only",
            "inference_geo": "us",
            "speed": "fast",
        },
        {**HELLO, "metadata": None, "service_tier": None, "inference_geo": None},
        {**HELLO, "messages": [{"role": role, "content": "x"} for role in ("user", "assistant", "system")]},
        message({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {"name": "x"}}}),
        message({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {"type": "custom"}}}),
    ],
)
async def test_offline_an_ordinary_request_passes(tmp_path: Path, body: dict[str, Any]) -> None:
    async with loopback_api() as api, Gate(api.url, "key", tmp_path / "s"), Jailed(tmp_path / "s") as agent:
        assert (await agent.post(body)).status == 200
    assert json.loads(api.seen[0].body) == body


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({**HELLO, "x" * 300: 1}, "the field '" + "x" * 80 + "' is"),
        ({**HELLO, "fallbacks": [{"model": "x", "zz": 1}]}, "the field 'zz' in a fallback"),
        ({**HELLO, "tools": [WEB]}, "the server-side tool 'web_fetch_20250910'"),
        ({**HELLO, "tools": [{"type": "\x1b[2Jx"}]}, "the server-side tool ' [2Jx'"),
        (message({"type": "container_upload"}), "a content block of type 'container_upload'"),
        (message(IMAGE), "a source of type 'url'"),
        (
            message({"type": "image", "source": {"type": "base64", "url": "x"}}),
            "the field 'url' in a source of type 'base64'",
        ),
        ({**HELLO, "metadata": {"zzz": 1}}, "the field 'zzz' in metadata"),
        ({**HELLO, "service_tier": "plum"}, "service_tier 'plum'"),
        ({**HELLO, "messages": [{"role": "PLUM", "content": "x"}]}, "a message with the role 'PLUM'"),
    ],
)
async def test_a_refusal_names_what_it_is_about(tmp_path: Path, body: dict[str, Any], named: str) -> None:
    async with (
        loopback_api(),
        Gate("http://127.0.0.1:9", "key", tmp_path / "s") as gate,
        Jailed(tmp_path / "s") as agent,
    ):
        assert (await agent.post(body)).status == 403
    assert named in gate.audit[0].message


def test_what_a_request_asks_for_is_counted_inside_blocks_too() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "abcd"}}
    asked = check_offline_body(
        json.dumps(
            {
                **message(
                    picture,
                    {"type": "tool_result", "tool_use_id": "t", "content": [picture, {"type": "text", "text": "x"}]},
                    {"type": "document", "source": {"type": "content", "content": [picture]}},
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "abcd"}},
                    {"type": "image", "source": {"type": "base64", "data": 5}},
                ),
                "model": "small",
                "max_tokens": 10,
                "fallbacks": [{"model": "big", "max_tokens": 700}, {"model": "other", "max_tokens": "many"}],
            }
        ).encode()
    )
    assert asked == Asked("small", 700, inline_bytes=12, inline_count=3)
    assert read_asked(b'{"model": "m", "max_tokens": 3, "fallbacks": ["x"]}') == Asked("m", 3)
    assert read_asked(b'{"model": "m"}') == Asked("m", 0)
    assert read_asked(b"no JSON") == Asked("", 0, 0, 0)


async def test_not_offline_a_server_side_tool_passes(tmp_path: Path) -> None:
    body = {**HELLO, "tools": [WEB]}
    async with (
        loopback_api() as api,
        Gate(api.url, "key", tmp_path / "s", offline=False),
        Jailed(tmp_path / "s") as agent,
    ):
        assert (await agent.post(body)).status == 200
    assert json.loads(api.seen[0].body) == body


async def test_a_request_smuggled_behind_a_refused_one_is_not_seen(tmp_path: Path) -> None:
    smuggled = post_bytes(HELLO, path="/v1/files", headers="connection: keep-alive\r\n") + post_bytes(HELLO)
    assert await refused(tmp_path, smuggled) == (403, "path")


async def test_no_damaged_request_reaches_the_api_in_another_shape(tmp_path: Path) -> None:
    whole = post_bytes(HELLO, headers="content-type: application/json\r\nx-api-key: dummy\r\n")
    chance = random.Random(5)
    async with loopback_api() as api, Gate(api.url, "key", tmp_path / "s") as gate:
        for _ in range(400):
            damaged = bytearray(whole)
            for _ in range(chance.randint(1, 3)):
                at = chance.randrange(len(damaged))
                damaged[at : at + chance.randrange(2)] = chance.choice(
                    [b"\r", b"\n", b"\0", b" ", b"/", b":", b"%2e", b"0"]
                )
            async with Jailed(tmp_path / "s") as agent:
                # Enough after it to complete whatever length it claims, and to end any head.
                agent.writer.write(bytes(damaged) + b"x" * 100_000)
                async with asyncio.timeout(WAIT):
                    await agent.reader.read()
        async with Jailed(tmp_path / "s") as agent:
            assert (await agent.post(HELLO)).status == 200
    assert gate.usage.refused == 400  # each, or the rest behind it
    assert 20 < len(api.seen) < 300
    assert {seen.line for seen in api.seen} == {"POST /v1/messages HTTP/1.1"}
    assert {seen.headers["x-api-key"] for seen in api.seen} == {"key"}
    assert all(isinstance(json.loads(seen.body), dict) for seen in api.seen)


async def test_the_audit_keeps_the_latest_and_the_full_count(tmp_path: Path) -> None:
    async with loopback_api() as api, Gate(api.url, "key", tmp_path / "s", max_connections=2000) as gate:
        for number in range(1005):
            async with Jailed(tmp_path / "s") as agent:
                agent.writer.write(f"GET /{number} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
                async with asyncio.timeout(WAIT):
                    await agent.reader.readline()
        assert gate.usage.refused == 1005
        assert (len(gate.audit), gate.audit[-1].request) == (1000, "GET /1004")


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"retry-after": "7"}, 7, 7),
        ({"retry-after": "7", "retry-after-ms": "1500"}, 1.5, 1.5),
        ({"retry-after": (datetime.now(UTC) + timedelta(days=9)).strftime(_HTTP_DATE)}, 7 * 86_400, 9 * 86_400),
        ({"retry-after": (datetime.now(UTC) - timedelta(hours=1)).strftime(_HTTP_DATE)}, 0, 0),
        ({"retry-after": "soon"}, None, None),
        ({}, None, None),
    ],
)
def test_how_long_the_api_asks_to_wait_is_read_in_every_form(
    headers: dict[str, str], low: float | None, high: float | None
) -> None:
    asked = asked_to_wait(Headers(tuple(headers.items())))
    assert asked is None if low is None or high is None else asked is not None and low <= asked <= high
