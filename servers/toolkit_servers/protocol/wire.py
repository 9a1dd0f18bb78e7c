"""JSON-RPC frames as bytes: read one line, write one message. Loads no mcp.

`parse_line` never raises for what a client sends: bytes that are no message come
back as the line the client should get for it. The lines we write never fail on what a
tool returned: what JSON cannot hold is replaced, so that one odd string does not end a
connection.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any, NamedTuple

from toolkit._base.json_bytes import from_json_bytes, json_bytes

RequestId = str | int
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INTERNAL_ERROR = -32700, -32600, -32601, -32603
CONNECTION_CLOSED = -32000


class JsonList(list[Any]):
    """A list that remembers its JSON text: a client asks for the tools again and again, and a thousand are a megabyte.

    mcp's own checks and transports still find the list it is; only `result_line` looks for the text.
    """

    @cached_property
    def json(self) -> bytes:
        return json_bytes(list(self))


class Frame(NamedTuple):
    """A message of the client, its envelope checked: a request, a notification, or an answer to a request of ours."""

    content: dict[str, Any]
    """The whole message."""
    method: str | None = None
    """None for an answer."""
    request_id: RequestId | None = None
    """None for a notification."""
    params: dict[str, Any] | None = None

    @property
    def is_request(self) -> bool:
        return self.method is not None and self.request_id is not None


def parse_line(line: bytes | bytearray) -> Frame | bytes:
    """The message a line holds, or the line to answer it with."""
    try:
        content = from_json_bytes(line)
    except ValueError as problem:
        content = _with_half_letters_replaced(line)
        if content is None:
            return error_line(None, PARSE_ERROR, f"not JSON: {problem}")
    if type(content) is not dict:
        return error_line(None, INVALID_REQUEST, "a message is a JSON object")
    wrong = _what_is_wrong(content)
    if wrong:
        given = content.get("id")
        return error_line(given if _is_id(given) else None, INVALID_REQUEST, wrong)
    return Frame(content, content.get("method"), content.get("id"), content.get("params"))


def _what_is_wrong(content: dict[str, Any]) -> str:
    """What keeps an object from being a message; empty for a message."""
    if "method" not in content and "result" not in content and "error" not in content:
        return "neither a request, a notification nor a response"
    if content.get("jsonrpc") != "2.0":
        return "jsonrpc: it must be '2.0'"
    is_error = "method" not in content and "result" not in content
    given = content.get("id")
    if ("id" in content or "method" not in content) and not (_is_id(given) or (is_error and given is None)):
        return "id: it must be a text or a whole number"
    if "method" in content:
        if type(content["method"]) is not str:
            return "method: it must be a text"
        return "" if type(content.get("params")) in (dict, type(None)) else "params: they must be an object"
    if "result" in content:
        return "" if type(content["result"]) is dict else "result: it must be an object"
    error = content["error"]
    is_told = type(error) is dict and type(error.get("code")) is int and type(error.get("message")) is str
    return "" if is_told and "id" in content else "error: it needs an id, a code and a message"


def _is_id(value: object) -> bool:
    return type(value) in (str, int)


def _with_half_letters_replaced(line: bytes | bytearray) -> Any:
    """A frame in which half of a surrogate pair is escaped, as clients in JavaScript send a text cut in a letter.

    Refusing it would name no request, and the client would wait for its reply.
    """
    try:
        return from_json_bytes(json_bytes(json.loads(line)))
    except (ValueError, RecursionError):
        return None


def same_id(request_id: RequestId) -> RequestId:
    """What an id is compared by: mcp takes "7" and 7 for one."""
    if type(request_id) is str:
        try:
            return int(request_id)
        except ValueError:
            pass
    return request_id


def result_line(request_id: RequestId, result: dict[str, Any]) -> bytes:
    """The answer to a request."""
    tools = result.get("tools")
    if type(tools) is JsonList:
        # The rest of the result is written with a 0 in its place, and the finished text put there.
        before, _, after = json_bytes({**result, "tools": 0}).partition(b'"tools":0')
        text = b'%b"tools":%b%b' % (before, tools.json, after)
    else:
        text = json_bytes(result)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (json_bytes(request_id), text)


def error_line(request_id: RequestId | None, code: int, message: str, data: Any = None) -> bytes:
    """The answer to a request that cannot be served, or to what is no request."""
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return json_bytes({"jsonrpc": "2.0", "id": request_id, "error": error}) + b"\n"


def notification_line(method: str, params: dict[str, Any] | None = None) -> bytes:
    """A message that nobody answers."""
    content: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    return json_bytes(content if params is None else {**content, "params": params}) + b"\n"


def too_long(limit: int) -> bytes:
    """The answer to a line longer than `limit` bytes."""
    return error_line(None, INVALID_REQUEST, f"a message is longer than {limit} bytes")
