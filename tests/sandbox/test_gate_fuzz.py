"""The gate's own parser against h11: it reads no request otherwise, and each request that only one of them takes has a known reason.

Requests are put together from pieces that parsers disagree about. What both accept they must read alike, to the last
byte; h11 may accept what the gate refuses for a reason in STRICTER, and never the other way round but for LAXER.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import h11
from hypothesis import HealthCheck, example, given, settings, strategies as st

from toolkit.sandbox.gate import ProtocolError, Refused, WatchedReader, body_length, body_pieces, read_head

STRICTER: dict[str, Callable[[bytes], object]] = {
    "another version": lambda raw: not re.match(rb"[^\r\n]* HTTP/1\.1\r\n|CONNECT [^\r\n]* HTTP/1\.0\r\n", raw),
    "no length": lambda raw: (
        not raw.startswith(b"CONNECT ") and not re.search(rb"(?i)\n(content-length|transfer-encoding):", raw)
    ),
    "a body behind CONNECT": lambda raw: (
        raw.startswith(b"CONNECT ") and re.search(rb"(?i)\n(content-length|transfer-encoding):", raw)
    ),
    "more than 100 header lines": lambda raw: raw.partition(b"\r\n\r\n")[0].count(b"\r\n") > 100,
    "a head of more than 64 KiB": lambda raw: raw.find(b"\r\n\r\n") > 64 * 1024 - 2,
    "a length twice": lambda raw: len(re.findall(rb"(?i)\ncontent-length:", raw)) > 1,
    "a list of lengths": lambda raw: re.search(rb"(?i)\ncontent-length:[^\n]*,", raw),
    "a length of more than 12 digits": lambda raw: re.search(rb"(?i)\ncontent-length:\s*[0-9]{13}", raw),
    "a length beside chunks": lambda raw: (
        re.search(rb"(?i)\ncontent-length:", raw) and re.search(rb"(?i)\ntransfer-encoding:", raw)
    ),
    "a bare newline": lambda raw: re.search(rb"(?<!\r)\n", raw),
    "a folded line": lambda raw: re.search(rb"\n[ \t]", raw),
    "a value that is not printable ASCII": lambda raw: re.search(rb":[^\r\n]*[^\t\x20-\x7e\r\n]", raw),
    "a chunk size of more than 8 digits": lambda raw: re.search(rb"\n[0-9a-fA-F]{9}", raw),
    "a space behind a chunk size": lambda raw: re.search(rb"\n[0-9a-fA-F]+[ \t]+\r\n", raw),
    "a chunk extension that is not ASCII": lambda raw: re.search(rb"\n[0-9a-fA-F]+;[^\r\n]*[^\t\x20-\x7e\r\n]", raw),
}
"""What h11 repairs or lets pass and the gate refuses: the name, and how such a request looks."""

LAXER: dict[str, Callable[[bytes], object]] = {
    "a trailer of any form": lambda raw: re.search(rb"\n0[^\n]*\r\n[^\r\n]", raw),
    "a space before a chunk extension": lambda raw: re.search(rb"\n[0-9a-fA-F]+[ \t]+;", raw),
}
"""What the gate takes and h11 refuses: neither part is passed on, so neither can be read in two ways."""


@dataclass(frozen=True)
class Parsed:
    """A request as one of the parsers read it."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    rest: bytes
    """What stands behind it, where the next request would begin."""


def by_the_gate(raw: bytes) -> Parsed | None:
    async def parse() -> Parsed | None:
        reader = WatchedReader(asyncio.get_running_loop())
        reader.feed_data(raw)
        reader.feed_eof()
        head = await read_head(reader, idle=5, whole=5)
        if head is None:
            return None
        length = 0 if head.method == "CONNECT" else body_length(head.headers)
        body = b"".join([piece async for piece in body_pieces(reader, length)])
        # h11 gives the one value that is left for this header in lower case.
        headers = tuple((k, v.lower() if k == "transfer-encoding" else v) for k, v in head.headers.pairs)
        return Parsed(head.method, head.target, headers, body, await reader.read())

    try:
        return asyncio.run(parse())
    except (Refused, ProtocolError):
        return None


