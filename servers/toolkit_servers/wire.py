"""JSON-RPC frames as bytes: read one line, write one message.

`parse_line` never raises for what a client sends: bytes that are no message come
back as the error reply the client should get. `encode` never fails on what a tool
returned: what JSON cannot hold is replaced, so that one odd string does not end a
connection.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic import ValidationError
from pydantic_core import from_json

from toolkit._base.json_bytes import json_bytes


class JsonList(list[Any]):
    """A list that remembers its JSON text: a client asks for the tools again and again, and a thousand are a megabyte.

    mcp's own checks and transports still find the list it is; only `encode` looks for the text.
    """

    @cached_property
    def json(self) -> bytes:
        return json_bytes(list(self))


def parse_line(line: bytes | bytearray) -> SessionMessage | JSONRPCError:
    """The message a line holds, or the error to answer it with."""
    try:
        frame = from_json(line, cache_strings="keys")
    except ValueError as problem:
        frame = _with_half_letters_replaced(line)
        if frame is None:
            return _refusal(None, PARSE_ERROR, f"not JSON: {problem}")
    if type(frame) is not dict:
        return _refusal(None, INVALID_REQUEST, "a message is a JSON object")
    message_type = _type_of(frame)
    if message_type is None:
        return _refusal(_id_of(frame), INVALID_REQUEST, "neither a request, a notification nor a response")
    try:
        return SessionMessage(message_type.model_validate(frame, by_name=False))
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        return _refusal(_id_of(frame), INVALID_REQUEST, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")


def _with_half_letters_replaced(line: bytes | bytearray) -> Any:
    """A frame in which half of a surrogate pair is escaped, as clients in JavaScript send a text cut in a letter.

    Refusing it would name no request, and the client would wait for its reply.
    """
    try:
        return from_json(json_bytes(json.loads(line)))
    except (ValueError, RecursionError):
        return None


def encode(message: JSONRPCMessage) -> bytes:
    """The message as one line."""
    if type(message) is JSONRPCResponse:
        result = message.result
        tools = result.get("tools")
        if type(tools) is JsonList:
            # The rest of the result is written with a 0 in its place, and the finished text put there.
            before, _, after = json_bytes({**result, "tools": 0}).partition(b'"tools":0')
            text = b'%b"tools":%b%b' % (before, tools.json, after)
        else:
            text = json_bytes(result)
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (json_bytes(message.id), text)
    return json_bytes(message.model_dump(by_alias=True, exclude_unset=True)) + b"\n"


def too_long(limit: int) -> JSONRPCError:
    """The answer to a line longer than `limit` bytes."""
    return _refusal(None, INVALID_REQUEST, f"a message is longer than {limit} bytes")


def _type_of(frame: dict[str, Any]) -> type[JSONRPCMessage] | None:
    if "method" in frame:
        return JSONRPCRequest if "id" in frame else JSONRPCNotification
    if "result" in frame:
        return JSONRPCResponse
    return JSONRPCError if "error" in frame else None


def _id_of(frame: dict[str, Any]) -> str | int | None:
    given = frame.get("id")
    return given if isinstance(given, str | int) and not isinstance(given, bool) else None


def _refusal(request_id: str | int | None, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))
