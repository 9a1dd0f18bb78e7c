"""The kernel answers every message as mcp does: a table of streams, each played to both."""

from __future__ import annotations

import json
from typing import Any, get_args

import mcp_types.version
import pytest
from mcp_types import methods

from tests.serving._client import ENVELOPE, HANDSHAKE
from tests.serving.parity._pair import Judge, KernelSide, both, play, settle
from tests.serving.parity._tools import BOX, WITH_THREADS
from toolkit_servers.protocol import offer, shapes
from toolkit_servers.protocol.wire import Frame, parse_line

READY: dict[str, Any] = {"method": "notifications/initialized"}
OPENING = [{"id": 0, "method": "initialize", "params": HANDSHAKE}, READY]
CALLS: list[dict[str, Any]] = [
    {"name": "add", "arguments": {"a": 1}},
    {"name": "add", "arguments": {"a": "x"}},
    {"name": "add", "arguments": {"a": 1, "c": 2}},
    {"name": "add"},
    {"name": "add", "arguments": None},
    {"name": "no such tool"},
    {"name": "structured", "arguments": {"times": 2}},
    {"name": "blocks"},
    {"name": "fails"},
    {"name": "fails", "arguments": {"how": "protocol"}},
    {"name": "fails", "arguments": {"how": "exit"}},
    {"name": "fails", "arguments": {"how": "a message"}},
    {"name": "reports"},
    {"name": "reports", "_meta": {"progressToken": 7, "claudecode/toolUseId": "toolu_1"}},
    {"name": "reports", "_meta": {"progressToken": "seven"}},
    {"name": "echo", "arguments": {"value": {"a": [1, 2.5, None, True, "é"]}}},
]
ODD_CALLS: list[Any] = [
    {},
    {"name": 5},
    {"name": None},
    {"name": "add", "arguments": [1]},
    {"name": "add", "arguments": "{}"},
    {"name": "add", "arguments": {"a": 1}, "_meta": None},
    {"name": "add", "arguments": {"a": 1}, "_meta": []},
    {"name": "add", "arguments": {"a": 1}, "_meta": {"progressToken": None}},
    {"name": "add", "arguments": {"a": 1}, "_meta": {"progressToken": True}},
    {"name": "reports", "_meta": {"progressToken": 1.0}},
    {"name": "reports", "_meta": {"progressToken": 1.5}},
    {"name": "reports", "_meta": {"progressToken": []}},
    {"name": "reports", "_meta": {"progress_token": 1}},
    {"name": "add", "arguments": {"a": 1}, "task": {"ttl": 5}},
    {"name": "add", "arguments": {"a": 1}, "task": 5},
    {"name": "add", "arguments": {"a": 1}, "inputResponses": {}, "requestState": "x"},
    {"name": "add", "arguments": {"a": 1}, "inputResponses": 5},
    {"name": "add", "arguments": {"a": 1}, "more": {"x": 1}},
]
OTHERS: list[tuple[str, Any]] = [
    ("ping", None),
    ("ping", {}),
    ("ping", {"x": 1}),
    ("ping", {"_meta": 5}),
    ("tools/list", None),
    ("tools/list", {}),
    ("tools/list", {"cursor": "x"}),
    ("tools/list", {"cursor": None}),
    ("tools/list", {"cursor": 5}),
    ("tools/list", {"_meta": {"progressToken": "x"}}),
    ("logging/setLevel", {"level": "error"}),
    ("logging/setLevel", {"level": "loud"}),
    ("logging/setLevel", {}),
    ("logging/setLevel", {"level": ["error"]}),
    ("prompts/list", None),
    ("prompts/list", {"cursor": 5}),
    ("prompts/get", {"name": "x"}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "x:y"}),
    ("resources/subscribe", {"uri": "x:y"}),
    ("completion/complete", {}),
    ("subscriptions/listen", {"notifications": {}}),
    ("server/discover", {}),
    ("sampling/createMessage", {}),
    ("tasks/list", {}),
    ("no/such/method", {"a": 1}),
    ("", None),
    ("notifications/initialized", None),
]
GREETINGS: list[Any] = [
    {**HANDSHAKE, "protocolVersion": version} for version in [*offer.HANDSHAKE_VERSIONS, "2026-07-28", "1999-01-01", ""]
] + [
    None,
    {},
    {**HANDSHAKE, "protocolVersion": 5},
    {**HANDSHAKE, "capabilities": None},
    {**HANDSHAKE, "capabilities": {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {"form": {}}}},
    {**HANDSHAKE, "capabilities": {"roots": {"listChanged": "maybe"}}},
    {**HANDSHAKE, "capabilities": {"roots": 5}},
    {**HANDSHAKE, "capabilities": {"sampling": {"context": 5}}},
    {**HANDSHAKE, "capabilities": {"experimental": {"a": {"b": [1]}}, "extensions": {"x/y": {}}, "other": 5}},
    {**HANDSHAKE, "capabilities": {"experimental": {"a": 5}}},
    {**HANDSHAKE, "capabilities": {"tasks": {"list": 5}}},
    {**HANDSHAKE, "clientInfo": {"name": "x"}},
    {**HANDSHAKE, "clientInfo": {"name": "x", "version": "1", "title": None}},
    {**HANDSHAKE, "clientInfo": {"name": "x", "version": "1", "websiteUrl": "w", "icons": [{"src": 5}]}},
    {**HANDSHAKE, "_meta": {"progressToken": 1}},
    {**HANDSHAKE, "_meta": ENVELOPE},
    {**HANDSHAKE, "more": 5},
]
ENVELOPES: list[Any] = [
    None,
    {},
    {offer.VERSION_KEY: "2026-07-28"},
    {**ENVELOPE, offer.VERSION_KEY: "2025-11-25"},
    {**ENVELOPE, offer.VERSION_KEY: "2030-01-01"},
    {**ENVELOPE, offer.VERSION_KEY: 5},
    {**ENVELOPE, offer.CAPABILITIES_KEY: None},
    {**ENVELOPE, offer.CAPABILITIES_KEY: {"roots": {"listChanged": 5}, "elicitation": {"url": {}}}},
    {**ENVELOPE, offer.CAPABILITIES_KEY: {"extensions": {"a/b": {"c": {"d": [{}]}}}}},
    {**ENVELOPE, offer.CAPABILITIES_KEY: {"extensions": {"a/b": 5}}},
    {**ENVELOPE, offer.CLIENT_KEY: None},
    {**ENVELOPE, offer.CLIENT_KEY: {"name": 5}},
    {**ENVELOPE, offer.LOG_LEVEL_KEY: "warning"},
    {**ENVELOPE, offer.LOG_LEVEL_KEY: "loud"},
    {**ENVELOPE, offer.LOG_LEVEL_KEY: None},
    {**ENVELOPE, "progressToken": 1, offer.LOG_LEVEL_KEY: "debug"},
]


