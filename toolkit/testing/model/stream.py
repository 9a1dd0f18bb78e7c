"""A turn as the Messages API sends it: one JSON message, or the events of a stream.

The stream opens with the input usage and an output count of 1, as the real API
does, and ends with the final counts; clients that add frames up are caught.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

from toolkit.testing.model.turns import Block, Status, Turn

_HOLD_SECONDS = 60.0
_numbers = itertools.count(1)
_USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


def message(turn: Turn, model: str) -> dict[str, Any]:
    """The whole answer as one message; also gives every block and the message its id."""
    blocks = [_with_id(block) for block in turn.blocks]
    calls = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": turn.id or f"msg_scripted_{next(_numbers):04d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": turn.stop_reason or ("tool_use" if calls else "end_turn"),
        "stop_sequence": None,
        "usage": {**_USAGE, **turn.usage},
    }


def events(whole: dict[str, Any], chunk: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """The stream events of a message, each with the number of whole blocks sent before it."""
    usage = whole["usage"]
    opening = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield 0, {"type": "message_start", "message": opening}
    for index, block in enumerate(whole["content"]):
        empty, deltas = _split(block, chunk)
        yield index, {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield index, {"type": "content_block_delta", "index": index, "delta": delta}
        yield index, {"type": "content_block_stop", "index": index}
    done = len(whole["content"])
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield done, {"type": "message_delta", "delta": delta, "usage": usage}
    yield done, {"type": "message_stop"}


async def pause(turn: Turn) -> None:
    """Wait as long as the turn asks to before its first byte."""
    if turn.delay:
        await asyncio.sleep(turn.delay)
    if turn.hold is not None:
        # Polled: it is set from another thread, and a thread that waits for it could not be cancelled.
        deadline = asyncio.get_running_loop().time() + _HOLD_SECONDS
        while not turn.hold.is_set() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def interrupts(turn: Turn, blocks_sent: int, event: dict[str, Any]) -> bool:
    """Whether the turn is cut, or stalls, before this event."""
    if event["type"] not in ("content_block_start", "message_delta"):
        return False
    return blocks_sent in (turn.cut_after, turn.stall_after)


def error_body(status: Status) -> dict[str, Any]:
    """The JSON body of an error answer."""
    return {"type": "error", "error": {"type": status.error_type, "message": status.message}}


def _with_id(block: Block) -> dict[str, Any]:
    if block["type"] in ("tool_use", "server_tool_use") and "id" not in block:
        return {**block, "id": f"toolu_scripted_{next(_numbers):04d}"}
    return dict(block)


def _split(block: dict[str, Any], chunk: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as its empty opening and the deltas that fill it."""
    kind = block["type"]
    if kind == "text":
        pieces = _pieces(block["text"], chunk)
        return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"], chunk)]
        deltas.append({"type": "signature_delta", "signature": block.get("signature", "")})
        return {**block, "thinking": "", "signature": ""}, deltas
    if kind in ("tool_use", "server_tool_use"):
        pieces = _pieces(json.dumps(block.get("input", {})), chunk)
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block, []


def _pieces(content: str, size: int) -> list[str]:
    return [content[start : start + size] for start in range(0, len(content), size)]
