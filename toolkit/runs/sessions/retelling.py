"""A history told in one prompt: each message once, tool calls and their results in full, pictures as they are.

What the model thought is left out: only the model that thought it can read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

SENDABLE = ("text", "image", "document")
"""The blocks that a message to the model can have."""
_LABELS = {"user": "User", "assistant": "Assistant"}
_THOUGHTS = ("thinking", "redacted_thinking")


def blocks_of(content: Any) -> Any:
    """A message's content as blocks."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def as_prompt(message: Mapping[str, Any]) -> str | list[Any]:
    """A message of the user's as a prompt: a text where it is nothing else."""
    return _joined(blocks_of(message["content"]))


def with_history(past: Sequence[Mapping[str, Any]], new: Mapping[str, Any]) -> str | list[Any]:
    """The history with role labels, each message once, and the new message last."""
    if not past:
        return as_prompt(new)
    told: list[Any] = ["The conversation so far:"]
    calls: dict[str, int] = {}
    for message in past:
        blocks = _in_order(blocks_of(message.get("content")) or (), calls)
        parts = [part for block in blocks for part in _told(block)]
        if parts and isinstance(parts[0], str):
            parts[0] = f"{_LABELS[message['role']]}: {parts[0]}"
        elif parts:
            parts.insert(0, f"{_LABELS[message['role']]}:")
        told += _lines(parts)
    told.append("The user now says:")
    told += _lines([part for block in blocks_of(new["content"]) for part in _told(block)])
    if all(isinstance(part, str) for part in told):
        return "\n\n".join(told)
    return _merged(told)


def _in_order(blocks: Sequence[Mapping[str, Any]], calls: dict[str, int]) -> list[Mapping[str, Any]]:
    """The same with tool results as their calls stood: each came when it was ready, and is told without an id."""
    for block in blocks:
        if block.get("type") == "tool_use":
            calls[str(block.get("id"))] = len(calls)
    results = [block for block in blocks if block.get("type") == "tool_result"]
    ordered = iter(sorted(results, key=lambda block: calls.get(str(block.get("tool_use_id")), -1)))
    return [next(ordered) if block.get("type") == "tool_result" else block for block in blocks]


def text_of(block: Mapping[str, Any]) -> str:
    """A block in words; a picture or a document as its type."""
    return "\n".join(part if isinstance(part, str) else f"[{part['type']}]" for part in _told(block))


def _told(block: Mapping[str, Any]) -> list[Any]:
    """A block as texts, and as blocks where it is something to look at."""
    kind = block.get("type")
    if kind == "text":
        return [str(block["text"])]
    if kind in SENDABLE and isinstance(block.get("source"), Mapping):
        return [dict(block)]
    if kind == "tool_use":
        return [
            f"[Tool call {block.get('name')}: {json.dumps(block.get('input', {}), ensure_ascii=False, default=str)}]"
        ]
    if kind == "tool_result":
        inside = [part for one in blocks_of(block.get("content")) or () for part in _told(one)]
        words = "\n".join(part for part in inside if isinstance(part, str))
        head = "Tool error" if block.get("is_error") else "Tool result"
        return [f"[{head}: {words}]", *(part for part in inside if not isinstance(part, str))]
    return [] if kind in _THOUGHTS else [f"[{kind}]"]


def _lines(parts: list[Any]) -> list[Any]:
    """The parts with neighbouring texts as one, a line for each."""
    lines: list[Any] = []
    for part in parts:
        if isinstance(part, str) and lines and isinstance(lines[-1], str):
            lines[-1] += f"\n{part}"
        else:
            lines.append(part)
    return lines


def _merged(parts: list[Any]) -> list[Any]:
    merged: list[Any] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += f"\n\n{part}"
        else:
            merged.append(part)
    return merged


def _joined(blocks: Sequence[Mapping[str, Any]]) -> str | list[Any]:
    if all(block.get("type") == "text" for block in blocks):
        return "\n".join(str(block["text"]) for block in blocks)
    return [dict(block) for block in blocks]
