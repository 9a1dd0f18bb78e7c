"""Who may run what: every combination of policy and mode."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.sandbox.jails import needs_jail
from toolkit import Toolbox, run, start, tool
from toolkit.errors import RunError
from toolkit.runs import OptionError, PendingCall, Question, list_runs, load_run
from toolkit.runs.asking import CLI_MODES, OWN_MODES, Guard, Offer, Policy
from toolkit.runs.outcome.codes import Code
from toolkit.testing import FakeCLI, ScriptedAPI, text, tool_use

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
    ("yolo", "defer", "defer", "defer"),
    ("yolo", "disable", "deny", "deny"),
    ("normal", None, "ask", "allow"),
    ("normal", "allow", "allow", "allow"),
    ("normal", "ask", "ask", "ask"),
    ("normal", "deny", "deny", "deny"),
    ("normal", "defer", "defer", "defer"),
    ("normal", "disable", "deny", "deny"),
    ("read-only", None, "deny", "allow"),
    ("read-only", "allow", "deny", "allow"),
    ("read-only", "ask", "deny", "ask"),
    ("read-only", "deny", "deny", "deny"),
    ("read-only", "defer", "deny", "defer"),
    ("read-only", "disable", "deny", "deny"),
    ("default", None, "allow", "allow"),
    ("default", "allow", "allow", "allow"),
    ("default", "ask", "ask", "ask"),
    ("default", "deny", "deny", "deny"),
    ("default", "defer", "defer", "defer"),
    ("default", "disable", "deny", "deny"),
]


@pytest.mark.parametrize(("mode", "policy", "writer", "reader"), TABLE)
def test_mode_and_policy_decide(mode: str, policy: str | None, writer: str, reader: str) -> None:
    assert ruled(mode, policy, WRITER) == writer
    assert ruled(mode, policy, READER) == reader


def test_the_table_has_every_combination() -> None:
    policies = [None, "allow", "ask", "deny", "defer", "disable"]
    wanted = set(itertools.product([*OWN_MODES, "default"], policies))
    assert {row[:2] for row in TABLE} == wanted


TOOLS = Offer(("Bash", "Read"), {"notes": ("add", "wipe")}, ("far",))


@pytest.mark.parametrize(
    "rules",
    [
        {"*": "allow", "wipe": "deny"},
        {"*": "ask", "wipe": "disable"},
        {"mcp__notes__*": "allow", "mcp__notes__w*": "ask"},
        {"*": "allow", "mcp__far__*": "deny"},
        {"Bash": "allow", "Bash(git push)": "deny"},
        {"Bash(git)": "allow", "Read": "deny", "Bash(git push)": "deny"},
        {"Bash(git *)": "ask", "Bash(git push:*)": "deny"},
        {"mcp__notes__wipe": "allow", "wipe": "deny"},
        {"wipe": "ask", "mcp__notes__wipe": "deny"},
    ],
    ids=str,
)
def test_a_rule_behind_a_looser_one_about_the_same_calls_is_refused(rules: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="comes too late") as caught:
        Policy(rules=rules).about(TOOLS)
    assert list(rules)[-1] in str(caught.value) or "mcp__notes__wipe" in str(caught.value)
    turned = dict(reversed(rules.items()))
    names = {TOOLS.meant("policy", pattern) for pattern in rules}
    assert len(Policy(rules=turned).about(TOOLS).rules or ()) == len(names)


def test_two_rules_for_one_tool_are_told_as_they_were_written() -> None:
    with pytest.raises(OptionError, match="'mcp__notes__wipe=deny' comes too late: 'wipe=ask' decides before it"):
        Policy(rules={"wipe": "ask", "mcp__notes__wipe": "deny"}).about(TOOLS)


def test_a_pattern_is_looked_up_once_however_many_others_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    matching = Offer.matching

    def counted(self: Offer, pattern: str) -> list[str]:
        looked.append(pattern)
        return matching(self, pattern)

    monkeypatch.setattr(Offer, "matching", counted)
    rules = {f"tool_{number}": "allow" if number < 50 else "deny" for number in range(100)}
    Policy(rules=rules).about(Offer((), {"box": tuple(rules)}))
    assert len(looked) <= 2 * len(rules)


@pytest.mark.parametrize("late", ["*wipe", "*__w?pe", "mcp__*__wipe", "mcp__note[s]__wipe"])
def test_a_pattern_for_some_of_the_tools_that_a_looser_one_is_about_is_refused(late: str) -> None:
    tools = Offer(("Bash", "Read"), {"notes": ("add", "wipe")})
    with pytest.raises(OptionError, match="comes too late"):
        Policy(rules={"mcp__notes*": "allow", late: "deny"}).about(tools)
    assert Policy(rules={late: "deny", "mcp__notes*": "allow"}).about(tools).rule(WRITER, {}).choice == "allow"
    assert Policy(rules={"wipe": "allow", late: "deny"}).about(tools), "about the same tools, in case there are more"


@pytest.mark.parametrize(
    "rules",
    [
        {"add": "allow", "mcp__notes__*": "deny"},
        {"*": "deny", "Read": "allow"},
        {"Bash(git)": "allow", "Bash(gitk)": "deny", "Bash": "deny"},
        {"Bash": "deny", "Bash(git push)": "disable"},
        {"Read": "allow", "*": "deny"},
        {"Bash(git push)": "ask", "Bash(git)": "deny"},
    ],
    ids=str,
)
def test_a_rule_that_still_holds_for_some_call_is_taken(rules: dict[str, str]) -> None:
    assert list((Policy(rules=rules).about(TOOLS).rules or {}).values()) == list(rules.values())


@pytest.mark.parametrize("policy", ["allow", "disable"])
def test_a_rule_that_what_is_safe_leaves_true_is_taken(policy: str) -> None:
    assert Policy(rules={"add": policy}, safe=("add",)).about(TOOLS).rules == {"mcp__notes__add": policy}


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
        ("allow", "git\t status  --short ", "allow"),
        ("allow", "git status\u00a0x", "ask"),  # to the shell one word: the name of another file
        ("allow", "git\x0bstatus", "ask"),
        ("allow", "git status\r", "ask"),
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


def test_a_bash_prefix_is_about_no_other_tool() -> None:
    policy = Policy("yolo", {"Bash(rm)": "deny"})
    assert policy.rule("Bash", {"command": "rm x"}).choice == "deny"
    assert policy.rule("Shell", {"command": "rm x"}).choice == "allow"
    assert policy.rule("mcp__box__run", {"command": "rm x"}).choice == "allow"


def test_every_pattern_is_known_with_the_option_it_was_written_in() -> None:
    policy = Policy("yolo", {"Bash": "ask", "mcp__*": "deny"}, safe=("mcp__a__b",))
    assert policy.patterns() == [("policy", "Bash"), ("policy", "mcp__*"), ("safe", "mcp__a__b")]
    assert Policy("yolo").patterns() == []


def test_the_first_pattern_that_matches_decides() -> None:
    rules = {"mcp__notes__add": "allow", "mcp__notes__*": "deny"}
    assert Policy("yolo", rules).rule("mcp__notes__add", {}).choice == "allow"
    assert Policy("yolo", rules).rule("mcp__notes__remove", {}).choice == "deny"


def test_disable_follows_the_first_pattern_that_matches_too() -> None:
    kept = Policy("yolo", {"mcp__notes__add": "allow", "mcp__notes__*": "disable"})
    assert (kept.disabled("mcp__notes__add"), kept.disabled("mcp__notes__wipe")) == (False, True)
    assert Policy("yolo", {"*": "ask", "Bash": "disable"}).disabled("Bash") is False
    assert Policy("yolo", {"Bash": "disable", "*": "ask"}).disabled_names() == ["Bash"]
    assert Policy("yolo", {"*": "ask", "Bash": "disable"}).disabled_names() == []


def test_a_tool_of_which_some_calls_may_run_is_offered() -> None:
    some = Policy("yolo", {"Bash(git status)": "allow", "Bash": "disable"})
    assert some.disabled("Bash") is False
    assert some.rule("Bash", {"command": "git status"}).choice == "allow"
    assert some.rule("Bash", {"command": "rm x"}).choice == "deny"
    assert Policy("yolo", {"Bash(rm)": "disable", "Bash": "disable"}).disabled("Bash") is True


OFFER = Offer(("Bash", "Read"), {"notes": ("add", "wipe"), "web": ("find", "wipe")}, ("far",))


@pytest.mark.parametrize(
    ("pattern", "means"),
    [
        ("Bash", "Bash"),
        ("*", "*"),
        ("mcp__*", "mcp__*"),
        ("mcp__notes__*", "mcp__notes__*"),
        ("mcp__notes__wipe", "mcp__notes__wipe"),
        ("add", "mcp__notes__add"),
        ("find", "mcp__web__find"),
        ("Bash(git push)", "Bash(git push)"),
        ("Bash(git push:*)", "Bash(git push:*)"),
        ("mcp__far__anything", "mcp__far__anything"),
        ("mcp__far__*", "mcp__far__*"),
    ],
)
def test_a_pattern_means_a_tool_of_the_run(pattern: str, means: str) -> None:
    assert OFFER.meant("policy", pattern) == means


NO_WORDS = (
    *("git push*", "rm -rf /*", "rm -*", "curl https://*", "cat f | sh", "git push && x", "a;b", "rm|mv", "rm,mv"),
    *("rm -rf $HOME", "$X", "r?", "[r]m", "'git push'", "git push)(x", "> x", "{", "f()", "a\\b"),
)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("wipe", "two tools of this run are called 'wipe'\n  Say which one: mcp__notes__wipe or mcp__web__wipe"),
        ("wip", "no tool of this run is called 'wip'; did you mean 'wipe'?"),
        ("mcp__note__*", "did you mean 'mcp__notes__*'?"),
        ("mcp__notes__wip", "did you mean 'mcp__notes__wipe'?"),
        ("mcp__fare__x", "did you mean 'mcp__far__*'?"),
        ("bash", "did you mean 'Bash'?"),
        ("wipe*", "did you mean 'wipe'?"),
        ("WebFetch", "WebFetch is not offered in this run\n  Leave it out, or offer it: native=[…, 'WebFetch']"),
        ("Bash()", "matches no command"),
        ("Bash(*)", "matches no command"),
        ("Bash(git * push)", "matches no command"),
        *((f"Bash({words})", "is no part of them") for words in NO_WORDS),
        ("Read(./.env)", "only Bash is told apart by its arguments\n  Write 'Read' for every call of it"),
        ("xyzzy", "A tool of a server is written mcp__SERVER__TOOL"),
    ],
)
def test_a_pattern_that_means_no_tool_is_an_error(pattern: str, says: str) -> None:
    with pytest.raises(OptionError) as caught:
        OFFER.meant("policy", pattern)
    assert says in str(caught.value)
    assert caught.value.option == "policy"


def test_a_command_is_compared_word_by_word() -> None:
    leading = (
        "if true; then git push; fi",
        "A=1 B='x y' git push",
        "! time git push",
        "sudo env A=1 git push -f",
        "! " * 9 + "git push",
    )
    for command in ("git  push", "\tgit push -f", "true;git\tpush", *leading):
        assert Policy("yolo", {"Bash(git push)": "deny"}).rule("Bash", {"command": command}).choice == "deny"
    for spelled in ("git  push", "git\tpush", "git\n  push", "git\npush:*"):
        assert Policy("yolo", {f"Bash({spelled})": "deny"}).rule("Bash", {"command": "git push"}).choice == "deny"
    command = "A=1 " * 8 + "sudo ls"  # a word that only says how may be what a rule is about
    assert Policy("yolo", {"Bash(sudo)": "deny"}).rule("Bash", {"command": command}).choice == "deny"


@tool
def wipe() -> str:
    """Remove all notes."""
    return "gone"


@pytest.mark.parametrize("options", [{"policy": {"wipe": "deny"}}, {"policy": {"mcp__notes__wipe": "deny"}}])
async def test_a_bare_name_holds_for_the_tool_of_that_name(options: dict[str, Any]) -> None:
    cli = FakeCLI([tool_use("mcp__notes__wipe")], [text("Well.")])
    result = await run("Go.", tools=[Toolbox("notes", [wipe])], transport=cli, **options)
    assert [call.name for call in result.denied] == ["mcp__notes__wipe"]


async def test_a_bare_name_can_be_disabled_and_marked_safe() -> None:
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    cli = FakeCLI([tool_use("mcp__notes__wipe")], [text("Well.")])
    box = Toolbox("notes", [wipe])
    result = await run("Go.", tools=[box], safe=["wipe"], mode="normal", approve=approve, transport=cli)
    assert ([call.ok for call in result.tools], asked) == ([True], [])

    cli = FakeCLI([text("Well.")])
    async with start("Go.", tools=[box], policy={"wipe": "disable"}, transport=cli) as live:
        await live.result()
    (started,) = [event async for event in live if event.name == "lifecycle.started"]
    assert "mcp__notes__wipe" not in started.data["tools"]


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"policy": {"wip": "deny"}}, "policy"),
        ({"policy": {"mcp__note__*": "deny"}}, "policy"),
        ({"safe": ["wip"]}, "safe"),
        ({"safe": ["Bash(git status)"]}, "safe"),
        ({"safe": ["wipe"], "policy": {"wipe": "deny"}}, "policy"),
        ({"safe": ["wipe"], "policy": {"mcp__notes__w*": "defer"}}, "policy"),
        ({"safe": ["*"], "policy": {"*": "deny"}}, "policy"),
        ({"safe": ["Bash"], "policy": {"Bash(rm)": "ask"}}, "policy"),
        ({"native": ["Bsh"]}, "native[0]"),
        ({"native": ["Read"], "policy": {"Bash": "ask"}}, "policy"),
    ],
)
async def test_a_run_with_a_pattern_that_means_nothing_does_not_start(options: dict[str, Any], option: str) -> None:
    with pytest.raises(OptionError) as caught:
        await run("Go.", tools=[Toolbox("notes", [wipe])], transport=FakeCLI([text("x")], strict=False), **options)
    assert caught.value.option == option
    assert list_runs() == []


async def test_what_is_safe_is_an_exception_from_a_wider_rule() -> None:
    script = [tool_use("mcp__notes__wipe"), tool_use("Bash", command="ls")], [text("Well.")]
    cli = FakeCLI(*script, tools={"Bash": lambda arguments: "listed"})
    options: dict[str, Any] = {"safe": ["wipe"], "policy": {"*": "deny"}}
    result = await run("Go.", tools=[Toolbox("notes", [wipe])], transport=cli, **options)
    assert [call.name for call in result.denied] == ["Bash"]
    assert [call.name for call in result.tools if call.ok] == ["mcp__notes__wipe"]


async def test_a_deferred_call_does_not_run_and_is_the_callers_to_answer() -> None:
    cli = FakeCLI([tool_use("mcp__notes__wipe") | {"id": "toolu_1"}], strict=False)
    async with start("Go.", tools=[Toolbox("notes", [wipe])], policy={"wipe": "defer"}, transport=cli) as live:
        result = await live.result()
    assert (result.ok, result.code, result.denied) == (False, "pending", ())
    assert result.pending == (PendingCall("toolu_1", "mcp__notes__wipe", {}),)
    (ended,) = [event.data async for event in live if event.name == "tool.ended"]
    assert (ended["ok"], ended["deferred"], ended["interrupted"]) == (False, True, False)
    assert load_run(result.run).result().pending == result.pending


async def test_every_deferred_call_of_a_message_is_told() -> None:
    two = [tool_use("mcp__notes__wipe") | {"id": id} for id in ("toolu_1", "toolu_2")]
    result = await run(
        "Go.", tools=[Toolbox("notes", [wipe])], policy={"wipe": "defer"}, transport=FakeCLI(two, strict=False)
    )
    assert [call.id for call in result.pending] == ["toolu_1", "toolu_2"]


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
    assert (hook.on_failure, hook.timeout) == ("block", 7 * 24 * 3600.0)


@pytest.mark.parametrize(("code", "stays"), [("deadline", False), ("stopped", False), ("budget", True), ("auth", True)])
async def test_a_new_turn_is_free_of_what_only_the_last_one_had_to_do_without(code: Code, stays: bool) -> None:
    guard = Guard([], {})
    guard.stop(code)
    guard.stop("aborted")
    assert guard.stopped == code
    guard.begin_turn()
    assert guard.stopped == (code if stays else None)


@needs_jail
async def test_a_tool_of_the_cli_that_it_does_not_offer_is_told() -> None:
    with ScriptedAPI(otherwise=[text("done")], strict=False) as api:
        async with start("Go.", native=["Read", "WebFetch"], api_url=api.url, api_key="k") as live:
            assert (await live.result()).ok
    names = [event.name for event in load_run(live.id).events()]
    assert names.index("lifecycle.started") < names.index("lifecycle.warning")
    (warning,) = [event.data["what"] for event in load_run(live.id).events() if event.name == "lifecycle.warning"]
    assert warning == "native: the CLI does not offer WebFetch in this run"


@needs_jail
async def test_the_tool_for_subagents_has_one_name_however_it_is_called() -> None:
    helper = {"helper": {"description": "Helps.", "prompt": "Help."}}
    call = tool_use("Agent", description="help", prompt="Help.", subagent_type="helper")
    for policy in ({}, {"Task": "deny"}):
        with ScriptedAPI([call], otherwise=[text("done")], strict=False) as api:
            options: dict[str, Any] = {"native": ["Task"], "agents": helper, "policy": policy}
            result = await run("Go.", api_url=api.url, api_key="k", **options)
        assert [use.ok for use in result.tools if use.name == "Agent"] == [not policy]
        assert [use.name for use in result.denied] == (["Agent"] if policy else [])