def _lines(messages: list[Any]) -> list[bytes]:
    return [
        message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        for message in messages
    ]


async def _same(messages: list[Any], *, reloads: bool = False) -> list[list[Any]]:
    kernel, judge = await both(BOX, _lines(messages), reloads=reloads)
    assert kernel == judge
    answers: list[list[Any]] = judge
    return answers


def _asked(method: str, params: Any, request_id: Any = 1) -> dict[str, Any]:
    frame = {"id": request_id, "method": method}
    return frame if params is None else {**frame, "params": params}


def test_what_the_kernel_knows_of_the_protocol_is_what_mcp_knows() -> None:
    assert mcp_types.version.HANDSHAKE_PROTOCOL_VERSIONS == offer.HANDSHAKE_VERSIONS
    assert (offer.MODERN_VERSION,) == mcp_types.version.MODERN_PROTOCOL_VERSIONS
    assert methods.SPEC_CLIENT_METHODS == shapes.SPEC_METHODS
    assert set(offer.LEVELS) == set(get_args(mcp_types.LoggingLevel))
    keys = (offer.VERSION_KEY, offer.CAPABILITIES_KEY, offer.CLIENT_KEY, offer.LOG_LEVEL_KEY, offer.SERVER_KEY)
    assert keys == (
        mcp_types.PROTOCOL_VERSION_META_KEY,
        mcp_types.CLIENT_CAPABILITIES_META_KEY,
        mcp_types.CLIENT_INFO_META_KEY,
        mcp_types.LOG_LEVEL_META_KEY,
        mcp_types.SERVER_INFO_META_KEY,
    )


