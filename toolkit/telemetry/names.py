"""The words of OpenTelemetry's conventions for generative AI, and when contents may be told.

Prompts, answers, arguments and results are told only where the variable of the convention asks for them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE = "gen_ai.usage.cache_creation.input_tokens"
TOKEN_TYPE = "gen_ai.token.type"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL = "gen_ai.tool.call.id"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
ERROR = "error.type"

AGENT = "claude-code"
"""The agent of every run, as spans and metrics call it."""
ANTHROPIC = "anthropic"

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURING = {"true", "1", "span_only", "span_and_event"}
_MOST_CONTENT = 32_000
"""Characters of one content; what is longer is cut, with a word about it."""


def captures_contents(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the convention's variable asks for contents on spans."""
    return environ.get(CAPTURE, "").strip().lower() in _CAPTURING


def as_messages(role: str, text: str) -> str:
    """One message of plain text, in the shape the convention has for messages."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": bounded(text)}]}], ensure_ascii=False)


def as_content(value: Any) -> str:
    """A tool's arguments or result as text."""
    return bounded(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def bounded(text: str) -> str:
    """A text that a collector takes: no half characters, and not without end."""
    safe = text.encode("utf-8", "replace").decode("utf-8")
    return safe if len(safe) <= _MOST_CONTENT else f"{safe[:_MOST_CONTENT]}… ({len(safe)} characters)"
