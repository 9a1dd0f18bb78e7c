"""Answers that are no result of a tool: a refusal with its reason, a small page; and one header of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolkit._base.json_bytes import json_bytes

if TYPE_CHECKING:
    from starlette.types import Scope, Send

_REFUSED = -32000
"""The JSON-RPC code of a refusal that the protocol has no code for."""


def header(scope: Scope, name: bytes) -> str:
    """The first header of that name, in lower case; empty when there is none."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


async def refuse(
    send: Send,
    status: int,
    reason: str,
    *,
    request_id: str | int | None = None,
    close: bool = False,
    retry_after: int | None = None,
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> None:
    """Answer with a status and a reason, as a JSON-RPC error so that a client shows it.

    `close` ends the connection: for a request whose rest is not read.
    """
    body = {"jsonrpc": "2.0", "id": request_id, "error": {"code": _REFUSED, "message": reason}}
    more = list(headers)
    if close:
        more.append((b"connection", b"close"))
    if retry_after is not None:
        more.append((b"retry-after", str(retry_after).encode()))
    await answer(send, status, json_bytes(body), "application/json", more)


async def answer(
    send: Send, status: int, body: bytes, kind: str, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """Answer with these bytes."""
    own = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    start: dict[str, Any] = {"type": "http.response.start", "status": status, "headers": [*own, *(headers or [])]}
    await send(start)
    await send({"type": "http.response.body", "body": body})
