"""With domains allowed, tunnels lead to exactly these, at addresses that were checked."""

from __future__ import annotations

import asyncio
import contextlib
import io
import random
import shutil
import socket
import ssl
import sys
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any

import pytest

from tests.needs import needs
from tests.sandbox.upstream import HELLO, WAIT, Jailed, loopback_api, make_certificate
from toolkit.sandbox import Gate
from toolkit.sandbox.gate import NotTLS, is_public, join, server_name

PUBLIC = "93.184.215.14"


def client_hello(host: str | None) -> bytes:
    """The first bytes a real TLS client sends for a host."""
    outgoing = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = host is not None
    session = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=host)
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


class Network:
    """A host's view of the net: names with their addresses, and one echo server behind all of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: dict[str, list[str]] = {"example.com": [PUBLIC]}
        self.dialled: list[tuple[str, int]] = []
        self.lookups: list[str] = []
        self._connect = asyncio.open_connection
        monkeypatch.setattr(asyncio, "open_connection", self._open)

    async def lookup(self, host: str, port: int, **_: Any) -> list[Any]:
        self.lookups.append(host)
        addresses = self.names.get(host.removesuffix("."))
        if addresses is None:
            raise socket.gaierror("unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    async def _open(self, host: str, port: int, **options: Any) -> Any:
        if (host, port) != ("127.0.0.1", self.port):
            self.dialled.append((host, port))
        return await self._connect("127.0.0.1", self.port, **options)

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(b"echo:" + data)
        writer.close()

    @asynccontextmanager
    async def serving(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._echo, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", self.lookup)
        yield
        server.close()


@pytest.fixture
async def network(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Network]:
    net = Network(monkeypatch)
    async with net.serving(monkeypatch):
        yield net


def connect(target: str) -> bytes:
    return f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n".encode()


async def open_tunnel(agent: Jailed, target: str) -> None:
    agent.writer.write(connect(target))
    async with asyncio.timeout(WAIT):
        assert await agent.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"


async def test_a_tunnel_to_an_allowed_domain_carries_tls_both_ways(tmp_path: Path, network: Network) -> None:
    hello = client_hello("example.com")
    async with Gate("http://127.0.0.1:9", "key", tmp_path / "s", domains=["example.com"]) as gate:
        async with Jailed(tmp_path / "s") as agent, asyncio.timeout(WAIT):
            await open_tunnel(agent, "example.com:443")
            agent.writer.write(hello[:3])
            await agent.writer.drain()
            agent.writer.write(hello[3:])
            assert await agent.reader.readexactly(len(hello) + 5) == b"echo:" + hello
            agent.writer.write(b"more")
            agent.writer.write_eof()
            assert await agent.reader.read() == b"echo:more"
        assert network.lookups == ["example.com."]
        assert network.dialled == [(PUBLIC, 443)]
        assert gate.audit == ()


async def test_a_tunnel_may_be_asked_for_in_http_1_0_without_a_host(tmp_path: Path, network: Network) -> None:
    hello = client_hello("example.com")
    async with Gate("http://127.0.0.1:9", "key", tmp_path / "s", domains=["example.com"]) as gate:
        async with Jailed(tmp_path / "s") as agent, asyncio.timeout(WAIT):
            agent.writer.write(b"CONNECT example.com:443 HTTP/1.0\r\n\r\n")
            assert (await agent.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            agent.writer.write(hello)
            assert await agent.reader.readexactly(len(hello) + 5) == b"echo:" + hello
        assert gate.audit == ()


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"CONNECT other.com:443 HTTP/1.0\r\n\r\n", 403),
        (b"CONNECT example.com:443 HTTP/0.9\r\n\r\n", 505),
        (b"CONNECT example.com:443 HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT example.com:443 HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n", 400),
        (b"CONNECT example.com:443 HTTP/1.0\r\ncontent-length: 0\r\n\r\n", 400),
        (b"CONNECT example.com:443 HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (b"connect example.com:443 HTTP/1.0\r\n\r\n", 505),
        (b"GET https://example.com/ HTTP/1.0\r\n\r\n", 505),
        (b"POST /v1/messages HTTP/1.0\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}", 505),
    ],
)
async def test_http_1_0_is_for_a_plain_connect_alone(tmp_path: Path, network: Network, raw: bytes, status: int) -> None:
    gate = Gate("http://127.0.0.1:9", "key", tmp_path / "s", domains=["example.com"])
    async with gate, Jailed(tmp_path / "s") as agent:
        assert (await agent.raw(raw)).status == status
    assert network.dialled == []


@needs(find_spec("pip") and shutil.which("openssl"), "needs pip and openssl")
async def test_pip_installs_from_an_allowed_index(tmp_path: Path, network: Network) -> None:
    host = "index.example.com"
    network.names[host] = [PUBLIC]
    _, cert = certificate = make_certificate(tmp_path, host)
    pip = [sys.executable, "-m", "pip", "--isolated", "install", "--no-deps", "--no-cache-dir", "--no-compile"]
    pip += ["--disable-pip-version-check", "--cert", str(cert), "--index-url", f"https://{host}/simple"]

    async with (
        package_index(certificate) as network.port,
        Gate("http://127.0.0.1:9", "key", tmp_path / "s", domains=[host]) as gate,
        port_to_the_gate(tmp_path / "s") as port,
    ):
        pip += ["--proxy", f"http://127.0.0.1:{port}", "--target", str(tmp_path / "into"), "tiny"]
        process = await asyncio.create_subprocess_exec(*pip, stdout=PIPE, stderr=STDOUT, env={"HOME": str(tmp_path)})
        async with asyncio.timeout(60):
            said, _ = await process.communicate()

    assert process.returncode == 0, said.decode()
    assert (tmp_path / "into" / "tiny.py").read_text(encoding="ascii") == "SIZE = 1\n"
    assert network.dialled[0] == (PUBLIC, 443)
    assert gate.audit == ()


@asynccontextmanager
async def package_index(certificate: tuple[Path, Path]) -> AsyncIterator[int]:
    """A package index on loopback, over TLS, that has one package: tiny."""
    key, cert = certificate
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(cert, key)
    name = "tiny-1.0-py3-none-any.whl"
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as files:
        files.writestr("tiny.py", "SIZE = 1\n")
        files.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        files.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        files.writestr("tiny-1.0.dist-info/RECORD", "")
    pages = {
        "/simple/tiny/": ("text/html", f'<!DOCTYPE html><a href="/files/{name}">{name}</a>'.encode()),
        f"/files/{name}": ("application/zip", wheel.getvalue()),
    }

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        kind, body = pages[head.split(b" ")[1].decode()]
        line = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(line.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def port_to_the_gate(socket_path: Path) -> AsyncIterator[int]:
    """What socat does in a jail: a port that leads to the gate's socket."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gate = await asyncio.open_unix_connection(socket_path)
        with contextlib.suppress(OSError):
            await join((reader, writer), gate)
        gate[1].close()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.mark.parametrize(
    "target",
    [
        "other.com:443",
        "www.example.com:443",
        "example.com.evil.com:443",
        "example.com:80",
        "example.com:22",
        "example.com",
        "example.com:0443",
        "example.com.:443",
        f"{PUBLIC}:443",
        "127.0.0.1:443",
        "[::1]:443",
        "localhost:443",
        "user@example.com:443",
        "example.com:443/x",
        "example.com%00.evil.com:443",
        "http://example.com:443",
    ],
)
async def test_a_tunnel_to_anything_else_is_refused_before_a_lookup(
    tmp_path: Path, network: Network, target: str
) -> None:
    async with Gate("http://127.0.0.1:9", "key", tmp_path / "s", domains=["example.com"]) as gate:
        async with Jailed(tmp_path / "s") as agent:
            assert (await agent.raw(connect(target))).status == 403
        assert gate.audit[0].code == "domain"
    assert (network.lookups, network.dialled) == ([], [])