@pytest.mark.parametrize("version", [*offer.HANDSHAKE_VERSIONS, "2026-07-28"])
async def test_every_request_in_every_version(version: str) -> None:
    requests = [*OTHERS, *(("tools/call", params) for params in [*CALLS, *ODD_CALLS])]
    if version == "2026-07-28":
        messages = [_asked(method, _enveloped(params), n) for n, (method, params) in enumerate(requests)]
    else:
        opening = [_asked("initialize", {**HANDSHAKE, "protocolVersion": version}, "first"), READY]
        messages = [*opening, *(_asked(method, params, n) for n, (method, params) in enumerate(requests))]
    answers = await _same(messages)
    assert sum(map(len, answers)) > len(requests)


def _enveloped(params: Any) -> Any:
    given = params if isinstance(params, dict) else {}
    meta = given.get("_meta", {})
    return {**given, "_meta": {**ENVELOPE, **meta} if isinstance(meta, dict) else meta}


@pytest.mark.parametrize("reloads", [False, True])
@pytest.mark.parametrize("number", range(len(GREETINGS)))
async def test_every_greeting(number: int, reloads: bool) -> None:
    first = _asked("initialize", GREETINGS[number], "first")
    then = [_asked("tools/list", None), _asked("ping", None, 2), READY, _asked("tools/call", CALLS[0], 3)]
    await _same([first, *then], reloads=reloads)
    await _same([*OPENING, first, *then], reloads=reloads)
    await _same([_asked("ping", None, 8), *then, first, *then], reloads=reloads)


@pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call", "ping", "no/such", "initialize"])
@pytest.mark.parametrize("number", range(len(ENVELOPES)))
async def test_every_envelope(number: int, method: str) -> None:
    params = {"name": "reports"} if method == "tools/call" else {}
    odd = _asked(method, params if ENVELOPES[number] is None else {**params, "_meta": ENVELOPES[number]})
    known = [_asked("tools/list", {"_meta": ENVELOPE}, 2), _asked("tools/call", {"name": "add", "_meta": ENVELOPE}, 3)]
    await _same([odd, *known, odd])
    await _same([*known, odd, *known])
    await _same([*OPENING, odd, *known, *([_asked("tools/list", None, 4)])])


NOT_MESSAGES = [
    b"not json",
    b"",
    b" \t",
    b"[]",
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
    b"5",
    b"null",
    b"{}",
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}{}',
    b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    b'{"id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":[],"method":"ping"}',
    b'{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":-1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":"","method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":5}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","extra":{"a":1}}',
    b'{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"jsonrpc":"2.0","id":1,"result":5}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}',
    b'{"jsonrpc":"2.0","id":1,"error":5}',
    b'{"jsonrpc":"2.0","id":1,"method":"pi\\u0000ng"}',
    b'{"jsonrpc":"2.0","id":"a\\u0000b","method":"ping"}',
    b'{"jsonrpc":"2.0","id":"\\ud83d","method":"ping"}',
    b'{"jsonrpc":"2.0","id":"\xe2\x80\xa8","method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"p\xff"}',
    b"\xff\xfe",
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":"\\ud800"}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":"a\\u0000\xe2\x80\xa8"}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":NaN}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":-Infinity}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":1e400}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":1%s}}}' % (b"0" * 400),
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":1%s}}}'
    % (b"0" * 5000),
    b'{"jsonrpc":"2.0","id":1%s,"method":"ping"}' % (b"0" * 5000),
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":%s%s}}}'
    % (b"[" * 150, b"]" * 150),
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":%s%s}}}'
    % (b"[" * 5000, b"]" * 5000),
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":%s1%s}}' % (b'{"a":' * 150, b"}" * 150),
]


