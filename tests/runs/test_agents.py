"""Subagents, thinking, plugins, folders and hooks: each reaches the CLI, and none of them gets past the guard."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import AgentDefinition, HookMatcher

from tests.runs.play import ADD, BOX
from toolkit.errors import RunError, ToolkitError
from toolkit.runs import Decision, OptionError, RunResult, RunSpec, list_runs, load_run, run
from toolkit.testing import FakeCLI, ScriptedAPI, Status, Turn, text, tool_use

pytestmark = pytest.mark.usefixtures("toolkit_home")


async def confined(api: ScriptedAPI, prompt: str = "Go.", **options: Any) -> RunResult[Any]:
    return await run(prompt, api_url=api.url, api_key="none", **options)


UNKNOWN = "A hook of this run answered something unknown"


def deny(reason: str) -> dict[str, Any]:
    decision = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": decision}


async def test_effort_thinking_and_betas_reach_the_model_api() -> None:
    with ScriptedAPI([text("1")], [text("2")]) as api:
        options: dict[str, Any] = {"effort": "low", "betas": ["context-1m-2025-08-07"]}
        assert (await confined(api, model="claude-opus-4-6", thinking="off", **options)).ok
        assert (await confined(api, model="claude-sonnet-4-5", thinking=2048)).ok
        first, second = api.requests
    assert (first["output_config"]["effort"], first["thinking"]["type"]) == ("low", "disabled")
    assert "context-1m-2025-08-07" in first.headers["anthropic-beta"]
    assert second["thinking"]["budget_tokens"] == 2048


async def test_every_beta_reaches_the_model_api_also_one_that_the_cli_does_not_know() -> None:
    betas = ["context-1m-2025-08-07", "no-such-beta-2020-01-01", "context-1m-2025-08-07", "another-beta"]
    with ScriptedAPI([text("1")]) as api:
        result = await confined(api, betas=betas)
        [request] = api.requests
    assert result.ok
    asked_for = request.headers["anthropic-beta"].split(",")
    assert [asked_for.count(beta) for beta in dict.fromkeys(betas)] == [1, 1, 1]
    assert [event for event in load_run(result.run).events() if event.name == "lifecycle.warning"] == []


async def test_betas_of_a_run_are_asked_for_beside_those_of_its_headers_and_its_credential() -> None:
    own: dict[str, Any] = {"oauth_token": "sk-ant-oat01-of-a-test", "api_headers": {"Anthropic-Beta": "of-a-gateway"}}
    with ScriptedAPI([text("1")]) as api:
        assert (await run("Go.", api_url=api.url, betas=["another-beta"], **own)).ok
        [request] = api.requests
    asked_for = request.headers["anthropic-beta"].split(",")
    assert {"oauth-2025-04-20", "of-a-gateway", "another-beta"} <= set(asked_for)


@pytest.mark.parametrize("beta", ["a\nb", "a b", "ä", "a,b", "A", "a_b", "", "-a", "a" * 65, 5])
def test_what_cannot_be_the_name_of_a_beta_is_refused(beta: Any) -> None:
    with pytest.raises(OptionError, match="the name of a beta is made of") as caught:
        RunSpec("Go.", betas=["context-1m-2025-08-07", beta])
    assert caught.value.option == "betas[1]"


def test_more_betas_than_a_request_takes_are_refused() -> None:
    with pytest.raises(OptionError, match="32 betas at most, and these are 33"):
        RunSpec("Go.", betas=[f"beta-{number}" for number in range(33)])


async def test_the_fallback_model_goes_on_when_there_is_no_room_for_the_first() -> None:
    overloaded = [Status(529, retry=True, headers={"retry-after": "0"})] * 3
    with ScriptedAPI(*overloaded, otherwise=[text("Done.")], strict=False) as api:
        result = await confined(api, model="claude-sonnet-4-5", fallback_model="claude-haiku-4-5")
        models = [request["model"] for request in api.requests]
    assert (result.code, result.text) == ("ok", "Done.")
    assert (models[0], models[-1]) == ("claude-sonnet-4-5", "claude-haiku-4-5")


async def test_a_subagent_of_the_run_is_asked_and_the_guard_judges_its_calls() -> None:
    ask = tool_use("Agent", description="d", prompt="What?", subagent_type="tester", run_in_background=False)
    with ScriptedAPI(
        [ask],
        Turn([tool_use("Bash", command="echo forbidden")], when=lambda request: request.prompt == "What?"),
        Turn([text("42")], when=lambda request: "You only test." in request.system_prompt),
        [text("It is 42.")],
    ) as api:
        agents = {"tester": AgentDefinition(description="Tests.", prompt="You only test.", tools=["Bash"])}
        result = await confined(api, agents=agents, policy={"Bash(echo)": "deny"})
        asked = [request for request in api.requests if "You only test." in request.system_prompt]
    assert (result.code, result.text) == ("ok", "It is 42.")
    assert [denied.name for denied in result.denied] == ["Bash"]
    assert set(asked[0].tools) == {"Bash"}


NOT_TAKEN = [
    *(("effort", value) for value in ("hihg", "", " high", "HIGH", 5, True)),
    *(("maxTurns", value) for value in (0, -1, 2**53, 2**70, True, 1.5)),
    *(("model", value) for value in ("", " ", "-p")),
    *((key, value) for key in ("tools", "disallowedTools") for value in ([5], [""], "Bash")),
    *(("description", value) for value in ("", " ")),
    ("background", 1),
    ("initialPrompt", 5),
]
GOOD = {"description": "GOODMARK", "prompt": "p"}


@pytest.mark.parametrize(("key", "value"), NOT_TAKEN)
def test_a_subagent_for_which_the_cli_would_drop_all_of_them_is_refused(key: str, value: Any) -> None:
    with pytest.raises(OptionError) as caught:
        RunSpec("Go.", agents={"bad": {"description": "d", "prompt": "p", key: value}, "good": GOOD})
    assert caught.value.option.startswith("agents['bad']")
    assert key in caught.value.what


async def test_whatever_a_subagent_may_have_the_cli_takes_it() -> None:
    every = {"tools": ["Read"], "disallowedTools": [], "model": "any model", "maxTurns": 2**53 - 1}
    every |= {"background": False, "initialPrompt": "", "effort": "max"}
    agents = {"a b": {"description": "BADMARK", "prompt": "p", **every}, "good": GOOD}
    with ScriptedAPI([text("ok")]) as api:
        assert (await confined(api, agents=agents)).ok
        [request] = api.requests
    assert (request.contains("BADMARK"), request.contains("GOODMARK")) == (True, True)


async def test_a_further_folder_can_be_read_and_not_written(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text("the plum", encoding="utf-8")
    with ScriptedAPI(
        [tool_use("Read", file_path=str(folder / "a.txt"))],
        [tool_use("Write", file_path=str(folder / "b.txt"), content="x")],
        [tool_use("Bash", command=f"echo x > {folder}/c.txt")],
        [text("done")],
    ) as api:
        result = await confined(api, folders=[folder])
        read, *_ = api.tool_results()
    assert "the plum" in str(read)
    assert [call.ok for call in result.tools] == [True, False, False]
    assert [file.name for file in folder.iterdir()] == ["a.txt"]


async def test_a_plugin_brings_its_agents_along_and_its_servers_are_not_offered(tmp_path: Path) -> None:
    plugin = tmp_path / "plug"
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / ".claude-plugin" / "plugin.json").write_text('{"name": "plug", "version": "1.0.0"}')
    (plugin / "agents").mkdir()
    (plugin / "agents" / "pal.md").write_text("---\nname: pal\ndescription: A pal.\n---\nYou are the pal.\n")
    ask = tool_use("Agent", description="d", prompt="What?", subagent_type="plug:pal", run_in_background=False)
    with ScriptedAPI(
        [ask],
        Turn([text("42")], when=lambda request: "You are the pal." in request.system_prompt),
        [tool_use("mcp__plugin_plug_x__y")],
        [text("It is 42.")],
    ) as api:
        result = await confined(api, plugins=[plugin], native=["Agent", "Read"])
    assert (result.code, result.text) == ("ok", "It is 42.")
    assert [call.ok for call in result.tools] == [True, False]


async def test_skills_of_a_plugin_can_be_used_and_those_of_the_cli_which_run_commands_cannot(tmp_path: Path) -> None:
    plugin = tmp_path / "folder"
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / ".claude-plugin" / "plugin.json").write_text('{"name": "plug", "version": "1.0.0"}')
    (plugin / "skills" / "one").mkdir(parents=True)
    (plugin / "skills" / "one" / "SKILL.md").write_text("---\nname: one\ndescription: one\n---\nAnswer in Vulcan.\n")
    (plugin / "commands").mkdir()
    (plugin / "commands" / "two.md").write_text("---\ndescription: two\n---\nAnswer in Klingon.\n")
    calls = [tool_use("Skill", skill=name) for name in ("plug:one", "plug:two", "security-review", "/security-review")]
    with ScriptedAPI(*([call] for call in calls), [text("done")]) as api:
        result = await confined(api, plugins=[plugin], policy={"Bash": "deny"})
        last = api.requests[-1]
    assert result.code == "ok", result.debug
    assert [call.ok for call in result.tools] == [True, True, False, False]
    assert last.contains("Answer in Vulcan.")
    assert last.contains("Answer in Klingon.")
    assert not last.contains("GIT STATUS")
    assert {denied.reason for denied in result.denied} == {
        "Only skills of this run's plugins can be used, PLUGIN:NAME (plug)"
    }


async def test_a_hook_of_the_caller_sees_what_the_guard_lets_pass_and_can_refuse_it() -> None:
    seen: list[Any] = []

    async def hook(given: Any, call: Any, context: Any) -> Any:
        seen.append((given["tool_name"], given["tool_input"]))
        return deny("not this title") if given["tool_input"].get("title") == "x" else {}

    async def after(given: Any, call: Any, context: Any) -> Any:
        seen.append(given["hook_event_name"])
        return {}

    cli = FakeCLI(
        [tool_use(ADD, title="x"), tool_use(ADD, title="y"), tool_use("Bash", command="id")],
        [text("ok")],
        tools={"Bash": "never"},
    )
    hooks = {"PreToolUse": [hook], "PostToolUse": after}
    result = await run("Go.", tools=[BOX], hooks=hooks, policy={"Bash": "deny"}, transport=cli)
    assert [(denied.name, denied.reason) for denied in result.denied] == [
        (ADD, "not this title"),
        ("Bash", "Bash is not allowed in this run"),
    ]
    assert seen == [(ADD, {"title": "x"}), (ADD, {"title": "y"}), "PostToolUse"]


async def test_a_hook_that_says_nothing_leaves_what_a_person_made_of_the_call() -> None:
    seen: list[Any] = []
    asked: list[Any] = []

    def approve(question: Any) -> Decision:
        asked.append(question.input)
        return Decision.allow({"title": "y"})

    async def hook(given: Any, call: Any, context: Any) -> Any:
        seen.append(given["tool_input"])
        return {}

    with FakeCLI([tool_use(ADD, title="x")], [text("ok")]) as cli:
        options: dict[str, Any] = {"hooks": {"PreToolUse": [hook]}, "policy": {"add": "ask"}}
        await run("Go.", tools=[BOX], approve=approve, transport=cli, **options)
        assert "y" in str(cli.tool_results())
    assert (asked, seen) == ([{"title": "x"}], [{"title": "y"}])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ZeroDivisionError(), "A hook of this run failed: ZeroDivisionError"),
        ("yes", "A hook of this run gave no answer that can be read"),
        ({"hookSpecificOutput": {"permissionDecision": "alow"}}, "A hook of this run refused it"),
        ({"decision": "block", "reason": "no"}, "no"),
        ({"permissionDecision": "deny"}, f"{UNKNOWN}: permissionDecision"),
        ({"hookSpecificOutput": {"permissionDecison": "deny"}}, f"{UNKNOWN}: permissionDecison"),
        ({"decison": "block"}, f"{UNKNOWN}: decison"),
        ({"behavior": "deny"}, f"{UNKNOWN}: behavior"),
        ({"hookSpecificOutput": []}, f"{UNKNOWN}: hookSpecificOutput"),
        ({"hookSpecificOutput": {"hookEventName": "PostToolUse"}}, f"{UNKNOWN}: hookEventName"),
        ({"hookSpecificOutput": {"updatedInput": "x"}}, f"{UNKNOWN}: updatedInput"),
        ({"continue": "no"}, f"{UNKNOWN}: continue"),
        ({"async_": True}, f"{UNKNOWN}: async_"),
    ],
)
async def test_a_hook_that_fails_or_says_something_unknown_has_refused(answer: Any, reason: str) -> None:
    async def hook(given: Any, call: Any, context: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    cli = FakeCLI([tool_use(ADD, title="x")], [text("ok")])
    result = await run(
        "Go.", tools=[BOX], hooks={"PreToolUse": [HookMatcher(matcher=ADD, hooks=[hook])]}, transport=cli
    )
    assert [denied.reason for denied in result.denied] == [reason]


async def test_a_hook_cannot_change_a_call_into_one_that_the_guard_refuses() -> None:
    async def hook(given: Any, call: Any, context: Any) -> Any:
        changed = {"permissionDecision": "allow", "updatedInput": {"command": "git push"}}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **changed}}

    ran: list[Any] = []
    cli = FakeCLI([tool_use("Bash", command="git status")], [text("ok")], tools={"Bash": ran.append})
    result = await run("Go.", hooks={"PreToolUse": hook}, policy={"Bash(git push)": "deny"}, transport=cli)
    assert ([denied.name for denied in result.denied], ran) == (["Bash"], [])


async def test_a_hook_of_the_caller_is_asked_in_the_jail_too_and_a_stop_ends_the_run() -> None:
    async def hook(given: Any, call: Any, context: Any) -> Any:
        return {"continue_": False, **deny("enough")}

    with ScriptedAPI([tool_use("Bash", command="echo hi > made")]) as api:
        result = await confined(api, hooks={"PreToolUse": [hook]})
    assert (result.code, [denied.reason for denied in result.denied]) == ("stopped", ["enough"])


def test_options_that_do_not_go_together_are_refused() -> None:
    agents = {"a": {"description": "d", "prompt": "p"}}
    with pytest.raises(RunError, match="subagents need the CLI's tool Agent"):
        RunSpec("Go.", agents=agents, native=["Read"])
    with pytest.raises(RunError, match="the fallback model is the model itself"):
        RunSpec("Go.", model="m", fallback_model="m")


async def no_hook(given: Any, call: Any, context: Any) -> Any:
    return {}


def subagent(**more: Any) -> dict[str, Any]:
    return {"agents": {"h": {"description": "Helps.", "prompt": "You help.", **more}}}


def hooked(matcher: str, event: str = "PreToolUse") -> dict[str, Any]:
    return {"hooks": {event: [HookMatcher(matcher=matcher, hooks=[no_hook])]}}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (hooked("Bsah"), r"hooks\['PreToolUse'\]: no tool of this run is called 'Bsah'; did you mean 'Bash'"),
        (hooked("bash"), "called 'bash'; did you mean 'Bash'"),
        (hooked("Write|Eidt", "PostToolUse"), "called 'Eidt'; did you mean 'Edit'"),
        (hooked("^Bsah$"), "called '.Bsah.'"),
        (hooked("("), r"the matcher '\(' cannot be read"),
        (hooked("mcp__notes__ad"), "did you mean 'mcp__notes__add'"),
        (subagent(disallowedTools=["Bsah"]), r"agents\['h'\]\['disallowedTools'\]: .* 'Bsah'; did you mean 'Bash'"),
        (subagent(tools=["Raed"]), "called 'Raed'; did you mean 'Read'"),
        ({"settings": {"permissions": {"deny": ["Bsah"]}}}, "permissions.deny: the CLI has no tool 'Bsah'"),
        ({"settings": {"permissions": {"deny": ["Raed(./x)"]}}}, "no tool 'Raed'; did you mean 'Read'"),
        ({"settings": {"permissions": {"deny": ["mcp__notes__ad"]}}}, "did you mean 'mcp__notes__add'"),
    ],
)
async def test_the_name_of_a_tool_that_there_is_not_is_refused_before_anything_starts(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ToolkitError, match=says):
        await run("Go.", tools=[BOX], transport=FakeCLI([text("ok")]), **options)
    assert list_runs() == []


@pytest.mark.parametrize(
    "options",
    [
        hooked("Write|WebFetch"),
        hooked("mcp__notes__.*"),
        hooked("*"),
        hooked("mcp__far__.*", "PostToolUse") | {"servers": {"far": {"command": "x", "optional": True}}},
        hooked("startup", "Notification"),
        subagent(tools=["Bash(git log:*)", "mcp__notes__add", "mcp__notes"], disallowedTools=["WebFetch"]),
        {"settings": {"permissions": {"deny": ["Read(./x)", "WebFetch", "mcp__notes__*"]}}},
    ],
)
async def test_the_name_of_a_tool_that_there_is_may_be_written_in_every_way(options: dict[str, Any]) -> None:
    assert (await run("Go.", tools=[BOX], transport=FakeCLI([text("ok")]), **options)).ok


def test_a_plugin_whose_manifest_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / ".claude-plugin").mkdir()
    os.mkfifo(tmp_path / ".claude-plugin/plugin.json")
    with pytest.raises(OptionError, match=r"its plugin\.json cannot be read: it is not a file"):
        RunSpec("go", plugins=[tmp_path])


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("hooks/hooks.json", '{"hooks": {}}'),
        (".mcp.json", "{}"),
        (".lsp.json", "{}"),
        ("settings.json", "{}"),
        (".claude-plugin/plugin.json", '{"name": "plug", "hooks": {"PreToolUse": []}}'),
        (".claude-plugin/plugin.json", '{"name": "plug", "lspServers": {}}'),
        (".claude-plugin/plugin.json", '{"name": "plug", "agents": "./elsewhere"}'),
        (".claude-plugin/plugin.json", "no json"),
        (".claude-plugin/plugin.json", "[" * 5_000),
        ("agents/pal.md", "---\nname: pal\nhooks:\n  PreToolUse: []\n---\nYou are the pal.\n"),
        ("skills/one/SKILL.md", "---\nname: one\nmcpServers: {}\n---\nDo it.\n"),
        ("agents/pal.md", "---\nname: pal\nskills: security-review\n---\nYou are the pal.\n"),
        ("agents/pal.md", "\ufeff---\nname: pal\nhooks: {}\n---\nYou are the pal.\n"),
        ("agents/pal.md", "---\n{name: pal, hooks: {}}\n---\nYou are the pal.\n"),
        ("agents/pal.md", '---\nname: pal\n"h\\u006foks": {}\n---\nYou are the pal.\n'),
        ("skills/one/SKILL.md", "---\nname: one\n---\nThe state: !`git status`\n"),
        ("commands/one.MD", "Do it.\n```!\ngit status\n```\n"),
    ],
)
def test_a_plugin_that_would_run_something_beside_the_guard_is_refused(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / ".claude-plugin").mkdir()
    (tmp_path / ".claude-plugin/plugin.json").write_text('{"name": "plug"}')
    (tmp_path / "README.md").write_text("A plugin.")
    RunSpec("go", plugins=[tmp_path])
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    with pytest.raises(OptionError) as caught:
        RunSpec("go", plugins=[tmp_path])
    assert caught.value.option.startswith("plugins")


@pytest.mark.parametrize("variable", ["LD_PRELOAD", "CLAUDE_ENV_FILE", "BASH_ENV", "ANTHROPIC_BASE_URL"])
def test_a_server_has_no_variable_that_acts_on_what_starts_it(variable: str) -> None:
    with pytest.raises(OptionError, match=variable):
        RunSpec("go", servers={"db": {"command": "db", "env": {variable: "x"}}})
    RunSpec("go", servers={"db": {"command": "db", "env": {"PATH": "/opt/db/bin", "TOKEN": "x"}}})
