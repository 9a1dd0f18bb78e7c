"""The options of a run as the fake CLI obeys them: what the SDK would have put on the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions

MODEL = "claude-scripted-1"
MODES = ("acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan")


@dataclass(slots=True)
class Settings:
    """What changes how the CLI behaves; `mode` and `model` can change while it runs."""

    cwd: str
    model: str = MODEL
    mode: str = "default"
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    allowed: tuple[str, ...] = ()
    disallowed: tuple[str, ...] = ()
    asks: bool = False
    """Somebody answers `can_use_tool`."""
    partial: bool = False
    echo: bool = False
    checkpoints: bool = False
    max_turns: int | None = None
    max_usd: float | None = None
    schema: Mapping[str, Any] | None = None
    session: str | None = None
    resume: str | None = None
    fork: bool = False
    knows_servers: bool = True
    """False where nobody said which servers there are: then a tool's name tells."""

    @classmethod
    def of(cls, options: ClaudeAgentOptions | None) -> Settings:
        """Read them from the SDK's options; without any, a plain default CLI."""
        if options is None:
            return cls(cwd=str(Path.cwd()), mode="bypassPermissions", knows_servers=False)
        servers = options.mcp_servers if isinstance(options.mcp_servers, dict) else {}
        wanted = options.output_format if isinstance(options.output_format, dict) else {}
        return cls(
            cwd=str(options.cwd or Path.cwd()),
            model=options.model or MODEL,
            mode=options.permission_mode or "default",
            servers={name: dict(config) for name, config in servers.items()},
            allowed=tuple(options.allowed_tools),
            disallowed=tuple(options.disallowed_tools),
            asks=options.can_use_tool is not None or options.permission_prompt_tool_name == "stdio",
            partial=options.include_partial_messages,
            echo="replay-user-messages" in options.extra_args,
            checkpoints=options.enable_file_checkpointing,
            max_turns=options.max_turns,
            max_usd=options.max_budget_usd,
            schema=wanted.get("schema"),
            session=options.session_id,
            resume=options.resume,
            fork=options.fork_session,
        )


def names_tool(rule: str, tool: str) -> bool:
    """Whether a permission rule names this tool: itself, its server, or its server with a star."""
    return rule == tool or tool.startswith(rule.removesuffix("*").removesuffix("__") + "__")


def matches(matcher: str | None, tool: str) -> bool:
    """Whether a hook matcher is meant for this tool: a name, names with bars between, or a pattern."""
    if matcher in (None, "", "*"):
        return True
    assert matcher is not None
    if re.fullmatch(r"[A-Za-z0-9_|]+", matcher):
        return tool in matcher.split("|")
    return re.search(matcher, tool) is not None
