"""What an agent can be given beside its prompt and tools: subagents, thinking, plugins, hooks, further folders.

One rule for each, and the same as the SDK takes it. A subagent has no more than its run: the
guard judges its calls, it runs in the same jail, and it brings no servers and no mode of its own.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit._base.words import did_you_mean
from toolkit.runs.asking.own_hooks import HOOK_EVENTS, TOOL_EVENTS
from toolkit.runs.asking.patterns import Offer, names_in
from toolkit.runs.kinds import (
    MOST,
    OptionError,
    Rule,
    argument,
    flag,
    list_of,
    mapping_of,
    number,
    one_of,
    optional,
    text,
    wrong,
)

if TYPE_CHECKING:
    from toolkit.runs.spec import RunSpec

EFFORTS = ("low", "medium", "high", "xhigh", "max")
LEAST_THINKING = 1024
_MOST_ROUNDS = 2**53 - 1
"""The largest whole number that the CLI takes."""
_RUNS_OWN = {
    "mcpServers": "Give them to the run: servers={…} or tools=[…]",
    "permissionMode": "The run's mode holds for its subagents, too: mode=…",
    "memory": "Nothing outlives the jail",
    "skills": "Give them in a plugin: plugins=[folder]",
}
_BETA = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
"""What a header takes. Whether there is such a beta is the model API's to say."""
_MOST_BETAS = 32
_KNOWN_BETAS = ("context-1m-2025-08-07",)
"""Those that the CLI has to know of, and takes as an option; it drops all that are given with another one."""
_AGENT_EXAMPLE = 'Write for example: agents={"tester": {"description": "Runs the tests.", "prompt": "You run tests."}}'
_HOOK_EXAMPLE = 'Write for example: hooks={"PostToolUse": [function]}'

_PLUGIN_FOLDERS = ("agents", "commands", "skills", "output-styles")
_PLUGIN_KEYS = (
    *("$schema", "name", "version", "description", "author", "homepage", "repository", "license", "keywords"),
)
"""What a plugin's manifest may say: nothing of it starts anything."""


_STARTING = frozenset({"hooks", "mcpServers", "lspServers", "skills"})
"""Keys in the head of a page: what they name runs beside the guard. A skill may be one of the CLI's, with commands."""


def check_agents(name: str, value: Any) -> dict[str, dict[str, Any]]:
    """Subagents by name."""
    found: dict[str, dict[str, Any]] = mapping_of(_check_agent, "a mapping of names to subagents")(name, value)
    for agent in found:
        if agent.startswith("-") or agent == "__proto__" or not agent.isprintable() or agent != agent.strip():
            fix = "Use letters, digits and '-', beginning with a letter"
            raise OptionError(name, f"{name}: the CLI takes no subagent of the name {agent!r}", fix=fix)
    return found


def _check_agent(name: str, value: Any) -> dict[str, Any]:
    """A subagent, as a mapping or an `AgentDefinition` of the SDK's."""
    if not isinstance(value, Mapping):
        value = {key: kept for key, kept in getattr(value, "__dict__", {}).items() if kept is not None}
    for needed in ("description", "prompt"):
        if not isinstance(value.get(needed), str) or not value[needed].strip():
            raise OptionError(name, f"{name}: a subagent has a '{needed}', as a text", fix=_AGENT_EXAMPLE)
    for key in value:
        if key in _RUNS_OWN:
            raise OptionError(name, f"{name}: a subagent has no '{key}' of its own", fix=_RUNS_OWN[key])
        if key not in _AGENT_KEYS:
            raise OptionError(name, f"{name}: a subagent has no '{key}'{did_you_mean(str(key), _AGENT_KEYS)}")
    return {key: _AGENT_KEYS[key](f"{name}[{key!r}]", kept) for key, kept in value.items()}


