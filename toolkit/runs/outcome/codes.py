"""How a run can end: one code and one fixed sentence for each way.

The map is total: whatever the SDK reports, or fails to report, has a code.
Raw texts of the CLI hold diagnostics and addresses; they never become a message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Code = Literal[
    "ok",
    "stopped",
    "deadline",
    "budget",
    "turn_limit",
    "pending",
    "throttled",
    "auth",
    "context_overflow",
    "image_size",
    "api_error",
    "bad_output",
    "aborted",
    "internal",
    "crashed",
    "not_found",
    "bad_request",
    "no_session",
    "unconfined",
    "server_failed",
    "unverified",
    "setup_failed",
]

MESSAGES: dict[Code, str] = {
    "ok": "The run finished.",
    "stopped": "The run was stopped by a rule before it was done.",
    "deadline": "The run reached its deadline.",
    "budget": "The run used up its budget.",
    "turn_limit": "The run reached its limit of turns.",
    "pending": "The run waits for a tool call to be answered.",
    "throttled": "The model API refused the request because of too much load or too many requests.",
    "auth": "The model API did not accept the credentials.",
    "context_overflow": "The conversation is longer than the model can read.",
    "image_size": "A picture was too large for the model API.",
    "api_error": "The model API answered with an error.",
    "bad_output": "The model gave no output of the form asked for.",
    "aborted": "The run was interrupted.",
    "internal": "The agent failed while it was working.",
    "crashed": "The agent's process ended before the run was done.",
    "not_found": "The agent's program was not found.",
    "bad_request": "The run could not be started as asked.",
    "no_session": "There is no such session to resume.",
    "unconfined": "The run was refused because its confinement is not certain.",
    "server_failed": "A server that the run needs did not start.",
    "unverified": "The agent says it is done, but the verification did not pass.",
    "setup_failed": "The setup failed, and nothing was sent to the model.",
}
assert set(MESSAGES) == set(get_args(Code))

LIMIT_CODES: frozenset[Code] = frozenset({"deadline", "budget", "turn_limit"})
"""A limit of the caller's was reached: exit code 3 on the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Everything known about how a run ended, in the SDK's words and ours."""

    subtype: str | None = None
    """Of the result message; None when none came."""
    is_error: bool = False
    terminal_reason: str | None = None
    api_status: int | None = None
    error: str | None = None
    """The class name of the exception that ended it."""
    detail: str = ""
    """Its raw text: read for two known markers, never shown."""
    output_missing: bool = False
    """An output was asked for and none of its form came."""
    kept_back: str | None = None
    """Why a hook kept the prompt from the model, in its words; None where none did."""
    guard: Code | None = None
    """Why our own guard or watchdog ended it."""


_BY_SUBTYPE: dict[str, Code] = {
    "error_max_turns": "turn_limit",
    "error_max_budget_usd": "budget",
    "error_max_structured_output_retries": "bad_output",
}
_BY_REASON: dict[str, Code] = {
    "prompt_too_long": "context_overflow",
    "image_error": "image_size",
    "blocking_limit": "context_overflow",
    "tool_deferred": "pending",
    "tool_deferred_unavailable": "bad_request",
    "hook_stopped": "stopped",
    "stop_hook_prevented": "stopped",
    "max_turns": "turn_limit",
    "budget_exhausted": "budget",
    "aborted_streaming": "aborted",
    "aborted_tools": "aborted",
}
_BY_STATUS: dict[int, Code] = {429: "throttled", 529: "throttled", 401: "auth", 403: "auth", 413: "image_size"}


def code_of(end: End) -> Code:
    """The one code for an end. What our guard decided comes first: it is why the rest happened."""
    if end.guard is not None:
        return end.guard
    if end.kept_back is not None:
        return "stopped"
    if end.subtype is None:
        return _without_result(end)
    by_subtype = _BY_SUBTYPE.get(end.subtype)
    if by_subtype is not None:
        return by_subtype
    by_reason = _BY_REASON.get(end.terminal_reason or "")
    if by_reason is not None:
        return by_reason
    if end.subtype != "success":
        return "no_session" if _names_missing_session(end.detail) else "internal"
    if end.is_error:
        return _BY_STATUS.get(end.api_status or 0, "api_error")
    return "bad_output" if end.output_missing else "ok"


def _without_result(end: End) -> Code:
    """No result message came: the exception is all there is."""
    if end.error == "CLINotFoundError":
        return "not_found"
    if end.error == "UnconfinedError":
        return "unconfined"
    if end.error == "ServerFailedError":
        return "server_failed"
    if end.error == "SetupFailedError":
        return "setup_failed"
    if end.error == "NoSessionError":
        return "no_session"
    if _names_missing_session(end.detail):
        return "no_session"
    if end.error == "CLIConnectionError":
        return "bad_request"
    if end.error == "CancelledError":
        return "aborted"
    return "crashed" if end.error in ("ProcessError", "ResultError", "CLIJSONDecodeError") else "internal"


def _names_missing_session(detail: str) -> bool:
    return "No conversation found with session ID" in detail
