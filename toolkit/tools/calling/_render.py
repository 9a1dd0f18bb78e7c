"""A tool's value as the content a model reads.

In order: the tool's own renderer, the value's `render()` (or that of every item of a list), text as it is, content
objects as they are, compact JSON for everything pydantic can serialise. Nothing
(None, an empty text) renders to no content: an empty text block is refused by the
model API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from pydantic_core import PydanticSerializationError

from toolkit.errors import RenderError
from toolkit.tools.content import Block, Reply, ToolResult, as_block, is_content
from toolkit.tools.plain_json import json_text

Renderer = Callable[[Any], Any]


def render(value: Any, *, renderer: Renderer | None = None, max_chars: int | None = None) -> Reply:
    """The reply for a tool's value.

    Raises:
        RenderError: the value is nothing pydantic can serialise.
        Exception: whatever the renderer raises.
    """
    message, ok = "", True
    if isinstance(value, ToolResult):
        value, message, ok = value.value, value.message, value.ok
    content = list(as_blocks(value if renderer is None else renderer(value)))
    if not content and (message or not ok):
        # The model API refuses an error without a text.
        content = [{"type": "text", "text": message or "The tool failed and gave no reason."}]
    if max_chars is not None:
        content = cut(content, max_chars)
    return Reply(content, is_error=not ok)


def as_blocks(value: Any) -> Iterable[Block]:
    """The content blocks of a value."""
    if _renders_itself(value):
        value = value.render()
    if isinstance(value, Enum):
        value = value.value
    if value is None:
        return
    if is_content(value):
        block = as_block(value)
        if block.get("text") != "":
            yield block
    elif isinstance(value, list | tuple) and any(is_content(item) for item in value):
        for item in value:
            yield from as_blocks(item)
    elif isinstance(value, list | tuple) and value and all(_renders_itself(item) for item in value):
        yield from _joined(block for item in value for block in as_blocks(item))
    else:
        text = str(value) if isinstance(value, str) else as_json(value)
        if text:
            yield {"type": "text", "text": text}


def _renders_itself(value: Any) -> bool:
    return callable(getattr(value, "render", None)) and not isinstance(value, type)


def _joined(blocks: Iterable[Block]) -> Iterable[Block]:
    """The blocks with texts that follow one another as the lines of one text."""
    kept: list[Block] = []
    for block in blocks:
        if kept and block["type"] == kept[-1]["type"] == "text":
            kept[-1] = {**block, "text": f"{kept[-1]['text']}\n{block['text']}"}
        else:
            kept.append(block)
    return kept


def as_json(value: Any) -> str:
    """Compact JSON of anything pydantic can serialise: bytes as base64, numbers without a JSON form as text."""
    try:
        return json_text(value)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise RenderError(
            f"the tool returned a {type(value).__name__}, which has no rendering: {error}",
            fix="Give it a render() method, or the tool a renderer: @my_tool.renders",
        ) from error


def cut(content: list[Block], max_chars: int) -> list[Block]:
    """The content with at most `max_chars` characters of text, cut at a line, and a sentence on what is missing."""
    total = sum(len(_text_in(block)) for block in content)
    if total <= max_chars:
        return content
    room = max_chars - len(_notice(total, total))
    kept: list[Block] = []
    used = 0
    for block in content:
        text = _text_in(block)
        part = _whole_lines(text, room - used)
        used += len(part)
        if part or not text:
            kept.append(_with_text(block, part))
        if len(part) < len(text):
            room = used
    return [*kept, {"type": "text", "text": _notice(total - used, total)}]


def _text_in(block: Block) -> str:
    """The text of a block that clients show as text, that of a resource included."""
    return str(block.get("text") or block.get("resource", {}).get("text") or "")


def _with_text(block: Block, text: str) -> Block:
    if not text:
        return block
    if "resource" in block:
        return {**block, "resource": {**block["resource"], "text": text}}
    return {**block, "text": text}


def _whole_lines(text: str, room: int) -> str:
    """As much of the text as fits, up to the end of a line; a first line that is too long is cut within."""
    if len(text) <= room:
        return text
    head = text[: max(0, room)]
    return head[: head.rfind("\n")] if "\n" in head else head


def _notice(missing: int, total: int) -> str:
    return f"[cut here: {missing:,} of {total:,} characters are missing; ask for less at a time]"
