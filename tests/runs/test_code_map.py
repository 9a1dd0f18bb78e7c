"""Every way a run can end has one code; nothing that failed is called ok."""

from __future__ import annotations

import re
from itertools import product
from typing import Any, get_args

import pytest

from toolkit.runs import MESSAGES, Code
from toolkit.runs.outcome import End, code_of

ROWS: list[tuple[dict[str, Any], str]] = [
    ({"subtype": "success", "terminal_reason": "completed"}, "ok"),
    ({"subtype": "success"}, "ok"),
    ({"subtype": "success", "terminal_reason": "completed", "output_missing": True}, "bad_output"),
    ({"subtype": "success", "terminal_reason": "hook_stopped"}, "stopped"),
    ({"subtype": "success", "terminal_reason": "hook_stopped", "guard": "deadline"}, "deadline"),
    ({"subtype": "success", "terminal_reason": "hook_stopped", "guard": "budget"}, "budget"),
    ({"subtype": "success", "terminal_reason": "tool_deferred"}, "pending"),
    ({"subtype": "success", "is_error": True, "terminal_reason": "tool_deferred_unavailable"}, "bad_request"),
    ({"subtype": "success", "is_error": True, "terminal_reason": "api_error", "api_status": 429}, "throttled"),
    ({"subtype": "success", "is_error": True, "terminal_reason": "api_error", "api_status": 529}, "throttled"),
    ({"subtype": "success", "is_error": True, "terminal_reason": "api_error", "api_status": 401}, "auth"),
    ({"subtype": "success", "is_error": True, "terminal_reason": "api_error", "api_status": 403}, "auth"),
    ({"subtype": "success", "is_error": True, "terminal_reason": "prompt_too_long"}, "context_overflow"),
    ({"subtype": "success", "is_error": True, "terminal_reason": "image_error", "api_status": 413}, "image_size"),
    ({"subtype": "success", "is_error": True, "terminal_reason": "api_error", "api_status": 500}, "api_error"),
    ({"subtype": "success", "is_error": True, "terminal_reason": "api_error", "api_status": 404}, "api_error"),
    ({"subtype": "success", "is_error": True}, "api_error"),
    ({"subtype": "error_max_turns", "is_error": True, "terminal_reason": "max_turns"}, "turn_limit"),
    ({"subtype": "error_max_budget_usd", "is_error": True}, "budget"),
    ({"subtype": "error_max_structured_output_retries", "is_error": True}, "bad_output"),
    ({"subtype": "error_during_execution", "terminal_reason": "aborted_streaming"}, "aborted"),
    ({"subtype": "error_during_execution", "terminal_reason": "aborted_tools"}, "aborted"),
    ({"subtype": "error_during_execution", "terminal_reason": "aborted_tools", "guard": "deadline"}, "deadline"),
    ({"subtype": "error_during_execution"}, "internal"),
    ({"subtype": "error_during_execution", "detail": "No conversation found with session ID: x"}, "no_session"),
    ({"subtype": "a_subtype_of_tomorrow"}, "internal"),
    ({"error": "ProcessError", "detail": "exit code -9"}, "crashed"),
    ({"error": "CLIJSONDecodeError"}, "crashed"),
    ({"error": "ProcessError", "detail": "No conversation found with session ID: x"}, "no_session"),
    ({"error": "CLINotFoundError"}, "not_found"),
    ({"error": "CLIConnectionError", "detail": "Working directory does not exist"}, "bad_request"),
    ({"error": "CancelledError"}, "aborted"),
    ({"error": "UnconfinedError"}, "unconfined"),
    ({"error": "ServerFailedError"}, "server_failed"),
    ({"error": "SetupFailedError"}, "setup_failed"),
    ({"error": "KeyError"}, "internal"),
    ({}, "internal"),
]


@pytest.mark.parametrize(("facts", "code"), ROWS, ids=[f"{row[1]}: {row[0]}" for row in ROWS])
def test_the_end_of_a_run_has_the_code(facts: dict[str, Any], code: str) -> None:
    assert code_of(End(**facts)) == code


def test_every_code_has_a_sentence_of_its_own_that_names_no_particulars() -> None:
    assert MESSAGES.keys() == set(get_args(Code))
    assert len(set(MESSAGES.values())) == len(MESSAGES)
    assert all(re.fullmatch(r"(The|A|There) [^{}%:]*\.", sentence) for sentence in MESSAGES.values())


def test_an_end_with_anything_wrong_is_never_ok() -> None:
    """Also for combinations that no CLI has sent yet."""
    subtypes = (None, "success", "error_during_execution", "error_max_turns", "of_tomorrow")
    reasons = (None, "completed", "api_error", "hook_stopped", "aborted_tools", "of_tomorrow")
    for subtype, reason, status in product(subtypes, reasons, (None, 200, 429, 500, 599)):
        end = End(subtype=subtype, is_error=True, terminal_reason=reason, api_status=status)
        assert code_of(end) in set(get_args(Code)) - {"ok"}, end


@pytest.mark.parametrize("code", sorted(set(get_args(Code)) - {"ok"}))
def test_what_our_own_guard_decided_comes_before_what_the_cli_says(code: Code) -> None:
    assert code_of(End(subtype="success", terminal_reason="completed", guard=code)) == code
    assert code_of(End(subtype="error_max_turns", is_error=True, guard=code)) == code