def by_h11(raw: bytes) -> Parsed | None:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    connection.receive_data(raw)
    connection.receive_data(b"")
    events: list[Any] = []
    try:
        while not events or not isinstance(events[-1], h11.EndOfMessage):
            event = connection.next_event()
            if event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                return None
            events.append(event)
    except h11.RemoteProtocolError:
        return None
    request, *data = events[:-1]
    headers = tuple((name.decode(), value.decode("latin-1")) for name, value in request.headers)
    body = b"".join(bytes(event.data) for event in data)
    return Parsed(request.method.decode(), request.target.decode(), headers, body, connection.trailing_data[0])


_FIRST = st.sampled_from(
    [
        *[b"POST /v1/messages HTTP/1.1"] * 6,
        b"POST /v1/messages?a=b HTTP/1.1",
        b"POST  /v1/messages HTTP/1.1",
        b"POST /v1/messages HTTP/1.0",
        b"POST /v1/messages HTTP/2.0",
        b"POST /v1/mess\xe9ges HTTP/1.1",
        b"P(ST /v1/messages HTTP/1.1",
        b"POST /v1/messages",
        b"\r\nPOST /v1/messages HTTP/1.1",
        *[b"CONNECT example.com:443 HTTP/1.0", b"CONNECT example.com:443 HTTP/1.1"] * 3,
        b"CONNECT example.com:443 HTTP/0.9",
        b"CONNECT example.com:443",
        b"connect example.com:443 HTTP/1.0",
    ]
)
_HEADER = st.sampled_from(
    [
        *[b"content-length: 5", b"transfer-encoding: chunked", b"x-one: 1"] * 6,
        b"Content-Length:5",
        b"content-length: 5, 5",
        b"content-length: +5",
        b"content-length: 0000000000005",
        b"content-length: 0",
        b"content-length : 5",
        b"content-length:\t5\t",
        b"content-length:",
        b"Transfer-Encoding: CHUNKED",
        b"transfer-encoding: gzip, chunked",
        b"transfer-encoding: identity",
        b"transfer-encoding: \x0bchunked",
        b"host: b",
        b"x-one:",
        b"x one: 1",
        b" folded",
        b"\tcontent-length: 7",
        b": nameless",
        b"no colon",
        b"x: a\x00b",
        b"x: a\rb",
        b"x: \xe9",
        b"x: \x7f",
        b"expect: 100-continue",
        b"connection: close",
    ]
)
_MANY = st.sampled_from(
    [*[[]] * 16, [b"a: 1"] * 95, [b"a: 1"] * 99, [b"a: 1"] * 100, [b"a: " + b"x" * 65_000], [b"a: " + b"x" * 65_500]]
)
"""Lines that bring a head to the bounds of what is read."""
_END = st.sampled_from([*[b"\r\n"] * 60, b"\n", b"\r", b"\r\r\n", b"\n\r\n"])
_BODY = st.sampled_from(
    [
        *[b"hello", b"5\r\nhello\r\n0\r\n\r\n"] * 5,
        b"5;ext=1\r\nhello\r\n0\r\n\r\n",
        b"5 ;ext\r\nhello\r\n0\r\n\r\n",
        b"5 \r\nhello\r\n0\r\n\r\n",
        b"5;\xe9\r\nhello\r\n0\r\n\r\n",
        b"5\nhello\n0\n\n",
        b"05\r\nhello\r\n00\r\n\r\n",
        b"000000005\r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhelloX\r\n0\r\n\r\n",
        b"5\r\nhello0\r\n\r\n",
        b"5\r\nhello\r\n0\r\ntrailer: 1\r\n\r\n",
        b"5\r\nhello\r\n0\r\nno trailer\r\n\r\n",
        b"0\r\n\r\n",
        b"",
    ]
)


