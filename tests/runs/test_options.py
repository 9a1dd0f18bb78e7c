"""Every option of a run has a rule, and each mistake is said in words before anything starts."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from toolkit import Conversation, Limits, Prompt, RunSpec, Toolbox, ToolkitError, run, run_many, start, tool
from toolkit.runs import FileSessionStore, OptionError, list_runs
from toolkit.runs.fields import RULES
from toolkit.testing import FakeCLI, Turn, text, tool_use
from toolkit.workspace import HostMount


@tool
def find(word: str) -> str:
    """Find a word."""
    return word


def function(word: str) -> str:
    return word


@dataclasses.dataclass
class Answer:
    number: int


BOX = Toolbox("notes", [find])


def test_every_field_of_a_spec_has_a_rule_and_no_rule_is_without_a_field() -> None:
    assert set(RULES) == {field.name for field in dataclasses.fields(RunSpec)}


def test_a_field_without_a_rule_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, "trace")
    with pytest.raises(KeyError, match="trace"):
        RunSpec("Go.")


WRONG: list[tuple[str, Any, str]] = [
    ("prompt", None, "prompt=None: it is a text, a Prompt, a list"),
    ("prompt", 123, "prompt=123: it is a text, a Prompt, a list"),
    ("prompt", " ", "the prompt is empty"),
    ("prompt", Path("prompt.md"), "Read the file"),
    ("verify", 5, "it is a command, a function that takes the workspace, or a tool"),
    ("verify", {"comand": "pytest"}, "it has no 'comand'; did you mean 'command'"),
    ("protect", "tests", r"it is a list"),
    ("protect", ["tests"], "without a mount the agent begins with an empty folder"),
    ("retry", "often", r"it is Retry\(…\), or how often"),
    ("retry", 0, "retry times=0: it is a whole number above zero"),
    ("retry", {"on": ["throtled"]}, "there is no such code; did you mean 'throttled'"),
    ("retry", {"on": ["deadline"]}, "retry on='deadline': trying again does not mend it"),
    ("workspace", 5, "it is a copy or a folder in place, and does not say which"),
    (
        "workspace",
        "src",
        r"WorkspaceSection\(\[HostMount\('src'\)\], allowed_host_roots=\['src'\]\)\. .* InPlace\('src'\)",
    ),
    ("workspace", Path("src"), r"InPlace\('src'\)"),
    ("workspace", HostMount("src"), r"WorkspaceSection\(\[mount\], allowed_host_roots"),
    ("workspace", [HostMount("src")], r"WorkspaceSection\(mounts, allowed_host_roots"),
    ("setup", 5, r"setup=5: it is a command, or Setup\(…\)"),
    ("setup", " ", "setup=' ': it is a command, as a text"),
    ("setup", {"cmd": "npm ci"}, "a setup has no 'cmd'; did you mean 'command'"),
    ("setup", "npm ci", "a setup runs in the jail, and a transport has none"),
    ("tools", BOX, r"Write tools=\[box\]"),
    ("tools", find, r"Write tools=\[find\]"),
    ("tools", [function], "'function' is a function, but not a tool\n  Put @tool above it"),
    ("tools", "tools.py", r"Write tools=\['tools.py'\]"),
    ("tools", [5], "it is a Toolbox, a tool, or a TARGET"),
    ("tools", None, "Leave it out"),
    ("limits", 3, r"limits=3: it is Limits\(…\)"),
    ("limits", None, r"limits=None: it is Limits\(…\)"),
    ("limits", {"secs": 3}, "there is no limit 'secs'; did you mean 'seconds'"),
    ("limits", {"seconds": "3"}, "a limit is a number above zero"),
    ("limits", Limits(memory_bytes=5), "not a whole number of bytes"),
    ("output", "list", "it is a type, or a JSON Schema"),
    ("output", 5, "this type has no JSON Schema"),
    ("output", Answer(1), "Write: output=Answer"),
    ("output", function, "it is a type, or a JSON Schema"),
    ("output", {"type": object}, "it is no JSON Schema"),
    ("output", {"type": "objct"}, "it is no JSON Schema: type: 'objct' is not valid"),
    ("output", {"type": "object", "required": "a"}, "it is no JSON Schema: required: 'a' is not of type 'array'"),
    ("output", {"$schema": ["x"]}, "it is no JSON Schema"),
    ("output", {"$schema": 5, "type": "object"}, r"it is no JSON Schema: \$schema: 5 names no draft"),
    ("output", Annotated[int, Field(gt=0.5)], "'gt' must be coercible to an integer"),
    ("model", 5, "model=5: it is the name of a model, as a text"),
    ("model", "", "it is the name of a model"),
    ("system", ["Be kind."], "it is what is added to the system prompt"),
    ("agents", ["a"], "it is a mapping of names to subagents"),
    ("agents", {"a": {"prompt": "p"}}, "a subagent has a 'description', as a text"),
    (
        "agents",
        {"a": {"description": "d", "prompt": "p", "mcpServers": []}},
        "a subagent has no 'mcpServers' of its own",
    ),
    ("agents", {"a": {"description": "d", "prompt": "p", "permissionMode": "plan"}}, "The run's mode holds"),
    ("agents", {"a": {"description": "d", "prompt": "p", "tool": []}}, "no 'tool'; did you mean 'tools'"),
    ("agents", {"a": {"description": "d", "prompt": "p", "maxTurns": "3"}}, "'maxTurns'.='3': it is a whole number"),
    ("agents", {"-a": {"description": "d", "prompt": "p"}}, "takes no subagent of the name '-a'"),
    ("agents", {"__proto__": {"description": "d", "prompt": "p"}}, "takes no subagent of the name '__proto__'"),
    ("thinking", 5, 'it is "adaptive", "off", or a number of tokens from 1024 on'),
    ("thinking", 10**400, 'it is "adaptive", "off"'),
    ("thinking", True, 'it is "adaptive", "off"'),
    ("effort", "higher", "there is no such effort; did you mean 'high'"),
    ("fallback_model", 5, "it is the name of a model"),
    ("betas", "context-1m", r"Write betas=\['context-1m'\]"),
    ("plugins", ["/proc/nowhere"], "there is no such folder"),
    ("folders", [5], "it is a folder"),
    ("hooks", [print], "it is a mapping of events to lists of functions"),
    ("hooks", {"PreTool": []}, "there is no event 'PreTool'; did you mean 'PreToolUse'"),
    ("hooks", {"PermissionRequest": []}, "who answers questions is said by approve="),
    ("hooks", {"PreToolUse": [print]}, "a hook is an async function"),
    ("native", "Read", r"Write native=\['Read'\]"),
    ("native", ["Bsh"], "there is no such tool of the CLI; did you mean 'Bash'"),
    ("servers", [{"command": "x"}], "it is a mapping of names to configurations"),
    ("servers", {"x": BOX}, r"tools=\[box\]"),
    ("servers", {"x": "my-server"}, "a server's configuration is a mapping"),
    ("servers", {"x": {"type": "htp"}}, "there is no server type 'htp'; did you mean 'http'"),
    ("servers", {"x": {"type": "http"}}, "a server of type http has a 'url'"),
    ("servers", {"x": {"args": []}}, "a server of type stdio has a 'command'"),
    ("servers", {5: {"command": "x"}}, "5 is no name for a server"),
    ("servers", {"my notes": {"command": "x"}}, "'my notes' is no name for a server"),
    ("servers", {"x": {"command": "x", "args": "--stdio"}}, "'args' is a list of texts"),
    ("servers", {"x": {"command": "x", "env": {"A": 1}}}, "'env' is a mapping of texts to texts"),
    ("servers", {"x": {"type": "http", "url": "http://x", "headers": ["A"]}}, "'headers' is a mapping of texts"),
    ("servers", {"x": {"command": "x", "optinal": True}}, "has no 'optinal'; did you mean 'optional'"),
    ("servers", {"x": {"command": "x", "arg": ["y"]}}, "a server of type stdio has no 'arg'; did you mean 'args'"),
    ("servers", {"x": {"type": "http", "url": "http://x", "args": []}}, "a server of type http has no 'args'"),
    ("servers", {"x": {"url": "http://x"}}, 'has no \'url\'.*\n  Write "type": "http" beside it'),
    ("servers", {"x": {"type": "http", "url": "ftp://x"}}, "does not begin with http:// or https:// and a host"),
    ("servers", {"x": {"type": "sse", "url": "https:///mcp"}}, "does not begin with http:// or https:// and a host"),
    ("servers", {"x": {"type": ["http"]}}, "there is no server type"),
    ("allow_servers", "web", r"Write allow_servers=\['web'\]"),
    ("profile", "offlin", "there is no such profile; did you mean 'offline'"),
    ("profile", "of fline", "there is no such profile"),
    ("domains", "a.example.org", r"Write domains=\['a.example.org'\]"),
    ("domains", [5], r"domains\[0\]=5: it is a host name"),
    ("readable", "/opt", r"Write readable=\['/opt'\]"),
    ("readable", [5], "it is a path"),
    ("toolchain", "yes", "True or False"),
    ("require", ["memry"], "there is no such limit; did you mean 'memory'"),
    ("allow_control_files", [".git/hook"], "there is no such control file; did you mean '.git/hooks'"),
    ("settings", "settings.json", "Read the file: SandboxSettings.load"),
    ("settings", 5, "it is SandboxSettings"),
    ("settings", {"sandbox": {"enabld": True}}, "Did you mean 'sandbox.enabled'"),
    ("settings", {"sandbox": {"enabled": False}}, "settings key 'sandbox.enabled' cannot be set beside a profile"),
    ("settings", {"sandbox": {"excludedCommands": ["docker"]}}, "'sandbox.excludedCommands' cannot be set"),
    ("env", {"A": 1}, "env\\['A'\\]=1: the value of a variable is a text\n  Write \"1\""),
    ("env", {"A": True}, "the value of a variable is a text"),
    ("env", {"A=": "x"}, "'A=' cannot be the name of a variable"),
    ("env", {"A": "x\0y"}, "holds no NUL"),
    ("env", "A=1", "it is a mapping of variables to texts"),
    ("api_url", 5, "it is the base URL of the model API"),
    ("api_url", "nope", "the API base URL 'nope' is no http"),
    ("api_key", "", "api_key is empty\n  Leave it out"),
    ("api_key", 5, "api_key is a text, not a int"),
    ("api_key", "one two", "does not hold one key"),
    ("api_key", "key\n", "does not hold one key"),
    ("auth_token", "", "auth_token is empty"),
    ("oauth_token", 5, "oauth_token is a text, not a int"),
    ("api_headers", "x-team: blue", "api_headers is a mapping of names to texts"),
    ("api_headers", {"x team": "blue"}, "is no header name"),
    ("api_key_file", 5, "it is a path"),
    ("cli_path", ["claude"], "it is a path"),
    ("mode", "plann", "there is no such mode; did you mean 'plan'"),
    ("mode", None, "there is no such mode"),
    ("policy", "ask", "it is a mapping of patterns to policies"),
    ("policy", {"Bash": True}, "it is a policy"),
    ("policy", {"Bash": "alow"}, "there is no 'alow'; did you mean 'allow'"),
    ("safe", "Bash", r"Write safe=\['Bash'\]"),
    ("approve", "yes", 'it is a function that answers a Question, or "wait"'),
    ("approve", True, 'it is a function that answers a Question, or "wait"'),
    ("approve", lambda: True, "it has to take one argument, the Question"),
    ("approval_timeout", 0, "it is a number above zero"),
    ("approval_timeout", "5", "it is a number above zero"),
    ("approval_timeout", True, "it is a number above zero"),
    ("approval_timeout", float("nan"), "it is a number above zero"),
    ("resume", "run-1", "it is no session id\n  Take it from a result"),
    ("resume", 5, "it is no session id"),
    ("fork", "yes", "it is True or False"),
    ("at", 5, "it is the id of a message"),
    ("store", "folder", "it is a store of sessions"),
    ("store", FileSessionStore, "an object, not a class"),
    ("trace", 5, "it is an id of yours"),
    ("telemetry", True, "it is a Telemetry"),
    ("branch", "a..b", "git takes no such name for a branch"),
    ("branch", "agent/x", "it is made of what an agent changed in a copy, and there is none"),
    ("before_run", "Hello.", "it is a function that takes the spec"),
    ("before_run", lambda: "Hello.", "it has to take one argument, the spec"),
    ("after_run", "done", "it is a function that takes the result"),
    ("listener_timeout", None, "it is a number above zero"),
    ("run_id", "last", "it cannot be the id of a run"),
    ("run_id", "../x", "it cannot be the id of a run"),
    ("run_id", 5, "it cannot be the id of a run"),
    ("home", 5, "it is a path"),
    ("pace", 2.0, "without admit"),
    ("books", 2.0, "without leaves"),
    ("transport", FakeCLI, "an object, not a class"),
    ("transport", "fake", "without connect, write, read_messages"),
]


@pytest.mark.parametrize(("option", "value", "says"), WRONG)
async def test_an_option_that_cannot_be_is_refused_in_words_and_leaves_nothing(
    option: str, value: Any, says: str
) -> None:
    options = {"prompt": "Go.", "transport": FakeCLI(text("Hi.")), option: value}
    with pytest.raises(ToolkitError, match=says) as caught:
        await run(options.pop("prompt"), **options)
    assert not isinstance(caught.value, OptionError) or caught.value.option.startswith(option)
    assert list_runs() == []


def test_every_option_has_a_mistake_here() -> None:
    assert {row[0] for row in WRONG} == set(RULES)


def test_a_key_is_shown_in_no_error() -> None:
    for key in ("secret word", "secret\n", ["secret"]):
        with pytest.raises(OptionError) as caught:
            RunSpec("Go.", api_key=key)  # type: ignore[arg-type]
        assert "secret" not in str(caught.value)
    with pytest.raises(OptionError) as caught:
        RunSpec("Go.", servers={"x": {"type": "http", "headers": {"Authorization": "secret"}}})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("deadline", 3, "limits=Limits(seconds=3)"),
        ("timeout", 3, "limits=Limits(seconds=3)"),
        ("max_turns", 3, "limits=Limits(turns=3)"),
        ("max_usd", 0.5, "limits=Limits(usd=0.5)"),
        ("memory_bytes", 5, "limits=Limits(memory_bytes=5)"),
        ("system_prompt", "Be kind.", "system='Be kind.'"),
        ("permission_mode", "plan", "mode='plan'"),
        ("mounts", [], "workspace=WorkspaceSection(mounts, allowed_host_roots=[…])"),
        ("disallowed_tools", ["Bash"], 'policy={"Bash": "disable"}'),
        ("cwd", "src", "workspace=WorkspaceSection([HostMount('src')], allowed_host_roots=['src'])"),
        ("add_dirs", ["/opt"], "folders=['/opt']"),
        ("fork_session", True, "fork=True"),
        ("in_place", ".", "workspace=InPlace('.')"),
        ("prompt_file", "p.md", "Path('p.md').read_text() as the prompt"),
        ("continue_conversation", True, "resume=result.session"),
        ("moddel", "x", "'model'"),
    ],
)
def test_an_option_by_another_name_is_answered_with_its_own(name: str, value: Any, meant: str) -> None:
    for begin in (lambda **options: start("Go.", **options), Conversation, lambda **options: RunSpec("Go.", **options)):
        with pytest.raises(OptionError) as caught:
            begin(**{name: value})
        assert str(caught.value) == f"a run has no option '{name}'; did you mean {meant}?"


def test_domains_alone_choose_the_profile_that_reaches_them() -> None:
    spec = RunSpec("Go.", domains=["docs.example.com"])
    assert (spec.profile, spec.jail_profile) == (None, "allowlist")
    assert RunSpec("Go.").jail_profile == "offline"
    with pytest.raises(ToolkitError, match="profile 'offline' reaches no domains"):
        RunSpec("Go.", profile="offline", domains=["docs.example.com"])


async def test_a_tool_without_a_box_just_works() -> None:
    cli = FakeCLI(Turn([tool_use("mcp__tools__find", word="x")]), text("Done."))
    result = await run("Go.", tools=[find], transport=cli)
    assert [(call.name, call.ok) for call in result.tools] == [("mcp__tools__find", True)]


def test_tools_without_a_box_stand_together_where_the_first_of_them_stood() -> None:
    @tool
    def other(word: str) -> str:
        """Do something else."""
        return word

    spec = RunSpec("Go.", tools=["one.py", find, BOX, other, Path("two.py")])
    assert [box.name if isinstance(box, Toolbox) else box for box in spec.tools] == [
        "one.py",
        "tools",
        "notes",
        "two.py",
    ]
    with pytest.raises(ToolkitError, match="two servers are called 'tools'"):
        RunSpec("Go.", tools=[find, Toolbox("tools", [other])])


def test_limits_may_be_a_mapping() -> None:
    assert RunSpec("Go.", limits={"seconds": 3}).limits == Limits(seconds=3)  # type: ignore[arg-type]


def test_a_spec_does_not_change_with_the_list_it_was_made_of() -> None:
    domains = ["a.example.org"]
    spec = RunSpec("Go.", domains=domains, profile="allowlist")
    domains.append("evil.example")
    assert spec.domains == ("a.example.org",)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"profile": "offline", "domains": ["a.example.org"]}, "profile 'offline' reaches no domains"),
        ({"profile": "allowlist"}, "profile 'allowlist' names no domain"),
        ({"profile": "allowlist", "domains": ["https://a.example.org"]}, "a.example.org"),
    ],
)
def test_what_the_jail_would_refuse_is_refused_before_anything_is_copied(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ToolkitError, match=says):
        RunSpec("Go.", **options)


@pytest.mark.parametrize("prompt", [Prompt("Do it."), Prompt(["Do it."])])
def test_one_text_is_a_prompt_of_one_section(prompt: Prompt) -> None:
    assert prompt.render() == "Do it."


@pytest.mark.parametrize("sections", [None, 5, [5], [None], [""], []])
def test_a_prompt_is_made_of_texts_and_sections(sections: Any) -> None:
    with pytest.raises(OptionError, match="Say what to do"):
        Prompt(sections)


@pytest.mark.parametrize("specs", ["one prompt", None, 5, Prompt("one"), RunSpec("one"), {"one": 1}])
async def test_one_prompt_is_not_many(specs: Any) -> None:
    with pytest.raises(OptionError, match=r"Write run_many\(\[first, second\]\), or run\(…\) for one"):
        await run_many(specs)
    assert list_runs() == []


@pytest.mark.parametrize(
    ("option", "value"),
    [("concurrency", "4"), ("on_result", 5), ("on_result", lambda: 1), ("executor", 5), ("usd", "2")],
)
async def test_an_option_of_many_runs_that_cannot_be_is_refused(option: str, value: Any) -> None:
    with pytest.raises(ToolkitError, match=option):
        await run_many(["Go."], **{option: value})
    assert list_runs() == []


async def test_a_wrong_spec_among_many_is_a_result_like_any_other() -> None:
    (result,) = await run_many([123])  # type: ignore[list-item]
    assert (result.code, "prompt=123: it is a text" in result.debug["detail"]) == ("bad_request", True)


@pytest.mark.parametrize("prompt", [None, 123, " "])
async def test_a_next_prompt_is_a_text_too(prompt: Any) -> None:
    async with start("Go.", transport=FakeCLI(text("Hi."))) as live:
        await live.result()
        with pytest.raises(OptionError, match=r"live\.send"):
            await live.send(prompt)
