"""The host name in the first bytes of a TLS connection.

A tunnel is opened for one name; these bytes must ask for the same one, or an
agent could reach other sites behind the same address. Encrypted client hello,
which hides the name, is therefore refused.
"""

from __future__ import annotations

MAX_HELLO_BYTES = 16 * 1024
_HANDSHAKE, _CLIENT_HELLO = 22, 1
_SERVER_NAME, _ENCRYPTED_HELLO = 0, 0xFE0D


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
