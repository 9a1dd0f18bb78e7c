"""What the fake CLI says when the model API refuses a call, the model stops early, or a hook keeps the prompt back.

Pure functions of what happened; the words are the bundled CLI's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolkit.testing.fake_cli._frames import Frame, informational, synthetic
from toolkit.testing.model.turns import Status

CUT = (
    "Output token limit hit. Resume directly — no apology, no recap of what you were doing. Pick up mid-thought if "
    "that is where the cut happened. Break remaining work into smaller pieces."
)
"""What the model is told after `max_tokens`."""
MOST_CUTS = 3
"""How often in a row the CLI lets the model go on after `max_tokens`."""
_CUT_TOO_OFTEN = (
    "API Error: Claude's response exceeded the 32000 output token maximum. To configure this behavior, set the "
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS environment variable."
)
BLANK = "[Your previous response had no visible output. Please continue and produce a user-visible response.]"
"""What the model is told after it only thought."""
NOT_RUN = "Not run: the response that made this tool call was stopped by a safety classifier."
INTERRUPTED = (
    "Interrupted: the response that made this tool call was stopped by a safety classifier while the call was running; "
    "it may have partially or fully completed."
)
_WITHHELD = (
    "Your response above was stopped by a safety classifier — this is not a tool or API error. The rest of it was "
    "withheld, and tool calls in it that had not finished did not run. Do not produce that content again, "
    "even reworded."
)
_WAS_RUNNING = (
    ' Exception: a tool call whose result reads "Interrupted" was already running when the response was stopped; it '
    "may have partially or fully completed."
)
_KINDS = {
    400: "unknown",
    401: "authentication_failed",
    403: "authentication_failed",
    404: "model_not_found",
    413: "invalid_request",
    429: "rate_limit",
}
_TOO_LARGE = (
    "Request too large (max 32MB). Accumulated images and attachments in the conversation pushed the request over "
    "the limit. Remove older images or compact the conversation."
)
_IMAGE_TOO_LARGE = "Image was too large. Try resizing the image or using a different approach."
_IMAGE_REMOVED = (
    "API Error: an image in the conversation could not be processed and was removed. Re-read the file with a different "
    "approach if you still need it."
)


def api_error(status: Status, model: str) -> tuple[Frame, str, str]:
    """What the CLI says after an API error: as a message of its own, the text of it, and why the run ends."""
    kind, words, reason = _api_error(status, model)
    return synthetic(words, kind, api_error_status=status.code), words, reason


def _api_error(status: Status, model: str) -> tuple[str, str, str]:
    if status.code == 400 and "prompt is too long" in status.message:
        return "invalid_request", _too_long(status.message), "prompt_too_long"
    if status.code == 400 and "image exceeds" in status.message:
        return "invalid_request", _IMAGE_TOO_LARGE, "image_error"
    if status.code == 400 and "image dimensions exceed" in status.message:
        return "invalid_request", _IMAGE_REMOVED, "image_error"
    kind = _KINDS.get(status.code, "server_error" if status.code >= 500 else "unknown")
    return kind, _text(status, model), "image_error" if status.code == 413 else "api_error"


def _text(status: Status, model: str) -> str:
    if status.code == 404:
        return f"There's an issue with the selected model ({model}). It may not exist or you may not have access to it."
    if status.code == 413:
        return _TOO_LARGE
    if status.code == 429:
        return f"API Error: Request rejected (429) · {status.message}"
    if status.code in (401, 403):
        return f"Failed to authenticate. API Error: {status.code} {status.message}"
    if status.code >= 500:
        return (
            f"API Error: {status.code} {status.message}. This is a server-side issue, usually temporary — try again "
            "in a moment. If it persists, check your inference gateway (127.0.0.1:0)."
        )
    return f"API Error: {status.code} {status.message}"


def _too_long(message: str) -> str:
    counts = re.search(r"(\d+) tokens > (\d+)", message)
    if counts is None:
        return (
            "Prompt is too long · this conversation is a single exchange and cannot be compacted — the request size "
            "comes mostly from system prompt, tool definitions, or attachments."
        )
    return (
        f"Prompt is too long · the request is ~{counts[1]} tokens (limit {counts[2]}) but this conversation is only ~1 "
        "tokens — the rest is system prompt, tool definitions, and attachment content. A single-exchange conversation "
        "cannot be compacted; reduce attached files/tools or start with less context."
    )


def cut_too_often() -> tuple[Frame, str]:
    """The message with which the CLI gives up on a model that always hits its token limit, and its text."""
    return synthetic(_CUT_TOO_OFTEN, "max_output_tokens"), _CUT_TOO_OFTEN


def continuing(model: str) -> str:
    """What the host is told when the CLI lets a model go on after a refusal; it does once a prompt."""
    return f"{_called(model)}'s safeguards stopped the response above · continuing once with that noted"


def withheld(*, was_running: bool) -> str:
    """What the model is told after a refusal."""
    return _WITHHELD + (_WAS_RUNNING if was_running else "")


def refused(message: dict[str, Any]) -> tuple[Frame, str]:
    """The message with which the CLI ends at a second refusal, and its text."""
    model = str(message["model"])
    name, ids = _called(model), f"Request ID: req_{message['id']}\n\nMessage ID: {message['id']}"
    if name != model:
        words = f"API Error: {name} can't help with this. Start a new session to continue."
        words += "\n\nLearn more: https://www.anthropic.com/legal/aup"
    else:
        words = (
            f"API Error: {name}'s safeguards flagged this message (https://www.anthropic.com/legal/aup). This "
            f"sometimes happens with safe, normal conversations. Claude Code can't respond to this message with "
            f"{name}.\n\nTry rephrasing the request in a new session or change your model.\n\n"
            "Learn more: https://support.claude.com/en/articles/8106465"
        )
    words = f"{words}\n\n{ids}"
    return synthetic(words, "invalid_request", stop="refusal"), words


def _called(model: str) -> str:
    """The name of a model as people know it; the CLI knows its own."""
    known = re.fullmatch(r"claude-(opus|sonnet|haiku)-(\d)-(\d{1,2})", model)
    return f"{known[1].capitalize()} {known[2]}.{known[3]}" if known else model


def kept_back(answer: Mapping[str, Any], prompt: Any) -> Frame | None:
    """What the CLI says where a hook's answer keeps the prompt from the model; None where it does not."""
    outcome: Frame = {"kind": "stopped_by_hook", "prompt_kept": True}
    if answer.get("continue") is False:
        reason = answer.get("stopReason")
        words = f"Operation stopped by hook: {reason}" if reason else "Operation stopped by hook"
    elif answer.get("decision") == "block":
        reason = answer.get("reason")
        words = f"UserPromptSubmit operation blocked by hook:\n{reason or 'Blocked by hook'}"
        outcome = {"kind": "blocked_by_hook", "prompt_kept": False}
        hides = (answer.get("hookSpecificOutput") or {}).get("suppressOriginalPrompt")
        if answer.get("failed"):
            outcome, reason = {**outcome, "kind": "no_verdict", "no_verdict_kind": "hook_failed"}, None
        elif not hides:
            words += f"\n\nOriginal prompt: {prompt}"
    else:
        return None
    outcome |= {"reason": reason} if reason else {}
    return informational(words, prevent_continuation=True, prompt_submit_outcome=outcome)
