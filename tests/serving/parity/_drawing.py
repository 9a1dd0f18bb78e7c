"""Streams of messages drawn at random: well-formed ones, ones with a mistake in them, and bytes that are none."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.serving._client import ENVELOPE, HANDSHAKE
from toolkit_servers.protocol import offer
from toolkit_servers.protocol.shapes import SPEC_METHODS

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["", "\x00", "\u2028", "\ufeff", "é", "name", "1", "\U0001f40e"]
)
_NUMBERS = (
    st.integers(-3, 3)
    | st.integers()
    | st.sampled_from([2**63, -(2**64), 10**40, 0.5, -0.0, 1e308, float("inf"), float("nan")])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)
_KEYS = st.sampled_from(
    [
        *("jsonrpc", "id", "method", "params", "result", "error", "code", "message", "extra"),
        *("name", "arguments", "_meta", "cursor", "level", "task", "requestState", "inputResponses"),
        *("protocolVersion", "capabilities", "clientInfo", "version", "title", "icons", "websiteUrl"),
        *("roots", "sampling", "elicitation", "experimental", "extensions", "tasks", "listChanged", "form", "context"),
        *("progressToken", "progress_token", "requestId", "notifications", "toolsListChanged", "uri", "ref"),
        *(offer.VERSION_KEY, offer.CAPABILITIES_KEY, offer.CLIENT_KEY, offer.LOG_LEVEL_KEY),
    ]
)
_IDS = st.sampled_from([1, 2, 3, "1", "2", "x", "", -1, 0, 2**70])
_METHODS = st.sampled_from([*sorted(SPEC_METHODS), "no/such", "tasks/list", "notifications/initialized", ""])
_LEVELS = st.sampled_from(["debug", "error", "emergency", "loud", ""])
_CALLS = st.one_of(
    st.fixed_dictionaries({"name": st.just("add"), "arguments": st.fixed_dictionaries({"a": _NUMBERS | VALUES})}),
    st.fixed_dictionaries({"name": st.just("echo"), "arguments": st.fixed_dictionaries({"value": VALUES})}),
    st.fixed_dictionaries(
        {"name": st.sampled_from(["wait", "stubborn", "blocks", "structured", "reports", "no such"])}
    ),
    st.fixed_dictionaries({"name": st.just("reports"), "_meta": st.fixed_dictionaries({"progressToken": _IDS})}),
)


def _request(method: st.SearchStrategy[str], params: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    frame = {"jsonrpc": st.just("2.0"), "id": _IDS, "method": method}
    return st.fixed_dictionaries(frame, optional={"params": params})


def _notification(method: st.SearchStrategy[str], params: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "method": method}, optional={"params": params})


_GREETING = st.fixed_dictionaries(
    {
        "jsonrpc": st.just("2.0"),
        "id": _IDS,
        "method": st.just("initialize"),
        "params": st.sampled_from([*offer.HANDSHAKE_VERSIONS, "2026-07-28", "x"]).map(
            lambda version: {**HANDSHAKE, "protocolVersion": version}
        ),
    }
)
_READY = st.just({"jsonrpc": "2.0", "method": "notifications/initialized"})
_CANCELS = _notification(
    st.just("notifications/cancelled"), st.fixed_dictionaries({"requestId": _IDS | VALUES}, optional={"reason": VALUES})
)
_PLAIN = st.one_of(
    _request(st.just("tools/call"), _CALLS),
    _request(st.just("tools/list"), st.fixed_dictionaries({}, optional={"cursor": _TEXTS, "_meta": VALUES})),
    _request(st.just("ping"), st.fixed_dictionaries({}, optional={"_meta": VALUES})),
    _request(st.just("logging/setLevel"), st.fixed_dictionaries({"level": _LEVELS})),
    _request(_METHODS, st.dictionaries(_KEYS, VALUES, max_size=4) | VALUES),
    _notification(_METHODS, VALUES),
    st.dictionaries(_KEYS, VALUES, max_size=5),
    _CANCELS,
    _READY,
)
_WITH_ENVELOPE = st.one_of(
    _request(st.just("tools/call"), _CALLS),
    _request(st.sampled_from(["tools/list", "server/discover", "prompts/list", "no/such"]), st.just({})),
).map(lambda frame: _enveloped(frame))


def _enveloped(frame: dict[str, Any]) -> dict[str, Any]:
    params = frame.get("params", {})
    return {**frame, "params": {**params, "_meta": {**ENVELOPE, **params.get("_meta", {})}}}


@st.composite
def _with_a_mistake(draw: st.DrawFn, frames: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    """A message in which one place is left out, replaced or added."""
    frame: dict[str, Any] = json.loads(json.dumps(draw(frames)))
    places: list[tuple[dict[str, Any], str]] = []
    waiting = [frame]
    while waiting:
        inner = waiting.pop()
        places += [(inner, key) for key in inner]
        waiting += [value for value in inner.values() if isinstance(value, dict)]
    home, key = draw(st.sampled_from(places)) if places else (frame, "id")
    kind = draw(st.sampled_from(["drop", "replace", "add"]))
    if kind == "drop":
        home.pop(key, None)
    else:
        home[key if kind == "replace" else draw(_KEYS)] = draw(VALUES)
    return frame


@st.composite
def _broken(draw: st.DrawFn, frames: st.SearchStrategy[dict[str, Any]]) -> bytes:
    """A message with some bytes changed."""
    line = bytearray(json.dumps(draw(frames)).encode())
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(0, len(line) - 1)))
        line[place : place + draw(st.integers(0, 2))] = draw(
            st.sampled_from([b"", b'"', b"{", b"]", b"\xff", b"\\", b"0"])
        )
    return bytes(line).replace(b"\n", b" ")


def _encoded(frames: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda frame, ascii_only: json.dumps(frame, ensure_ascii=ascii_only).encode(), frames, st.booleans()
    )


_ANY = st.one_of(_PLAIN, _WITH_ENVELOPE, _GREETING)
_LINES = st.one_of(
    _encoded(_PLAIN),
    _encoded(_WITH_ENVELOPE),
    _encoded(_ANY),
    _encoded(_with_a_mistake(_ANY)),
    _encoded(_with_a_mistake(_PLAIN)),
    _encoded(_with_a_mistake(_WITH_ENVELOPE)),
    _broken(_ANY),
)
_OPENINGS: st.SearchStrategy[list[bytes]] = st.one_of(
    st.just([]),
    st.tuples(_encoded(_GREETING), _encoded(_READY)).map(list),
    st.tuples(_encoded(_with_a_mistake(_GREETING))).map(list),
    st.tuples(_encoded(_WITH_ENVELOPE)).map(list),
)


def streams() -> st.SearchStrategy[list[bytes]]:
    """The lines of one connection."""
    return st.builds(lambda opening, lines: [*opening, *lines], _OPENINGS, st.lists(_LINES, min_size=1, max_size=6))
