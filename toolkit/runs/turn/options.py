"""What the CLI is started with: the SDK's options in a safe frame that is always the same, its jail, its session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.runs.agents import further_tools, sdk_options, shown_folders
from toolkit.runs.asking.approvals import Approvals
from toolkit.runs.asking.guard import Guard
from toolkit.runs.asking.policy import Policy
from toolkit.runs.sessions.heads import head_of
from toolkit.runs.sessions.transcripts import (
    Kept,
    SessionId,
    default_store,
    jail_config,
    last_entry_of,
    lay_out,
)
from toolkit.runs.spec import RunSpec
from toolkit.runs.storage.place import Place
from toolkit.runs.turn.servers import as_configured
from toolkit.sandbox import OLD_NAMES, READ_ONLY_TOOLS, TOOLS, Confinement, Heard, JailLimits, SpendLimit, confine

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions, SessionStore

    from toolkit.tools import Toolbox, ToolContext

MOST_BUFFERED = 64 * 1024 * 1024
"""One line of the CLI's output: pictures in tool results are longer than the SDK expects."""

_SWITCHES = {
    # The SDK refuses its option for this beside a session store: a resumed session has no checkpoints. A live one has.
    "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1",
    # In its modes plan and auto it would have the model API judge the calls, too: the gate lets no such field out, and
    # refuses one request of every run for it. Here the guard judges.
    "CLAUDE_CODE_AUTO_MODE_SERVER": "0",
    # A result ends a turn of the CLI, not always the work: a subagent in the background may still owe another.
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
}


