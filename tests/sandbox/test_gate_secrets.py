"""The host's credentials stay outside, also when an answer repeats them, and a client's headers carry no text."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import textwrap
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings, strategies as st

from tests.sandbox.upstream import (
    HELLO,
    Jailed,
    Seen,
    delta_event,
    loopback_api,
    post_bytes,
    send_json,
    send_stream,
    sse,
    start_event,
)
from toolkit.sandbox import Gate
from toolkit.sandbox.gate import REMOVED, Remover, Secrets

KEY = "sk-ant-api03-AbC/dEf+gHi=-_jKlMnOp"
Spelling = Callable[[str], bytes]


@pytest.mark.parametrize("status", [200, 400, 401, 529])
async def test_a_key_that_the_api_repeats_does_not_come_in(tmp_path: Path, status: int) -> None:
    forms = [KEY, KEY.replace("/", "\\/"), "sk-ant-api03-AbC%2FdEf%2BgHi%3D-_jKlMnOp"]

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        assert seen.headers["x-api-key"] == KEY
        body = ('{"error": "' + " | ".join(["invalid x-api-key", *forms]) + '"}').encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nrequest-id: req {KEY} x\r\n"
        writer.write(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)

    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s"), Jailed(tmp_path / "s") as agent:
        reply = await agent.post(HELLO)

    assert reply.status == status
    assert reply.body.decode() == '{"error": "invalid x-api-key' + f" | {REMOVED}" * 3 + '"}'
    assert reply.headers.get("request-id") == f"req {REMOVED} x"


async def test_a_key_in_the_name_of_a_header_does_not_come_in(tmp_path: Path) -> None:
    key = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWx"

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await send_json(writer, {}, extra=f"anthropic-ratelimit-{key}: 1\r\nanthropic-ratelimit-x: 2\r\n".encode())

    async with loopback_api(answer) as api, Gate(api.url, key, tmp_path / "s"), Jailed(tmp_path / "s") as agent:
        reply = await agent.post(HELLO)
    assert [name for name, _ in reply.headers.pairs if "ratelimit" in name] == ["anthropic-ratelimit-x"]


@pytest.mark.parametrize(
    "own",
    [{"authorization": f"Bearer {KEY}"}, {"Authorization": KEY}, {"x-gateway-key": KEY}],
    ids=["bearer", "plain", "gateway"],
)
async def test_whatever_header_a_credential_is_in_it_does_not_come_in(tmp_path: Path, own: dict[str, str]) -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await send_json(writer, {"error": seen.headers}, status=403)

    async with (
        loopback_api(answer) as api,
        Gate(api.url, None, tmp_path / "s", headers=own),
        Jailed(tmp_path / "s") as agent,
    ):
        reply = await agent.post(HELLO)
    assert all(KEY in api.seen[0].headers[name.lower()] for name in own)
    assert KEY not in reply.body.decode()
    assert REMOVED in reply.body.decode()


async def test_the_password_behind_basic_does_not_come_in(tmp_path: Path) -> None:
    own = {"authorization": f"Basic {b64(f'me:{KEY}').decode()}"}

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await send_json(writer, {"error": f"me may not, with {KEY}", **seen.headers}, status=403)

    async with (
        loopback_api(answer) as api,
        Gate(api.url, None, tmp_path / "s", headers=own),
        Jailed(tmp_path / "s") as agent,
    ):
        reply = await agent.post(HELLO)
    assert api.seen[0].headers["authorization"] == own["authorization"]
    assert KEY not in reply.body.decode()
    assert own["authorization"][-20:] not in reply.body.decode()


async def test_a_key_in_a_stream_is_removed_however_the_stream_is_cut(tmp_path: Path) -> None:
    said = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": f"<{KEY}{KEY[:20]}>"}}
    raw = sse(start_event(input_tokens=3), said, delta_event(output_tokens=4))

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await send_stream(writer, *(raw[at : at + 5] for at in range(0, len(raw), 5)))

    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s") as gate, Jailed(tmp_path / "s") as agent:
        reply = await agent.post(HELLO)
        assert reply.body == raw.replace(KEY.encode(), REMOVED.encode())
        assert gate.usage.tokens == 7


async def test_a_stream_is_not_held_back_for_what_might_follow(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for piece in (
            sse(start_event(input_tokens=3)),
            b"data: sk-ant",
            b"-else\n\n",
            sse(delta_event(output_tokens=4)),
        ):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
            await go_on.wait()
        writer.write(b"0\r\n\r\n")

    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s"), Jailed(tmp_path / "s") as agent:
        agent.writer.write(post_bytes(HELLO))
        async with asyncio.timeout(60):
            await agent.reader.readuntil(b"message_start")
            go_on.set()
            rest = await agent.reader.readuntil(b"0\r\n\r\n")
    assert b"sk-ant-else\n\n" in rest  # held until it was known to be no key


def b64(text: str, *, encoding: str = "utf-8") -> bytes:
    return base64.b64encode(text.encode(encoding))


def b64_behind(before: str) -> Spelling:
    return lambda key: b64(f"{before}{key}behind")


SPELLINGS: dict[str, Spelling] = {
    "capitals": lambda key: key.upper().encode(),
    "small letters": lambda key: key.lower().encode(),
    "each character in a URL": lambda key: "".join(f"%{ord(one):02x}" for one in key).encode(),
    "in a URL of a URL": lambda key: quote(quote(key, safe=""), safe="").encode(),
    "in a URL, in capitals": lambda key: quote(key.upper(), safe="").encode(),
    "JSON escapes": lambda key: "".join(f"\\u{ord(one):04X}" for one in key).encode(),
    "some JSON escapes": lambda key: key.replace("-", "\\u002d").replace("=", "\\u003D").encode(),
    "JSON in JSON": lambda key: json.dumps("".join(f"\\u{ord(one):04x}" for one in key)).encode(),
    "escapes of Python": lambda key: "".join(f"\\x{ord(one):02x}" for one in key).encode(),
    "HTML": lambda key: "".join(f"&#{ord(one)};" for one in key).encode(),
    "HTML in hexadecimal": lambda key: "".join(f"&#x{ord(one):04X};" for one in key).encode(),
    "HTML that leaves most as it is": lambda key: html.escape(key).replace("/", "&#x2F;").encode(),
    "UTF-16": lambda key: key.encode("utf-16"),
    "UTF-16, big end first": lambda key: key.encode("utf-16-be"),
    "UTF-32": lambda key: key.encode("utf-32"),
    "broken over lines": lambda key: "\r\n ".join(textwrap.wrap(key, 7)).encode(),
    "quoted-printable": lambda key: "=\n".join(textwrap.wrap(key, 7)).encode(),
    "quoted-printable in JSON": lambda key: "=\\r\\n".join(textwrap.wrap(key, 9)).encode(),
    "hexadecimal": lambda key: key.encode().hex().encode(),
    "hexadecimal in capitals, spaced": lambda key: key.encode().hex(" ").upper().encode(),
    "hexadecimal with colons": lambda key: key.encode().hex(":").encode(),
    "hexadecimal with dashes, in capitals": lambda key: key.encode().hex("-").upper().encode(),
    "hexadecimal as in C": lambda key: ", ".join(f"0x{one:02x}" for one in key.encode()).encode(),
    "hexadecimal of UTF-16 with colons": lambda key: key.encode("utf-16-be").hex(":").encode(),
    "hexadecimal of UTF-16": lambda key: key.encode("utf-16-be").hex().encode(),
    "a list of numbers": lambda key: json.dumps(list(key.encode())).encode(),
    **{f"base64 behind {count} bytes": b64_behind("x" * count) for count in range(4)},
    "base64 for a URL": lambda key: base64.urlsafe_b64encode(f"me:{key}".encode()),
    "base64 in JSON": lambda key: b64(f"?>{key}").replace(b"/", b"\\/"),
    "base64 in a URL": lambda key: quote(b64(f"?>{key}"), safe="").encode(),
    "base64 over lines": lambda key: b"\n".join(b64(key * 2)[at : at + 19] for at in range(0, 99, 19)),
    "base64 over lines, in JSON": lambda key: b"\\n".join(b64(key * 2)[at : at + 19] for at in range(0, 99, 19)),
    "base64 of UTF-16": lambda key: b64(key, encoding="utf-16-le"),
    "base64 of UTF-16 behind a byte": lambda key: base64.b64encode(b"x" + key.encode("utf-16")),
    "base64 of UTF-16, big end first": lambda key: b64(key, encoding="utf-16"),
}


def cut_and_cleaned(whole: bytes, cuts: list[int]) -> bytes:
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    remover = Remover(Secrets([KEY]))
    return b"".join([*(remover.feed(whole[a:b]) for a, b in pairwise(edges)), remover.finish()])


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=list(SPELLINGS))
async def test_a_key_that_is_repeated_in_another_spelling_does_not_come_in(tmp_path: Path, spelling: Spelling) -> None:
    spelt = spelling(KEY)

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        raw = b'data: {"error": "%b"}\n\n' % spelling(seen.headers["x-api-key"])
        await send_stream(writer, *(raw[at : at + 5] for at in range(0, len(raw), 5)))

    async with loopback_api(answer) as api, Gate(api.url, KEY, tmp_path / "s"), Jailed(tmp_path / "s") as agent:
        body = (await agent.post(HELLO)).body
    # Of a key in base64 the first and the last character may stay: they also hold bits of what stands beside it.
    before, _, rest = body.partition(REMOVED.encode())
    assert before.startswith(b'data: {"error": "')
    assert rest.endswith(b'"}\n\n')
    left = before.removeprefix(b'data: {"error": "') + rest.removesuffix(b'"}\n\n')
    assert not any(spelt[at : at + 16] in left for at in range(len(spelt) - 16))
    assert cut_and_cleaned(spelt, list(range(len(spelt)))) == cut_and_cleaned(spelt, [])


_PIECES = st.lists(st.sampled_from([KEY, KEY[:9], KEY[5:], "s", "sk", "sk-sk-ant", " ", "\n", "ä", '"']), max_size=12)


@settings(max_examples=300, deadline=None)
@given(parts=_PIECES, cuts=st.lists(st.integers(0, 300), max_size=20))
def test_cutting_an_answer_changes_nothing_in_what_comes_out(parts: list[str], cuts: list[int]) -> None:
    whole = "".join(parts).encode()
    assert cut_and_cleaned(whole, cuts) == whole.replace(KEY.encode(), REMOVED.encode())


_SPELT = st.sampled_from([spelling(KEY) for spelling in SPELLINGS.values()])
_NEAR = _SPELT.flatmap(
    lambda one: (
        st.tuples(st.integers(0, len(one)), st.integers(0, len(one))).map(sorted).map(lambda at: one[at[0] : at[1]])
    )
)
_BETWEEN = st.sampled_from(
    [b" ", b"\\", b"%", b"&#", b"\0", b"s", b"{}", b"\n\n", b"%25", b"\\u00", b"=", b"=\n", b"=\\r", b":"]
)


@settings(max_examples=400, deadline=None)
@given(parts=st.lists(_SPELT | _NEAR | _BETWEEN, max_size=6), cuts=st.lists(st.integers(0, 2000), max_size=30))
def test_no_spelling_comes_through_however_an_answer_is_cut(parts: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(parts)
    out = cut_and_cleaned(whole, cuts)
    assert out == cut_and_cleaned(whole, [])
    assert cut_and_cleaned(out, []) == out  # nothing is left, and nothing new came about


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=300) | st.binary(max_size=300).map(lambda some: json.dumps(b64(repr(some)).decode())))
def test_what_is_no_key_comes_through_as_it_is(text: str) -> None:
    whole = json.dumps({"text": text}).encode() + text.encode()
    assert cut_and_cleaned(whole, list(range(0, len(whole), 7))) == whole


def test_a_short_key_is_not_looked_for_in_ordinary_words() -> None:
    secrets = Secrets(["changeme"])
    assert secrets.clean("Change me, or changEMe.") == "Change me, or changEMe."
    assert secrets.clean("x=changeme; Y2hhbmdlbWU=") == f"x={REMOVED}; {REMOVED}U="


def test_a_key_that_looks_like_escapes_is_removed_too() -> None:
    key = r"u0041%41\x42&#67;-0123456789"
    for text in (key, "\\" + key, quote(key), json.dumps(key)):
        assert REMOVED in Secrets([key]).clean(text)
        assert "0123456789" not in Secrets([key]).clean(text)


def test_no_more_is_held_than_a_key_can_take() -> None:
    remover = Remover(Secrets([KEY]))
    passed = sum(len(remover.feed(KEY[:5].encode() + b" " * 1000)) for _ in range(1000))
    for _ in range(1000):
        passed += len(remover.feed(b" " * 1000))
    assert passed > 1_900_000


def test_a_placeholder_in_place_of_a_key_is_ordinary_text() -> None:
    assert Secrets(["none"]).clean("none of them") == "none of them"
    assert Remover(Secrets(["none"])).feed(b"none") == b"none"


SENT = {
    "x-claude-code-session-id": "1f6ab9af-bfea-4d54-9c35-22ff172d27b9",
    "x-stainless-runtime-version": "v26.12.1",
    "x-stainless-timeout": "600",
    "anthropic-beta": "claude-code-20250219,effort-2025-11-24",
    "user-agent": "claude-cli/2.1.325 (external, sdk-py, agent-sdk/0.2.182)",
    "x-app": "cli",
    "x-claude-code-agent-id": "a45bc4e221ea64480",
    "x-claude-code-parent-agent-id": "aside_question-45bc4e221ea64480",
    "x-client-request-id": "3073ddb4-0163-4193-82f6-84b46b3716ed",
    "anthropic-client-platform": "claude_code_sdk",
}


@pytest.mark.parametrize(
    "text",
    [
        {"x-stainless-anything": "1"},
        {"x-claude-code-note": "1"},
        {"x-claude-code-session-id": "the secret is: plum"},
        {"x-claude-code-session-id": "a" * 65},
        {"x-claude-code-session-id": "736b2d6c697665"},
        {"x-claude-code-agent-id": "736b2d6c697665736b2d6c697665"},
        {"x-claude-code-parent-agent-id": "plum"},
        {"x-client-request-id": "plum"},
        {"x-app": "736b2d6c697665"},
        {"x-app": "plum"},
        {"anthropic-client-platform": "plum"},
        {"anthropic-beta": "736b2d6c69766573656372657430313233"},
        {"anthropic-beta": "plum-2025,the-secret-is-plum"},
        {"x-stainless-os": "Linux; the secret"},
        {"x-stainless-lang": "plum-0123456789"},
        {"x-stainless-runtime-version": "v26.plum"},
        {"user-agent": "plum data here"},
        {"user-agent": "claude-cli/2.1.325 (plum)"},
        {"accept": "plum/xx"},
        {"x-stainless-timeout": "plum"},
        {"anthropic-beta": "Two words"},
        {"anthropic-version": "plum"},
        {"user-agent": "{plum}"},
        {"x-api-version": "1"},
    ],
)
async def test_a_header_with_another_name_or_shape_than_the_clis_does_not_leave(
    tmp_path: Path, text: dict[str, str]
) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in {**SENT, **text}.items())
    async with loopback_api() as api, Gate(api.url, KEY, tmp_path / "s"), Jailed(tmp_path / "s") as agent:
        assert (await agent.post(HELLO, headers=lines)).status == 200
    rest = {name: value for name, value in SENT.items() if name not in text}
    assert rest.items() <= api.seen[0].headers.items()
    assert not set(text) & set(api.seen[0].headers)


@pytest.mark.parametrize("query", ["?", "?api_key=plum", "?beta=true&note=plum", "?beta=false", "?beta", "?key=plum"])
async def test_no_query_but_the_clis_own_passes(tmp_path: Path, query: str) -> None:
    async with loopback_api() as api, Gate(api.url, KEY, tmp_path / "s") as gate, Jailed(tmp_path / "s") as agent:
        assert (await agent.post(HELLO, path=f"/v1/messages{query}")).status == 403
    assert (api.seen, gate.audit[0].code) == ([], "path")


async def test_betas_of_the_host_are_asked_for_beside_the_clients(tmp_path: Path) -> None:
    own: dict[str, Any] = {"anthropic-beta": "oauth-2025-04-20,effort-2025-11-24"}
    async with loopback_api() as api, Gate(api.url, KEY, tmp_path / "s", headers=own), Jailed(tmp_path / "s") as agent:
        await agent.post(HELLO, headers="anthropic-beta: claude-code-20250219, plum,effort-2025-11-24\r\n")
        await agent.post(HELLO)
    assert [seen.headers["anthropic-beta"] for seen in api.seen] == [
        "claude-code-20250219,effort-2025-11-24,oauth-2025-04-20",
        "oauth-2025-04-20,effort-2025-11-24",
    ]