def _check_rounds(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _MOST_ROUNDS:
        raise wrong(name, value, f"it is a whole number from 1 to {_MOST_ROUNDS}", "Leave it out for no limit")
    return value


def _check_words(name: str, value: Any) -> str:
    """A text that may be empty."""
    return str(text("the first prompt of the subagent")(name, value)) if value != "" else ""


# The CLI drops all subagents in silence where it does not take a value of one.
_AGENT_KEYS: dict[str, Rule] = {
    "description": text("what the subagent is for", _AGENT_EXAMPLE),
    "prompt": text("what the subagent is told", _AGENT_EXAMPLE),
    "tools": list_of(text("the name of a tool")),
    "disallowedTools": list_of(text("the name of a tool")),
    "model": argument("the name of a model", "Leave it out for the run's own"),
    "maxTurns": _check_rounds,
    "background": flag,
    "initialPrompt": _check_words,
    "effort": one_of(EFFORTS, "effort"),
}
"""What a subagent may have, and the rule of each."""


def check_thinking(name: str, value: Any) -> int | str | None:
    """How much the model thinks before it answers."""
    if value is None or value in ("adaptive", "off"):
        return value  # type: ignore[no-any-return]
    if isinstance(value, bool) or not isinstance(value, int) or not LEAST_THINKING <= value <= MOST:
        what = f'it is "adaptive", "off", or a number of tokens from {LEAST_THINKING} on'
        raise wrong(name, value, what, "Leave it out for the CLI's own choice")
    return value


def check_betas(name: str, value: Any) -> tuple[str, ...]:
    """Betas by name, each once."""
    found = tuple(dict.fromkeys(list_of(_check_beta)(name, value)))
    if len(found) > _MOST_BETAS:
        raise OptionError(name, f"{name}: a run has {_MOST_BETAS} betas at most, and these are {len(found)}")
    return found


def _check_beta(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _BETA.fullmatch(value):
        what = "the name of a beta is made of up to 64 small letters, digits and '-', and does not begin with a dash"
        raise wrong(name, value, what, 'Write for example: betas=["context-1m-2025-08-07"], each beta on its own')
    return value


def check_hooks(name: str, value: Any) -> dict[str, tuple[Any, ...]]:
    """Hooks by event: functions, or `HookMatcher`s of the SDK's."""
    if not isinstance(value, Mapping):
        raise wrong(name, value, "it is a mapping of events to lists of functions", _HOOK_EXAMPLE)
    found: dict[str, tuple[Any, ...]] = {}
    for event, hooks in value.items():
        if event == "PermissionRequest":
            raise OptionError(name, f"{name}: who answers questions is said by approve=", fix="Write approve=function")
        if event not in HOOK_EVENTS:
            raise OptionError(name, f"{name}: there is no event {event!r}{did_you_mean(str(event), HOOK_EVENTS)}")
        several = hooks if isinstance(hooks, Sequence) else [hooks]
        found[event] = tuple(_matcher(f"{name}[{event!r}]", hook) for hook in several)
    return found


def _matcher(name: str, hook: Any) -> Any:
    from claude_agent_sdk import HookMatcher

    if not isinstance(hook, HookMatcher):
        hook = HookMatcher(hooks=[hook])
    if not isinstance(hook.hooks, Sequence):
        raise wrong(name, hook.hooks, "the hooks of a HookMatcher are a list of functions", _HOOK_EXAMPLE)
    for function in hook.hooks:
        called = getattr(type(function), "__call__", None)  # noqa: B004
        if not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)):
            what = "a hook is an async function of what happened, the call's id, and a context"
            raise wrong(name, function, what, "Write: async def hook(given, call, context): return {}")
    if not isinstance(hook.matcher, str | None):
        raise wrong(name, hook.matcher, "a matcher is a text", 'Name tools, with bars between: "Write|Edit"')
    optional(number)(f"{name}.timeout", hook.timeout)
    optional(one_of(("block", "continue"), "on_failure"))(f"{name}.on_failure", hook.on_failure)
    try:
        re.compile(hook.matcher or "")
    except re.error as error:
        matcher = hook.matcher
        fix = 'Name tools, with bars between: "Write|Edit"'
        if matcher != "*":
            raise OptionError(name, f"{name}: the matcher {matcher!r} cannot be read: {error}", fix=fix) from None
    return hook


def tool_names(spec: RunSpec) -> list[tuple[str, str]]:
    """The tools that subagents, matchers of hooks and `permissions.deny` name, each with where that is written."""
    named = [
        (f"agents[{agent!r}][{key!r}]", str(tool))
        for agent, given in spec.agents.items()
        for key in ("tools", "disallowedTools")
        for tool in given.get(key, ())
    ]
    for option, matcher in _matchers(spec):
        named += [(option, tool) for tool in names_in(matcher) or ()]
    permissions = None if spec.settings is None else spec.settings.permissions
    denied = (permissions.deny if permissions is not None else None) or ()
    return named + [("settings", rule) for rule in denied if rule.startswith("mcp__")]  # the others are looked up there


def check_tool_names(spec: RunSpec, offer: Offer) -> None:
    """Refuse what names no tool: it would never hold.

    Raises:
        OptionError: one means no tool of the run or of the CLI.
    """
    for option, name in tool_names(spec):
        offer.check_name(option, name, whole_boxes=not option.startswith("hooks["))
    for option, matcher in _matchers(spec):
        if not names_in(matcher):
            offer.check_regex(option, matcher)


def _matchers(spec: RunSpec) -> list[tuple[str, str]]:
    """The matchers of hooks that are about some tools, each with where it is written."""
    hooks = [(f"hooks[{event!r}]", hook.matcher) for event in TOOL_EVENTS for hook in spec.hooks.get(event, ())]
    return [(option, matcher) for option, matcher in hooks if matcher and matcher != "*"]


def check_folder(name: str, value: Any) -> Path:
    """A host folder that is there, as a whole path."""
    if not isinstance(value, str | Path) or not str(value):
        raise wrong(name, value, "it is a folder, as a text or a Path")
    folder = Path(value)
    if not folder.is_dir():
        raise wrong(name, value, "there is no such folder")
    return folder.resolve()


