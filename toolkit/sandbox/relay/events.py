"""A stream of server-sent events, cut into its events, with the message that a client finds in each."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_EVENT_BYTES = 64 * 1024 * 1024
_END = r"(?:\r\n|\n|\r(?!\n))"
_LINE = re.compile(_END)
_BLANK_LINE = re.compile(f"{_END}{_END}".encode())


class NotHeard(Exception):
    """What cannot be heard is not carried."""


class Events:
    """Takes bytes and gives whole events; what has no end yet is held."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._seen = 0
        """How much of it holds no end."""

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes | None]]:
        """The events that are whole now: their bytes, and the message in each; None for one without.

        Raises:
            NotHeard: an event is longer than any message.
        """
        self._held += data
        if len(self._held) > MAX_EVENT_BYTES:
            raise NotHeard
        while (end := _BLANK_LINE.search(self._held, max(0, self._seen - 3))) is not None:
            block = bytes(self._held[: end.end()])
            del self._held[: end.end()]
            self._seen = 0
            yield block, _message(block)
        self._seen = len(self._held)

    def finish(self) -> Iterator[tuple[bytes, bytes | None]]:
        """What is left; a client may take it for an event."""
        if block := bytes(self._held):
            self._held.clear()
            yield block, _message(block)


def _message(block: bytes) -> bytes | None:
    """What a client reads as a message: the data of an event that has no other name."""
    name, data = "", list[str]()
    for line in _LINE.split(block.decode("utf-8", "replace").removeprefix("\ufeff")):
        field, _, value = line.partition(":")
        if field == "event":
            name = value.removeprefix(" ")
        elif field == "data":
            data.append(value.removeprefix(" "))
    if not data or name not in ("", "message"):
        return None
    return "\n".join(data).encode("utf-8", "surrogatepass")