async def test_a_wildcard_allows_names_below_it_but_not_the_name_itself(tmp_path: Path, network: Network) -> None:
    network.names = {"a.example.com": [PUBLIC], "b.a.example.com": [PUBLIC], "notexample.com": [PUBLIC]}
    async with Gate("http://127.0.0.1:9", "key", tmp_path / "s", domains=["*.example.com"]):
        for target, is_open in [
            ("a.example.com:443", True),
            ("B.A.example.COM:443", True),
            ("example.com:443", False),
            ("notexample.com:443", False),
        ]:
            async with Jailed(tmp_path / "s") as agent:
                if is_open:
                    await open_tunnel(agent, target)
                else:
                    assert (await agent.raw(connect(target))).status == 403


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["10.1.2.3"],
        ["169.254.169.254"],
        [PUBLIC, "192.168.0.1"],
        ["::ffff:127.0.0.1"],
        ["fe80::1%eth0"],
        [],
    ],
)
async def test_a_domain_that_resolves_to_a_private_address_is_refused(
    tmp_path: Path, network: Network, addresses: list[str]
) -> None:
    network.names["example.com"] = addresses
    async with Gate("http://127.0.0.1:9", "key", tmp_path / "s", domains=["example.com"]) as gate:
        async with Jailed(tmp_path / "s") as agent:
            assert (await agent.raw(connect("example.com:443"))).status == 403
        assert gate.audit[0].code == "address"
    assert network.dialled == []


async def test_a_second_dns_answer_changes_nothing(tmp_path: Path, network: Network) -> None:
    async with (
        Gate("http://127.0.0.1:9", "key", tmp_path / "s", domains=["example.com"]),
        Jailed(tmp_path / "s") as agent,
    ):
        await open_tunnel(agent, "example.com:443")
        network.names["example.com"] = ["127.0.0.1"]
        agent.writer.write(client_hello("example.com"))
        async with asyncio.timeout(WAIT):
            await agent.reader.readexactly(5)
    assert (network.dialled, network.lookups) == ([(PUBLIC, 443)], ["example.com."])