@pytest.mark.parametrize("number", range(len(NOT_MESSAGES)))
async def test_every_odd_line(number: int) -> None:
    line = NOT_MESSAGES[number]
    await _same([line, *OPENING, _asked("ping", None)])
    await _same([*OPENING, line, _asked("tools/call", CALLS[0])])
    await _same([_asked("tools/list", {"_meta": ENVELOPE}), line, _asked("tools/call", _enveloped(CALLS[0]))])


async def test_ten_megabytes() -> None:
    answers = await _same([*OPENING, _asked("tools/call", {"name": "echo", "arguments": {"value": "é" * 5_000_000}})])
    assert len(json.loads(answers[2][0])["result"]["content"][0]["text"]) == 5_000_000


def _cancel(request_id: Any) -> dict[str, Any]:
    return {"method": "notifications/cancelled", "params": {"requestId": request_id, "reason": "x"}}


WAIT = {"name": "wait", "_meta": {"progressToken": 1}}
CANCELLED: list[list[Any]] = [
    [_cancel(1), *OPENING, _cancel(1)],
    [*OPENING, _asked("tools/call", WAIT), _cancel(1), _cancel(1), _asked("ping", None, 2)],
    [*OPENING, _asked("tools/call", WAIT), _cancel("1"), _asked("ping", None, 1)],
    [*OPENING, _asked("tools/call", WAIT, "7"), _cancel(7)],
    [*OPENING, _asked("tools/call", WAIT, "x"), _cancel("y"), _cancel(None), _cancel(True), _cancel([]), _cancel(1.0)],
    [*OPENING, _asked("tools/call", CALLS[0]), _cancel(1)],
    [*OPENING, _asked("tools/call", {"name": "stubborn"}), _cancel(1), _asked("ping", None)],
    [*OPENING, _asked("tools/call", {"name": "stubborn"})],
    [*OPENING, _asked("tools/call", WAIT), _asked("tools/call", WAIT), _cancel(1), _cancel(1)],
    [*OPENING, _asked("tools/call", WAIT), _asked("tools/call", {**WAIT, "more": 1}), _cancel(1), _cancel(1)],
    [*OPENING, _asked("tools/call", WAIT), _asked("tools/call", CALLS[0]), _cancel(1)],
    [*OPENING, _asked("tools/call", {**WAIT, "more": 1}), _cancel(1), _asked("ping", None)],
    [*OPENING, _asked("tools/call", WAIT), _asked("tools/call", ODD_CALLS[1], 2), _cancel(1), _cancel(2)],
    [_asked("tools/call", _enveloped(WAIT)), _cancel(1), _asked("tools/list", {"_meta": ENVELOPE})],
    [_asked("tools/call", _enveloped(WAIT)), _asked("tools/call", _enveloped(WAIT), 2), _cancel(2)],
    [*OPENING, _asked("tools/call", WAIT), {"method": "notifications/cancelled"}, {**_cancel(1), "params": {}}],
]


@pytest.mark.parametrize("number", range(len(CANCELLED)))
async def test_cancelling_in_every_state(number: int) -> None:
    await _same(CANCELLED[number])