@st.composite
def _requests(draw: st.DrawFn) -> bytes:
    host = draw(st.sampled_from([*[[b"host: a"]] * 8, [], []]))
    lines = [draw(_FIRST), *host, *draw(st.lists(_HEADER, max_size=4)), *draw(_MANY)]
    raw = b"".join(line + draw(_END) for line in lines) + draw(_END) + draw(_BODY) + draw(_BODY)
    if draw(st.integers(0, 3)):
        return raw
    at = draw(st.integers(0, len(raw)))
    return raw[:at] + draw(st.binary(max_size=2)) + raw[at + draw(st.integers(0, 2)) :]


@settings(max_examples=600, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(_requests())
@example(b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello")
@example(b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nPOST /")
@example(b"CONNECT example.com:443 HTTP/1.0\r\n\r\n\x16\x03\x01")
@example(b"CONNECT example.com:443 HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n")
@example(b"CONNECT example.com:443 HTTP/1.1\r\n\r\n")
def test_a_request_is_read_as_h11_reads_it_or_refused_for_a_reason_we_know(raw: bytes) -> None:
    ours, theirs = by_the_gate(raw), by_h11(raw)

    if ours is not None and theirs is not None:
        assert ours == theirs
    elif theirs is not None:
        assert any(looks_so(raw) for looks_so in STRICTER.values()), raw
    elif ours is not None:
        assert any(looks_so(raw) for looks_so in LAXER.values()), raw


def test_each_difference_that_is_named_is_one() -> None:
    head = b"POST / HTTP/1.1\r\nhost: a\r\n"
    chunked = head + b"transfer-encoding: chunked\r\n\r\n"
    stricter = {
        "another version": b"POST / HTTP/1.0\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello",
        "no length": head + b"\r\n",
        "a body behind CONNECT": b"CONNECT a:443 HTTP/1.0\r\ncontent-length: 5\r\n\r\nhello",
        "more than 100 header lines": head + b"a: 1\r\n" * 99 + b"content-length: 5\r\n\r\nhello",
        "a head of more than 64 KiB": head + b"a: " + b"x" * 65_536 + b"\r\ncontent-length: 5\r\n\r\nhello",
        "a length twice": head + b"content-length: 5\r\ncontent-length: 5\r\n\r\nhello",
        "a list of lengths": head + b"content-length: 5, 5\r\n\r\nhello",
        "a length of more than 12 digits": head + b"content-length: 0000000000005\r\n\r\nhello",
        "a length beside chunks": head
        + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "a bare newline": head + b"content-length: 5\nx: 1\r\n\r\nhello",
        "a folded line": head + b"x: 1\r\n 2\r\ncontent-length: 5\r\n\r\nhello",
        "a value that is not printable ASCII": head + b"x: \xe9\r\ncontent-length: 5\r\n\r\nhello",
        "a chunk size of more than 8 digits": chunked + b"000000005\r\nhello\r\n0\r\n\r\n",
        "a space behind a chunk size": chunked + b"5 \r\nhello\r\n0\r\n\r\n",
        "a chunk extension that is not ASCII": chunked + b"5;\xe9\r\nhello\r\n0\r\n\r\n",
    }
    laxer = {
        "a trailer of any form": chunked + b"5\r\nhello\r\n0\r\nno trailer\r\n\r\n",
        "a space before a chunk extension": chunked + b"5 ;ext\r\nhello\r\n0\r\n\r\n",
    }

    assert stricter.keys() == STRICTER.keys()
    assert laxer.keys() == LAXER.keys()
    assert [name for name, raw in stricter.items() if by_the_gate(raw) is not None or by_h11(raw) is None] == []
    assert [name for name, raw in laxer.items() if by_the_gate(raw) is None or by_h11(raw) is not None] == []