def check_plugin(name: str, value: Any) -> Path:
    """A plugin that brings words: agents, commands, skills, styles. What would run beside the guard is refused."""
    folder = check_folder(name, value)
    try:
        manifest = _manifest(folder)
    except FileNotFoundError:
        manifest = {}
    except (OSError, ValueError) as error:
        raise wrong(name, value, f"its plugin.json cannot be read: {error}") from None
    keys = manifest if isinstance(manifest, dict) else ["plugin.json is no object"]
    found = [key for key in keys if key not in _PLUGIN_KEYS]
    found += [one.name for one in sorted(folder.iterdir()) if not _is_words(one)]
    texts = [path for part in _PLUGIN_FOLDERS for path in sorted((folder / part).rglob("*"))]
    found += [str(path.relative_to(folder)) for path in texts if path.is_symlink() or _has_more_than_words(path)]
    if found:
        brings = ", ".join(map(repr, found[:5]))
        what = f"the plugin brings {brings}, which would run beside the permission checks"
        fix = "Take it out of the plugin: hooks go in as hooks=, servers as servers=, and commands (!`…`) in words"
        raise wrong(name, value, what, fix)
    return folder


def plugin_names(spec: RunSpec) -> set[str]:
    """What the plugins are called; their skills and commands begin with it and a colon."""
    return {_name_of(Path(folder)) for folder in spec.plugins}


def _name_of(plugin: Path) -> str:
    try:
        return str(_manifest(plugin).get("name") or plugin.name)
    except (OSError, ValueError):
        return plugin.name


def _manifest(plugin: Path) -> Any:
    """What a plugin says of itself.

    Raises:
        OSError: there is no such file, or it cannot be read.
        ValueError: it is something else than a file, or no JSON.
    """
    file = plugin / ".claude-plugin" / "plugin.json"
    if file.exists() and not file.is_file():
        raise ValueError("it is not a file")
    try:
        return json.loads(file.read_bytes())
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def further_tools(spec: RunSpec) -> list[str]:
    """The CLI's own tools by which a model reaches its subagents and what plugins bring."""
    parts = {part for part in _PLUGIN_FOLDERS for folder in spec.plugins if (Path(folder) / part).is_dir()}
    has_agents, has_skills = bool(spec.agents) or "agents" in parts, bool(parts & {"commands", "skills"})
    return ["Agent"] * has_agents + ["Skill"] * has_skills


def _is_words(entry: Path) -> bool:
    if entry.is_symlink():
        return False
    is_page = entry.is_file() and (entry.suffix in (".md", ".txt") or entry.name in ("LICENSE", ".gitignore"))
    return is_page or (entry.is_dir() and entry.name in (*_PLUGIN_FOLDERS, ".claude-plugin", ".git", "docs"))


def _has_more_than_words(path: Path) -> bool:
    """Whether a page names hooks, servers or skills in its head, or has commands that run when the CLI reads it."""
    if not path.is_file() or path.suffix.lower() != ".md":
        return False
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    if "!`" in text or "```!" in text:
        return True
    text = text.lstrip("\ufeff \t\r\n")
    if not text.startswith("---"):
        return False
    _, *lines = text.partition("\n---")[0].splitlines()
    return any(line and line[0] not in " \t-#" and not _is_harmless(line) for line in map(str.rstrip, lines))


def _is_harmless(line: str) -> bool:
    """Whether a line of a page's head begins a plain key, and none that starts anything: YAML has many spellings."""
    key = re.match(r"([A-Za-z][A-Za-z0-9_-]*)\s*:", line)
    return key is not None and key[1] not in _STARTING


def shown_folders(spec: RunSpec) -> list[Path]:
    """What of the host the agent's jail shows for these options, read-only."""
    return [Path(folder) for folder in (*spec.folders, *spec.plugins)]


def sdk_options(spec: RunSpec) -> dict[str, Any]:
    """These options as the SDK takes them, but for the subagents, which it wants as objects of its own."""
    known = [beta for beta in _KNOWN_BETAS if beta in spec.betas]
    given: dict[str, Any] = {"effort": spec.effort, "fallback_model": spec.fallback_model, "betas": known}
    given["agents"] = {name: _as_told(agent) for name, agent in spec.agents.items()} or None
    given["plugins"] = [{"type": "local", "path": str(folder)} for folder in spec.plugins]
    given["add_dirs"] = [str(folder) for folder in spec.folders]
    if isinstance(spec.thinking, int):
        given["thinking"] = {"type": "enabled", "budget_tokens": spec.thinking}
    elif spec.thinking is not None:
        given["thinking"] = {"type": "disabled" if spec.thinking == "off" else "adaptive"}
    return given


def with_betas(headers: Mapping[str, str], betas: Sequence[str]) -> dict[str, str]:
    """Headers for the model API that also ask for the betas which the CLI has no option for."""
    others = [beta for beta in betas if beta not in _KNOWN_BETAS]
    name = next((name for name in headers if name.lower() == "anthropic-beta"), "anthropic-beta")
    given = [headers[name]] if name in headers else []
    return {**headers, name: ",".join([*given, *others])} if others else dict(headers)


def _as_told(agent: Mapping[str, Any]) -> dict[str, Any]:
    """A subagent as the CLI is told of it."""
    return {key: kept for key, kept in agent.items() if kept is not None}