OUT_OF_ORDER: list[list[Any]] = [
    [READY, _asked("tools/list", None), _asked("logging/setLevel", {"level": "error"}, 2), _asked("no/such", {}, 3)],
    [READY, _asked("tools/list", {"_meta": ENVELOPE}), READY, _asked("ping", {"_meta": ENVELOPE}, 2)],
    [*[{"method": "notifications/x"}] * 8, READY, _asked("tools/list", None)],
    [*[{"method": "notifications/x"}] * 7, READY, _asked("tools/list", None)],
    [*[b'{"jsonrpc":"2.0","id":1,"result":{}}'] * 8, READY, _asked("tools/list", None)],
    [{**READY, "params": {"_meta": 5}}, _asked("tools/list", None), READY, _asked("tools/list", None, 2)],
    [_asked("tools/list", None), _asked("tools/call", CALLS[0], 2), *OPENING, _asked("tools/call", CALLS[0], 3)],
    [_asked("tools/list", None), READY, _asked("tools/list", None, 2), _asked("no/such", None, 3)],
    [_asked("no/such", None), _asked("tools/list", {"_meta": ENVELOPE}, 2), *OPENING],
    [_asked("no/such", {"_meta": ENVELOPE}), *OPENING, _asked("tools/list", None, 2)],
    [*OPENING, {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}, READY],
    [*OPENING, {"method": "notifications/roots/list_changed"}, {"method": "no/such"}, _asked("ping", None)],
    [*OPENING, _asked("ping", None), _asked("ping", None), _asked("ping", None, "1")],
    [
        *OPENING,
        _asked("logging/setLevel", {"level": "emergency"}),
        _asked("completion/complete", {}, 2),
        _asked("tools/call", {"name": "reports", "task": None}, 3),
        _asked("logging/setLevel", {"level": "debug"}, 4),
        _asked("tools/call", {"name": "reports", "task": None}, 5),
        _asked("tools/call", {"name": "reports"}, 6),
    ],
]


@pytest.mark.parametrize("reloads", [False, True])
@pytest.mark.parametrize("number", range(len(OUT_OF_ORDER)))
async def test_messages_out_of_order(number: int, reloads: bool) -> None:
    await _same(OUT_OF_ORDER[number], reloads=reloads)


@pytest.mark.parametrize("with_mcp", [False, True])
@pytest.mark.parametrize("era", ["handshake", "sessionless"])
async def test_changed_tools_are_announced_once_whoever_has_to_say_it(era: str, with_mcp: bool) -> None:
    listen = _asked("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE})
    opening = OPENING if era == "handshake" else [_asked("tools/list", {"_meta": ENVELOPE}, 5), listen]
    side = KernelSide(BOX, reloads=True)
    for line in _lines([*opening, *([_asked("completion/complete", {}, 3)] if with_mcp else [])]):
        frame = parse_line(line)
        assert isinstance(frame, Frame)
        side.give(frame)
        await settle(side)
    side.lines.take()
    await side.kernel.tell("tools")
    await settle(side)
    assert [json.loads(line)["method"] for line in side.lines.take()] == ["notifications/tools/list_changed"]
    await side.close()


@pytest.mark.parametrize("plain", [True, False])
async def test_our_shortcut_through_mcp_changes_no_answer(plain: bool) -> None:
    requests = [("tools/call", params) for params in [*CALLS, *ODD_CALLS]]
    for stream in (
        _lines([*OPENING, *(_asked(method, params, n) for n, (method, params) in enumerate(requests))]),
        _lines([_asked(method, _enveloped(params), n) for n, (method, params) in enumerate(requests)]),
    ):
        judged = await play(Judge(BOX, reloads=False, plain=plain), stream)
        assert judged == await play(KernelSide(BOX, reloads=False), stream)


async def test_a_tool_in_a_thread_answers_the_same() -> None:
    stream = _lines([*OPENING, _asked("tools/call", {"name": "in_thread"})])
    said = await play(KernelSide(WITH_THREADS, reloads=False), stream, all_answered=True)
    assert said == await play(Judge(WITH_THREADS, reloads=False), stream, all_answered=True)
    assert "from a thread" in said[2][0]