def run_options(
    spec: RunSpec,
    boxes: Iterable[Toolbox],
    guard: Guard,
    approvals: Approvals,
    *,
    native: list[str],
    jail: Confinement | None,
    folder: Path,
    stderr: Callable[[str], None],
    more: Mapping[str, Any],
    variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What the CLI is started with, by the SDK's names; without a jail it is for a transport that starts nothing.

    Nothing of the SDK is in it, nor needed for it: `sdk_options_of` makes the SDK's options of it.
    """
    servers: dict[str, Any] = {box.name: {"type": "sdk", "name": box.name} for box in boxes}
    servers |= as_configured(spec.servers, variables, is_heard=jail is not None)
    options: dict[str, Any] = {"setting_sources": [], "strict_mcp_config": True, "cwd": folder}
    if jail is not None:
        options |= jail.options()
    policy, shape = approvals.policy, spec.shape()
    options |= {**more, "permission_mode": policy.cli_mode, "tools": native}
    options |= {"disallowed_tools": policy.disabled_names(), "can_use_tool": approvals.can_use_tool}
    if policy.cli_mode == "bypassPermissions":
        # Said this way the SDK does not warn that nobody will be asked: the mode may be another one later.
        options |= {"permission_mode": None, "extra_args": {"permission-mode": policy.cli_mode}}
    if jail is None:
        options["enable_file_checkpointing"] = True
    return {
        **options,
        **sdk_options(spec),
        "mcp_servers": servers,
        "model": spec.model,
        "system_prompt": _system(spec.system),
        "max_turns": spec.limits.turns,
        "max_budget_usd": spec.limits.usd,
        "output_format": None if shape is None else shape.format(),
        "hooks": guard.hooks(),
        "include_partial_messages": True,
        "verbatim_prompts": True,
        "max_buffer_size": MOST_BUFFERED,
        "stderr": stderr,
    }


def sdk_options_of(
    options: Mapping[str, Any], spec: RunSpec, boxes: Iterable[Toolbox], make_context: Callable[[str], ToolContext]
) -> ClaudeAgentOptions:
    """The same with the SDK's own objects: hooks, subagents, tools of this process, and the store of the session."""
    from claude_agent_sdk import AgentDefinition, ClaudeAgentOptions, HookMatcher

    from toolkit_servers import in_process_config

    whole: dict[str, Any] = dict(options)
    whole["mcp_servers"] = {
        **options["mcp_servers"],
        **{box.name: in_process_config(box, make_context=make_context) for box in boxes},
    }
    whole["hooks"] = {
        event: [HookMatcher(one.matcher, list(one.hooks), one.timeout, one.on_failure) for one in matchers]
        for event, matchers in options["hooks"].items()
    }
    agents = options["agents"] or {}
    whole["agents"] = {name: AgentDefinition(**agent) for name, agent in agents.items()} or None
    if options.get("session_store"):
        whole["session_store"] = Kept(spec.store or default_store(spec.home))
    return ClaudeAgentOptions(**whole)


def native_tools(spec: RunSpec, policy: Policy) -> list[str]:
    """The CLI's own tools this run offers."""
    usual = READ_ONLY_TOOLS if spec.mode == "read-only" else TOOLS
    usual = (*usual, *further_tools(spec))
    return [tool for tool in (usual if spec.native is None else spec.native) if not policy.disabled(tool)]


def without(wanted: Iterable[str], tools: Iterable[str]) -> list[str]:
    """Those of the CLI's own tools that it was to offer and does not; it says nothing of them."""
    there = {OLD_NAMES.get(tool, tool) for tool in tools}
    return [tool for tool in wanted if tool not in there]


def offered(native: Iterable[str], boxes: Iterable[Toolbox]) -> list[str]:
    """Every tool name a call may have, as patterns, but for those of further servers."""
    names = [*native, "StructuredOutput"]
    for box in boxes:
        names.extend(box.allowed_tools)
    return names


async def session_options(spec: RunSpec, home: Path, start: str) -> tuple[dict[str, Any], bool]:
    """The options for the session: kept outside, laid out in the jail's home where one is resumed.

    And whether it has left a deferred call over, with which the CLI begins by itself.

    Raises:
        NoSessionError: there is no such session.
        OptionError: it has no such message as `at` names.
    """
    more: dict[str, Any] = {}
    is_left_over = False
    if spec.resume is not None:
        session = SessionId(spec.resume)
        more |= {"resume": session, "fork_session": spec.fork}
    if spec.transport is not None:
        return more, is_left_over
    if spec.resume is not None:
        store: SessionStore = spec.store or default_store(spec.home)
        head = await head_of(store, session, spec.home)
        if spec.at is not None:
            more["resume_session_at"] = await last_entry_of(store, session, spec.at)
        elif head.is_beginning:  # the same conversation, in which nothing counts that was said
            more = {} if spec.fork else {"session_id": session}
        elif head.is_set:
            more["resume_session_at"] = head.at
        if "resume" in more:
            await asyncio.to_thread(home.mkdir, mode=0o700)
            is_left_over = await lay_out(store, session, home, start, upto=more.get("resume_session_at"))
    # Kept as it happens, not at the end of a turn: a conversation can be resumed whose launcher was killed in one.
    return {**more, "session_store": True, "session_store_flush": "eager", "env": jail_config()}, is_left_over


def confine_run(spec: RunSpec, native: list[str], place: Place, home: Path, heard: Heard) -> Confinement:
    """The jail for a run, not entered yet. What its servers say is `heard`."""
    tokens = spec.limits.tokens
    return confine(
        place.folder,
        spec.jail_profile,
        spec.domains,
        **spec.reach(),
        host_ports=spec.host_ports(),
        host_tls=spec.host_tls(),
        tools=native,
        readable=(*spec.readable, *shown_folders(spec)),
        limits=JailLimits(**spec.limits.of_the_machine()),
        require=spec.require,
        spend_limit=None if tokens is None else SpendLimit(tokens=tokens),
        home=home,
        env=spec.env,
        cli_path=spec.cli_path,
        allow_control_files=spec.allow_control_files,
        settings=spec.settings,
        layout=replace(place.layout, environment={**place.layout.environment, **_SWITCHES}),
        pace=spec.pace,
        books=spec.books,
        heard=heard,
    )


def _system(added: str | None) -> Any:
    """The CLI's own prompt and what is added. The CLI looks for options in all its arguments, also behind this one."""
    led = f"\n{added}" if added and added.startswith("-") else added
    return {"type": "preset", "preset": "claude_code", **({"append": led} if led else {})}
