"""Keep the host's credentials out of what comes back: an API, or a gateway before it, may repeat them in an answer.

A credential is recognised as it is and in the spellings in which programs repeat it: with some or all of its
characters escaped (JSON, URL, HTML), in other case, in UTF-16 or UTF-32, broken over lines, in base64 wherever it
stands in what was encoded, in hexadecimal digits (with colons, too), as a list of numbers. Not recognised: what was
compressed, encrypted, encoded twice, turned round, or cut in parts with other text between them.

An answer is handed on as it arrives. Only bytes that may be the beginning of a
credential are held until the next ones show whether they are.
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import quote

REMOVED = "[removed by the gate]"
SHORTEST = 8
"""No real key is shorter, and the placeholders that are (`none`, `dummy`) stand in ordinary text."""
SHORTEST_LOOSE = 16
"""A shorter one may be words (`change me`): it is looked for as it is and encoded, not in other case or spaced."""

_ESCAPED = re.compile(
    rb"\\\\{0,7}(?:u00([0-7][0-9a-fA-F])|x([0-7][0-9a-fA-F])|[nrt]|(?=/))"
    rb"|%(?:25){0,4}([0-7][0-9a-fA-F])"
    rb"|&#(?:[xX]0{0,6}([0-7][0-9a-fA-F])|0{0,6}([1-9]?[0-9]|1[01][0-9]|12[0-7]));"
    rb"|=(?:(?:\r|\\{1,8}r)?(?:\n|\\{1,8}n))"
)
"""One character of ASCII that is written as an escape; also one that was escaped again, and a line broken by `=`."""
_CUT = re.compile(
    rb"(?:\\\\{0,7}(?:u0{0,2}[0-7]?|x[0-7]?)?|%(?:25){0,4}[0-7]?|&(?:#(?:[xX][0-9a-fA-F]{0,8}|[0-9]{0,9})?)?"
    rb"|=(?:\r|\\{1,8}r)?\\{0,8})\Z"
)
_LONGEST_CUT = 20
_DECIMAL = 5
"""The group of `_ESCAPED` that has a decimal number; the others have two hexadecimal digits."""
_NOISE = b"\0 \t\r\n"
"""Stands between the characters of wider encodings, and where a line was broken."""
_BETWEEN_DIGITS = (":", "-", ",0x")
"""What programs put between two bytes in hexadecimal, without spaces."""
_LOWER = bytes(range(256)).lower()
_ONE_ALPHABET = bytes.maketrans(b"-_", b"+/")
_MOST_HELD = 64 * 1024

Span = tuple[int, int]


class Secrets:
    """Values that must not enter the jail, in every form in which they are usually repeated."""

    def __init__(self, values: Iterable[str]) -> None:
        known = [value for value in dict.fromkeys(values) if len(value) >= SHORTEST]
        forms = {form for value in known for form in _forms(value)}
        # The longest first, so that of two that begin alike nothing is left over.
        self._forms = sorted((form.encode() for form in forms), key=len, reverse=True)
        self._exact = re.compile(b"|".join(re.escape(form) for form in self._forms)) if forms else None
        self._spellings = (
            _Spellings(_LOWER, [one for value in known for one in _spelt_in_any_case(value)]),
            _Spellings(_ONE_ALPHABET, [one for value in known for one in _spelt_in_this_case(value)]),
        )

    def clean(self, text: str) -> str:
        """A whole text, such as a header's value, without them."""
        return self.split(text.encode(), is_last=True)[0].decode()

    def split(self, data: bytes, *, is_last: bool) -> tuple[bytes, bytes]:
        """`data` without them, and the end of it that may be the beginning of one (nothing if no more follows)."""
        if self._exact is None:
            return data, b""
        known = len(data) if is_last else _whole(data)
        plain = _plain(data[:known])
        spans = [found.span() for found in self._exact.finditer(data)]
        spelt = [span for spellings in self._spellings for span in spellings.find(plain)]
        begun = 0 if is_last else max(spellings.begun(plain) for spellings in self._spellings)
        held = known if is_last else min(known, len(data) - max(_beginning(form, data) for form in self._forms))
        if spelt or begun:
            places = _Places(data[:known])
            spans += [(places[start][0], places[end - 1][1]) for start, end in spelt]
            held = min(held, places[len(plain) - begun][0]) if begun else held
        return _without(data, spans, held)


class _Spellings:
    """What is looked for in a text without escapes and noise, in which each byte is replaced by that of a table."""

    def __init__(self, table: bytes, ones: list[bytes]) -> None:
        self._table = table
        self._ones = ones
        self._bytes = frozenset(b"".join(ones))

    def find(self, plain: bytes) -> list[Span]:
        """Wherever one of them stands."""
        view = plain.translate(self._table)
        return [span for one in self._ones if one in view for span in _everywhere(one, view)]

    def begun(self, plain: bytes) -> int:
        """How many characters at its end are the beginning of one."""
        end = plain[-1:].translate(self._table)
        if not end or end[0] not in self._bytes:
            return 0
        view = plain.translate(self._table)
        return max(_beginning(one, view) for one in self._ones)


