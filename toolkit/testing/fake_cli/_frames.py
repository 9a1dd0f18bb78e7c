"""The frames the CLI writes, in the shape the bundled one gives them.

Pure functions of what is to be said. Ids and times are made up; every other
field that the SDK turns into a message is as in a recorded run, and a test plays
the same scenarios through the real CLI to keep it so.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from toolkit.testing.fake_cli._host import Settings

Frame: TypeAlias = dict[str, Any]
"""One JSON line of the protocol between the SDK and the CLI."""

_LEAST_THINKING, _MOST_THINKING = 1024, 31999
# What a made-up model call costs, in dollars a token; prices are not part of the promise.
_PRICE_IN, _PRICE_OUT = 4e-6, 20e-6

COUNTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""The token counts of a model call, a result and a synthetic message."""

REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, "
    "the new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how "
    "to proceed."
)
STOPPED_RUNNING = (
    " Correction to the text above: this call was stopped while running, not refused before it ran. It may have "
    "run in part or in full, and its changes may have been written. No permission prompt was involved. Work it "
    "started elsewhere (a remote command, a background process) may still be running, so check before starting "
    "the same work again. The instruction to stop and wait still stands."
)
NUDGE = (
    "[structured-output-enforce] You MUST call the StructuredOutput tool to complete this request. Call this tool now."
)


def new_id() -> str:
    """A made-up uuid."""
    return str(uuid.uuid4())


def stamped(frame: Frame, session: str) -> Frame:
    """The frame with the two ids every frame carries."""
    return {**frame, "session_id": session, "uuid": new_id()}


def activity(name: str) -> Frame:
    """The CLI tells its host whether it works (`running`), waits (`requires_action`) or is done (`idle`)."""
    return {"type": "system", "subtype": "session_state_changed", "state": name, "sdk_host_only": True}


def init(settings: Settings, tools: Sequence[str]) -> Frame:
    """The frame that opens every prompt."""
    connected, failed = {"status": "connected", "source": "sdk"}, {"status": "failed"}
    dynamic = {**failed, "source": "dynamic"}
    return {
        "type": "system",
        "subtype": "init",
        "cwd": settings.cwd,
        "tools": tools,
        "mcp_servers": [
            {
                "name": name,
                **(connected if name in settings.sdk_servers else dynamic if name in settings.later else failed),
            }
            for name in settings.servers
        ],
        "model": settings.model,
        "permissionMode": settings.mode,
        "slash_commands": [],
        "apiKeySource": "ANTHROPIC_API_KEY",
        "claude_code_version": "2.1.325",
        "output_style": "default",
        "agents": [],
        "skills": [],
        "plugins": [],
    }


def initialized(mode: str) -> Frame:
    """The answer to `initialize`."""
    return {
        "commands": [],
        "agents": [],
        "output_style": "default",
        "available_output_styles": ["default"],
        "models": [],
        "account": {},
        "claude_code_version": "2.1.325",
        "current_permission_mode": mode,
        "hooks_applied": True,
        "hook_on_failure_supported": True,
        "session_state": "idle",
        "capabilities": [],
    }


def assistant(whole: Mapping[str, Any], block: Mapping[str, Any], *, streamed: bool = True) -> Frame:
    """One content block of a model call: the whole call's id, and the usage as it was when the stream began."""
    begun = {"stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}} if streamed else {}
    return {
        "type": "assistant",
        "message": {**whole, "content": [dict(block)], "context_management": None, **begun},
        "parent_tool_use_id": None,
    }


def synthetic(words: str, kind: str, *, stop: str = "stop_sequence", **extra: Any) -> Frame:
    """What the CLI says in the model's name when the model did not: `kind` is what went wrong."""
    message = {
        "id": new_id(),
        "type": "message",
        "role": "assistant",
        "model": "<synthetic>",
        "content": [{"type": "text", "text": words}],
        "stop_reason": stop,
        "stop_sequence": "",
        "usage": dict.fromkeys(COUNTS, 0),
        "context_management": None,
    }
    frame = {"type": "assistant", "message": message, "parent_tool_use_id": None, "error": kind}
    return {**frame, "is_api_error_message": True, **extra}


def aborted(begun: Mapping[str, int]) -> list[Frame]:
    """The events with which the CLI closes a stream that was interrupted."""
    delta = dict.fromkeys(("container", "stop_details", "stop_reason", "stop_sequence"))
    counts = {**begun, "output_tokens": 1}
    closing = {"type": "message_delta", "context_management": None, "delta": delta, "usage": counts}
    return [closing, {"type": "message_stop"}]


def user(content: Any, **extra: Any) -> Frame:
    """A message in the user's name: a tool result, a text of the CLI, an echoed prompt."""
    return {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": None, **extra}


def informational(content: str, **extra: Any) -> Frame:
    """A remark of the CLI for its host."""
    return {"type": "system", "subtype": "informational", "content": content, "level": "warning", **extra}


def cost(input_tokens: int, output_tokens: int) -> float:
    """What calls with these counts cost."""
    return input_tokens * _PRICE_IN + output_tokens * _PRICE_OUT


def compact(value: Any) -> str:
    """JSON as the CLI writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def thinking(tokens: int | None) -> Frame:
    """How the CLI asks a model for thinking that takes a number of tokens."""
    if tokens == 0:
        return {"type": "disabled"}
    most = _MOST_THINKING if tokens is None else max(_LEAST_THINKING, min(tokens, _MOST_THINKING))
    return {"type": "enabled", "budget_tokens": most, "display": "updates"}


def success(result: str, *, reason: str | None = "completed", stop: str | None = None) -> Frame:
    """How a prompt ends that was answered; the counts are added to it."""
    end = {"type": "result", "subtype": "success", "is_error": False, "terminal_reason": reason, "stop_reason": stop}
    return {**end, "result": result, "api_error_status": None}


def error(subtype: str, reason: str | None, words: str, *, stop: str | None = None) -> Frame:
    """How a prompt ends that failed; the counts are added to it."""
    end = {"type": "result", "subtype": subtype, "is_error": True, "terminal_reason": reason, "stop_reason": stop}
    return {**end, "errors": [words]}


def model_usage(total: Mapping[str, int]) -> Frame:
    """The totals of one model, as a result tells them."""
    return {
        "inputTokens": total["input_tokens"],
        "outputTokens": total["output_tokens"],
        "cacheReadInputTokens": total["cache_read_input_tokens"],
        "cacheCreationInputTokens": total["cache_creation_input_tokens"],
        "webSearchRequests": 0,
        "costUSD": cost(total["input_tokens"], total["output_tokens"]),
        "contextWindow": 1000000,
    }
