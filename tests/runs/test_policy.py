"""Who may run what: every combination of policy and mode."""

from __future__ import annotations

import itertools

import pytest

from toolkit.errors import RunError
from toolkit.runs.asking import CLI_MODES, OWN_MODES, Guard, Policy

WRITER, READER = "mcp__notes__add", "mcp__notes__find"


def ruled(mode: str, policy: str | None, tool: str, *, safe: bool = False) -> str:
    rules = {} if policy is None else {"mcp__notes__*": policy}
    found = Policy(mode, rules, (tool,) if safe else (), {READER}.__contains__)
    return found.rule(tool, {}).choice


# mode, policy, writer's choice, reader's choice
TABLE = [
    ("yolo", None, "allow", "allow"),
    ("yolo", "allow", "allow", "allow"),
    ("yolo", "ask", "ask", "ask"),
    ("yolo", "deny", "deny", "deny"),
    ("yolo", "disable", "deny", "deny"),
    ("normal", None, "ask", "allow"),
    ("normal", "allow", "allow", "allow"),
    ("normal", "ask", "ask", "ask"),
    ("normal", "deny", "deny", "deny"),
    ("normal", "disable", "deny", "deny"),
    ("read-only", None, "deny", "allow"),
    ("read-only", "allow", "deny", "allow"),
    ("read-only", "ask", "deny", "ask"),
    ("read-only", "deny", "deny", "deny"),
    ("read-only", "disable", "deny", "deny"),
    ("default", None, "allow", "allow"),
    ("default", "allow", "allow", "allow"),
    ("default", "ask", "ask", "ask"),
    ("default", "deny", "deny", "deny"),
    ("default", "disable", "deny", "deny"),
]


@pytest.mark.parametrize(("mode", "policy", "writer", "reader"), TABLE)
def test_mode_and_policy_decide(mode: str, policy: str | None, writer: str, reader: str) -> None:
    assert ruled(mode, policy, WRITER) == writer
    assert ruled(mode, policy, READER) == reader


def test_the_table_has_every_combination() -> None:
    policies = [None, "allow", "ask", "deny", "disable"]
    wanted = set(itertools.product([*OWN_MODES, "default"], policies))
    assert {row[:2] for row in TABLE} == wanted


def test_a_safe_tool_is_asked_before_the_policy_but_not_before_read_only() -> None:
    assert ruled("normal", "deny", WRITER, safe=True) == "allow"
    assert ruled("read-only", None, WRITER, safe=True) == "deny"


@pytest.mark.parametrize("tool", ["Write", "Edit", "Bash", "NotebookEdit", "Agent", "mcp__other__x"])
def test_read_only_refuses_whatever_may_write(tool: str) -> None:
    assert Policy("read-only", {"*": "allow"}, ("*",)).rule(tool, {"command": "ls"}).choice == "deny"


@pytest.mark.parametrize("tool", ["Read", "Grep", "Glob", "StructuredOutput"])
def test_read_only_lets_readers_run(tool: str) -> None:
    assert Policy("read-only").rule(tool, {}).choice == "allow"


@pytest.mark.parametrize(
    ("policy", "command", "choice"),
    [
        ("allow", "git status", "allow"),
        ("allow", "git status --short", "allow"),
        ("allow", "git statusx", "ask"),
        ("allow", "git push", "ask"),
        ("allow", "git status; rm -rf .", "ask"),
        ("allow", "git status && rm -rf .", "ask"),
        ("allow", "git status $(rm x)", "ask"),
        ("allow", "git status > x", "ask"),
        ("deny", "git status", "deny"),
        ("deny", "cd x; git status", "deny"),
        ("deny", "echo git status", "ask"),
    ],
)
def test_a_bash_prefix_allows_only_plain_commands_and_forbids_also_compound_ones(
    policy: str, command: str, choice: str
) -> None:
    assert Policy("normal", {"Bash(git status)": policy}).rule("Bash", {"command": command}).choice == choice
    assert Policy("normal", {"Bash(git status:*)": policy}).rule("Bash", {"command": command}).choice == choice


def test_the_first_pattern_that_matches_decides() -> None:
    rules = {"mcp__notes__add": "allow", "mcp__notes__*": "deny"}
    assert Policy("yolo", rules).rule("mcp__notes__add", {}).choice == "allow"
    assert Policy("yolo", rules).rule("mcp__notes__remove", {}).choice == "deny"


def test_what_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(RunError, match="there is no mode 'yollo'; did you mean 'yolo'"):
        Policy("yollo")
    with pytest.raises(RunError, match="policy for 'Bash': there is no 'alow'; did you mean 'allow'"):
        Policy("yolo", {"Bash": "alow"})


@pytest.mark.parametrize("mode", CLI_MODES)
def test_the_clis_own_modes_pass_by_name(mode: str) -> None:
    assert Policy(mode).cli_mode == mode


@pytest.mark.parametrize("mode", OWN_MODES)
def test_our_modes_are_enforced_by_us(mode: str) -> None:
    assert Policy(mode).cli_mode == "bypassPermissions"


def test_a_call_may_wait_for_a_person_longer_than_the_cli_has_patience_with_hooks() -> None:
    (hook,) = Guard([], {}).hooks()["PreToolUse"]
    assert (hook.on_failure, (hook.timeout or 0) >= 24 * 3600) == ("block", True)