class _Places:
    """Where each character that is left without escapes and noise stands in the text that has them."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._texts: list[int] = []
        """Where what stands between two escapes begins."""
        self._escapes: list[Span] = []
        """The escape behind each of them."""
        self._counts: list[int] = []
        """How many characters are left before each of them."""
        at = count = 0
        for escape in _ESCAPED.finditer(data):
            self._add(at, count, escape.span())
            count += len(data[at : escape.start()].translate(None, _NOISE))
            count += len(_character(escape).translate(None, _NOISE))
            at = escape.end()
        self._add(at, count, (len(data), len(data)))

    def _add(self, text: int, count: int, escape: Span) -> None:
        self._texts.append(text)
        self._counts.append(count)
        self._escapes.append(escape)

    def __getitem__(self, index: int) -> Span:
        # Of several that begin at one character all but the last have none.
        number = bisect_right(self._counts, index) - 1
        escape = self._escapes[number]
        kept = [at for at in range(self._texts[number], escape[0]) if self._data[at] not in _NOISE]
        at = index - self._counts[number]
        return (kept[at], kept[at] + 1) if at < len(kept) else escape


class Remover:
    """Takes the secrets out of one answer, however it is cut into pieces."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """What may be passed on now; often the piece itself, sometimes nothing."""
        clean, self._held = self._secrets.split(self._held + piece, is_last=False)
        if len(self._held) > _MOST_HELD:
            return clean + self.finish()
        return clean

    def finish(self) -> bytes:
        """What was held, now that nothing follows."""
        clean, self._held = self._secrets.split(self._held, is_last=True)
        return clean


def _forms(value: str) -> set[str]:
    """As it is, as JSON writers escape it, and as it stands in a URL."""
    escaped = json.dumps(value)[1:-1]
    return {value, escaped, escaped.replace("/", "\\/"), quote(value, safe="")}


def _spelt_in_any_case(value: str) -> Iterator[bytes]:
    """What is looked for without escapes, spaces and capitals: the value, and the digits of its bytes."""
    if len(value) >= SHORTEST_LOOSE:
        # At the end of a line the last ones of base64 stand where a line is broken by one.
        yield _plain(value.rstrip("=").encode()).translate(_LOWER)
    for raw in _encoded(value):
        yield raw.hex().encode()
        for between in _BETWEEN_DIGITS:
            yield raw.hex("\n").replace("\n", between).encode()


def _spelt_in_this_case(value: str) -> Iterator[bytes]:
    """What is looked for without escapes and spaces: the value in base64, and as a list of numbers."""
    for raw in _encoded(value):
        for before in range(3):
            text = base64.b64encode(bytes(before) + raw)
            # The characters at both ends that also hold bits of what stands before and behind it are not known.
            whole = (before + len(raw)) * 8 // 6
            yield text[-(-before * 8 // 6) : whole].translate(_ONE_ALPHABET)
    yield ",".join(map(str, value.encode())).encode()


def _encoded(value: str) -> tuple[bytes, bytes]:
    """Its bytes, and those that it has in UTF-16 of either order."""
    return value.encode(), value.encode("utf-16-le")[:-1]


def _plain(data: bytes) -> bytes:
    """`data` without escapes and without noise."""
    return _ESCAPED.sub(_character, data).translate(None, _NOISE)


def _character(escape: re.Match[bytes]) -> bytes:
    return _stands_for(escape[0])


@lru_cache(4096)
def _stands_for(escape: bytes) -> bytes:
    """The character; nothing for a line's end, or for a backslash before a slash."""
    found = _ESCAPED.match(escape + b"/")
    assert found is not None
    if found.lastindex is None:
        return b""
    return bytes([int(found[found.lastindex], 10 if found.lastindex == _DECIMAL else 16)])


def _whole(data: bytes) -> int:
    """How much of `data` ends before an escape that is not whole yet."""
    cut = _CUT.search(data, max(0, len(data) - _LONGEST_CUT))
    return len(data) if cut is None else cut.start()


def _everywhere(one: bytes, view: bytes) -> Iterator[Span]:
    at = view.find(one)
    while at >= 0:
        yield at, at + len(one)
        at = view.find(one, at + len(one))


def _without(data: bytes, spans: list[Span], held: int) -> tuple[bytes, bytes]:
    """`data` up to `held` with each span replaced, and the rest; what is not decided yet is in the rest, too."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    held = min([held, *(start for start, end in joined if start < held < end)])
    clean, at = [], 0
    for start, end in joined:
        if end <= held:
            clean += [data[at:start], REMOVED.encode()]
            at = end
    return b"".join([*clean, data[at:held]]), data[held:]


def _beginning(secret: bytes, data: bytes) -> int:
    """How many bytes at the end of `data` are the beginning of a secret that is not whole yet."""
    if data[-1:] not in secret:
        return 0
    at = data.find(secret[:1], max(0, len(data) - len(secret) + 1))
    while at >= 0:
        if secret.startswith(data[at:]):
            return len(data) - at
        at = data.find(secret[:1], at + 1)
    return 0
