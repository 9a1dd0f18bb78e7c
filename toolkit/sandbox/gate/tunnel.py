"""Tunnels to the few domains that were allowed by name.

A name is resolved once, on the host; every address must be on the public
internet, and exactly a checked address is dialled, so a second DNS answer
changes nothing. The tunnel then has to start with TLS for that same name, or an
agent could reach other sites behind the same address; an encrypted client
hello, which hides the name, is therefore refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Sequence

from toolkit.sandbox.domains import is_allowed
from toolkit.sandbox.gate.http import PIECE, Refused
from toolkit.sandbox.host import why_not_tls

RESOLVE_SECONDS = 10.0
CONNECT_SECONDS = 15.0
HELLO_SECONDS = 15.0
SILENCE_SECONDS = 600.0

TLS = tuple[ssl.SSLContext, str]
"""What a server is asked to prove itself with, and the name that it has to prove."""
_TARGET = re.compile(r"([A-Za-z0-9.-]{1,253}):([0-9]{1,5})")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Written out, because what the standard library calls private differs between its versions. The last of the
# IPv4 ones is a cloud's own service to its machines, inside a public range.
_NOT_PUBLIC = """
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24
192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 168.63.129.16/32
2001::/23 2001:db8::/32 2002::/16 3fff::/20
"""
_NOT_PUBLIC_NETWORKS = [ipaddress.ip_network(text) for text in _NOT_PUBLIC.split()]
_GLOBAL_IPV6 = ipaddress.ip_network("2000::/3")
MAX_HELLO_BYTES = 16 * 1024
_HANDSHAKE, _CLIENT_HELLO = 22, 1
_SERVER_NAME, _ENCRYPTED_HELLO = 0, 0xFE0D


def tunnel_host(target: str, domains: Sequence[str]) -> str:
    """The allowed host a CONNECT asks for; a Refused for any other."""
    match = _TARGET.fullmatch(target)
    if match is None or match[2] != "443":
        raise Refused(403, "domain", "a tunnel is asked for as host:443")
    host = match[1].lower()
    if not is_allowed(host, domains):
        raise Refused(403, "domain", f"{host[:100]} is not an allowed domain")
    return host


async def public_addresses(host: str) -> list[str]:
    """The addresses of `host`; a Refused if it has none or one that is not public."""
    absolute = f"{host}."  # or a search domain of the host would be tried as well
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(absolute, 443, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        raise Refused(502, "address", f"{host} cannot be resolved") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not addresses or not all(is_public(address) for address in addresses):
        raise Refused(403, "address", f"{host} resolves to an address that is not public")
    return addresses


def is_public(text: str) -> bool:
    """Whether an address is reachable on the public internet and is no other address in disguise."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False  # also an IPv6 address with a zone
    if address in _NAT64:
        address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.version == 6 and address not in _GLOBAL_IPV6:
        return False  # local, or an IPv4 address in disguise
    return not any(address in network for network in _NOT_PUBLIC_NETWORKS)


async def dial(
    addresses: Sequence[str], port: int = 443, tls: TLS | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first of the checked addresses that answers; with `tls` it has to prove that it has this name."""
    context, name = tls or (None, None)
    for address in addresses[:8]:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await asyncio.open_connection(address, port, ssl=context, server_hostname=name)
        except ssl.SSLError as wrong:
            raise Refused(502, "certificate", f"the server at port {port}: {why_not_tls(wrong)}") from None
        except (OSError, TimeoutError):
            continue
    raise Refused(502, "address", "no address of the host answers")


async def read_hello(reader: asyncio.StreamReader, host: str) -> bytes:
    """The client's first TLS record, once it is known to ask for `host`."""
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            header = await reader.readexactly(5)
            record = await reader.readexactly(record_length(header))
        name = server_name(record)
    except (asyncio.IncompleteReadError, TimeoutError, ConnectionError):
        raise Refused(403, "tls", "the tunnel was closed before TLS began") from None
    except NotTLS as wrong:
        raise Refused(403, "tls", str(wrong)) from None
    if name != host:
        raise Refused(403, "tls", f"the tunnel to {host} asks for {name[:100]}")
    return header + record


async def join(
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter], server: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    """Carry bytes both ways until either side is done."""
    ways = [
        asyncio.ensure_future(_carry(client[0], server[1])),
        asyncio.ensure_future(_carry(server[0], client[1])),
    ]
    try:
        await asyncio.gather(*ways)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        async with asyncio.timeout(SILENCE_SECONDS):
            data = await reader.read(PIECE)
            if not data:
                writer.write_eof()
                return
            writer.write(data)
            await writer.drain()


class NotTLS(Exception):
    """The bytes are no client hello this gate can vouch for."""


def record_length(header: bytes) -> int:
    """How many bytes follow the five of a TLS record header that must begin a client hello."""
    length = int.from_bytes(header[3:5], "big")
    if len(header) != 5 or header[0] != _HANDSHAKE or header[1] != 3 or not 4 <= length <= MAX_HELLO_BYTES:
        raise NotTLS("the tunnel does not begin with TLS")
    return length


def server_name(record: bytes) -> str:
    """The one host name a client hello asks for; `record` is the whole record without its header."""
    hello = _Bytes(record)
    if hello.number(1) != _CLIENT_HELLO:
        raise NotTLS("the tunnel does not begin with a client hello")
    hello = _Bytes(hello.block(3))
    hello.take(2 + 32)
    hello.block(1)
    hello.block(2)
    hello.block(1)
    extensions = _Bytes(hello.block(2))
    names: list[str] = []
    while extensions:
        kind, data = extensions.number(2), extensions.block(2)
        if kind == _ENCRYPTED_HELLO:
            raise NotTLS("an encrypted client hello hides the host")
        if kind == _SERVER_NAME:
            names.append(_name(data))
    if len(names) != 1:
        raise NotTLS("the client hello names no host")
    return names[0].lower()


def _name(data: bytes) -> str:
    entries = _Bytes(_Bytes(data).block(2))
    kind, name = entries.number(1), entries.block(2)
    if kind != 0 or entries or not name.isascii():
        raise NotTLS("the client hello names its host oddly")
    return name.decode("ascii")


class _Bytes:
    """Bytes read from the front; running out means it is no client hello."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            raise NotTLS("the client hello is cut off")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def block(self, width: int) -> bytes:
        return self.take(self.number(width))
