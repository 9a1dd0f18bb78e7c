"""What is written and read without pydantic is what pydantic writes and reads, and the rest is left to it."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pydantic_core
import pytest
from hypothesis import example, given, settings, strategies as st

from toolkit._base import json_bytes as room

TEXTS = st.text(max_size=8) | st.sampled_from(['\x00\x1f\x7f\u2028/\\"', "\ud800", "𝄞é", "\b\f\n\r\t"])
NUMBERS = st.integers() | st.floats() | st.sampled_from([2**63, -(2**64), -0.0, 1e16])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(TEXTS | st.integers(0, 3), inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)
ODD = [
    "NaN",
    "-Infinity",
    "\ufeff",
    "12345678901234567890123",
    "01",
    "tru",
    '"\\x"',
    "[" * 150,
    "1e999",
    "-0",
    '"\x01"',
]
TEXT = ['"a"', '"\\u00e9"', '"\\ud800"', '"é"', "1", "1.5", "true", "null"]
PIECES = st.sampled_from(['{"a":', "{", "}", "[", "]", ",", ":", " ", "\t", *TEXT, *ODD])


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.fixture(autouse=True)
def _as_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nothing had loaded pydantic yet."""
    monkeypatch.setattr(room, "sys", SimpleNamespace(modules={}))
    monkeypatch.setattr(room, "_core", None)


@settings(max_examples=600, deadline=None)
@given(VALUES)
@example({"a": [1, "b", None, True, {"c": {}}]})
def test_what_is_written_plainly_is_what_pydantic_writes(value: Any) -> None:
    written = room._written_plainly(value)
    if written is not None:
        assert written == pydantic_core.to_json(value, inf_nan_mode="null")


def test_a_list_of_tools_is_written_plainly_and_what_json_cannot_hold_is_not() -> None:
    listing = {"tools": [{"name": "add", "inputSchema": {"type": "object", "properties": {}}, "é": [1, True, None]}]}
    assert room._written_plainly(listing) is not None
    for value in (float("nan"), 1.5, "\ud800", {1: 2}, (1,), b"x", 10**5000, _deep(1_100)):
        assert room._written_plainly(value) is None
    assert room._core is None
    assert room.json_bytes({"a": float("nan")}) == b'{"a":null}'
    assert room._core is pydantic_core


@settings(max_examples=1_500, deadline=None)
@given(
    st.lists(PIECES, max_size=9).map("".join) | VALUES.map(lambda value: json.dumps(value, default=str, skipkeys=True))
)
@example("[" * 99 + "]" * 99)
@example("[" * 201 + "]" * 201)
@example('{"a":1,"b":2,"a":3}')
@example('{"jsonrpc":"2.0","id":1,"method":"ping"}')
def test_what_is_read_plainly_is_what_pydantic_reads(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    try:
        read = room._read_plainly(data)
    except (ValueError, RecursionError):
        return
    theirs = pydantic_core.from_json(data)
    assert repr(read) == repr(theirs)  # also the kind of a number, and the order of names


def test_a_message_of_a_client_is_read_plainly() -> None:
    given = {
        "jsonrpc": "2.0",
        "id": "a",
        "method": "initialize",
        "params": {"clientInfo": {"name": "é", "n": [1, None]}},
    }
    assert room._read_plainly(json.dumps(given, ensure_ascii=False).encode()) == given
    for text in (
        b'"\\u00e9"',
        b"\xff",
        b"\xef\xbb\xbf1",
        "1".encode("utf-16"),
        b"1.5",
        b"NaN",
        b"[" * 101,
        b" " * 70_000,
    ):
        with pytest.raises((ValueError, RecursionError)):
            room._read_plainly(text)


def test_once_pydantic_is_loaded_it_does_all() -> None:
    check = "from toolkit._base import json_bytes as r; r.json_bytes([1]); a = r._core; import pydantic_core; r.json_bytes([1])"
    shown = "print(a is None, r._core is pydantic_core)"
    done = subprocess.run(
        [sys.executable, "-c", f"{check}; {shown}"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "True True\n"