async def test_a_domain_that_does_not_resolve_is_a_502(tmp_path: Path, network: Network) -> None:
    network.names.clear()
    async with (
        Gate("http://127.0.0.1:9", "key", tmp_path / "s", domains=["example.com"]),
        Jailed(tmp_path / "s") as agent,
    ):
        assert (await agent.raw(connect("example.com:443"))).status == 502


def hello_with_extension(kind: int) -> bytes:
    """A client hello for example.com with one more, empty extension."""
    hello = client_hello("example.com")
    body = bytearray(hello[9:])
    at = 2 + 32
    at += 1 + body[at]
    at += 2 + int.from_bytes(body[at : at + 2], "big")
    at += 1 + body[at]
    size = int.from_bytes(body[at : at + 2], "big")
    body[at : at + 2] = (size + 4).to_bytes(2, "big")
    body += kind.to_bytes(2, "big") + b"\0\0"
    record = b"\x01" + len(body).to_bytes(3, "big") + bytes(body)
    return hello[:3] + len(record).to_bytes(2, "big") + record


@pytest.mark.parametrize(
    "first",
    [
        client_hello("other.example.com"),
        client_hello(None),
        hello_with_extension(0xFE0D),
        client_hello("example.com")[:40] + b"\xff" * 500,
        b"GET / HTTP/1.1\r\nhost: example.com\r\n\r\n",
        b"SSH-2.0-OpenSSH_9\r\n",
        b"\x16\x03\x01\xff\xff" + b"a" * 100,
        b"\x16\x03\x01\x00\x05" + b"\x02aaaa",
    ],
    ids=["another host", "no host", "hidden host", "garbled", "http", "ssh", "too large", "no hello"],
)
async def test_a_tunnel_that_does_not_begin_with_tls_for_its_host_is_closed(
    tmp_path: Path, network: Network, first: bytes
) -> None:
    async with Gate("http://127.0.0.1:9", "key", tmp_path / "s", domains=["example.com"]) as gate:
        async with Jailed(tmp_path / "s") as agent, asyncio.timeout(WAIT):
            await open_tunnel(agent, "example.com:443")
            agent.writer.write(first)
            agent.writer.write_eof()
            assert await agent.reader.read() == b""
        assert [refusal.code for refusal in gate.audit] == ["tls"]
    assert network.dialled == []


def test_a_hello_with_a_harmless_extension_more_is_understood() -> None:
    assert server_name(hello_with_extension(0x1234)[5:]) == "example.com"


def test_a_damaged_hello_is_understood_or_refused_but_never_an_error_of_another_kind() -> None:
    whole = client_hello("example.com")[5:]
    chance = random.Random(5)
    for _ in range(2000):
        damaged = bytearray(whole[: chance.randrange(len(whole) + 1)] if chance.random() < 0.3 else whole)
        for _ in range(chance.randrange(3)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            name = server_name(bytes(damaged))
        except NotTLS:
            continue
        assert name.isascii()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (PUBLIC, True),
        ("8.8.8.8", True),
        ("2606:2800:220:1::1", True),
        ("64:ff9b::808:808", True),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b:1::a00:1", False),
        ("127.0.0.1", False),
        ("127.255.0.1", False),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("192.0.0.192", False),
        ("168.63.129.16", False),
        ("192.0.2.1", False),
        ("198.18.0.1", False),
        ("224.0.0.1", False),
        ("239.1.1.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("::", False),
        ("::1", False),
        ("::7f00:1", False),
        ("::ffff:8.8.8.8", False),
        ("::ffff:127.0.0.1", False),
        ("2002:7f00:1::", False),
        ("2001:0:1::1", False),
        ("fc00::1", False),
        ("fd12::1", False),
        ("fe80::1", False),
        ("fec0::1", False),
        ("ff02::1", False),
        ("2001:db8::1", False),
        ("fe80::1%eth0", False),
        ("2130706433", False),
        ("", False),
    ],
)
def test_only_plain_public_addresses_are_public(address: str, expected: bool) -> None:
    assert is_public(address) is expected


async def test_messages_pass_beside_tunnels_and_server_side_tools_still_do_not(tmp_path: Path) -> None:
    tool = {"type": "web_search_20250305", "name": "web_search"}
    gate = partial(Gate, api_key="key", socket_path=tmp_path / "s", domains=["example.com"])
    async with loopback_api() as api, gate(api.url), Jailed(tmp_path / "s") as agent:
        assert (await agent.post(HELLO)).status == 200
        assert (await agent.post({**HELLO, "tools": [tool]})).status == 403
    assert len(api.seen) == 1
