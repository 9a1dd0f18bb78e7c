"""The SDK options of a run: always the same safe frame, filled from the spec."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions

from toolkit.runs.asking.approvals import Approvals
from toolkit.runs.asking.guard import Guard
from toolkit.runs.outcome.output import OutputShape
from toolkit.runs.spec import RunSpec
from toolkit.sandbox import READ_ONLY_TOOLS, TOOLS, Confinement
from toolkit.tools import Toolbox, ToolContext
from toolkit_servers import in_process_config

_MOST_BUFFERED = 64 * 1024 * 1024
"""One line of the CLI's output: pictures in tool results are longer than the SDK expects."""


def make_options(
    spec: RunSpec,
    boxes: Iterable[Toolbox],
    guard: Guard,
    approvals: Approvals,
    *,
    jail: Confinement | None,
    folder: Path,
    shape: OutputShape | None,
    make_context: Callable[[str], ToolContext],
    stderr: Callable[[str], None],
    more: Mapping[str, Any],
) -> ClaudeAgentOptions:
    """Options for the CLI in `jail`; without a jail they are for a transport that starts nothing."""
    servers: dict[str, Any] = {box.name: in_process_config(box, make_context=make_context) for box in boxes}
    servers.update({name: dict(config) for name, config in spec.servers.items()})
    frame: dict[str, Any] = {"setting_sources": [], "strict_mcp_config": True, "cwd": folder}
    if jail is not None:
        frame |= jail.options()
    frame |= more
    policy = spec.rules()
    frame |= {
        "permission_mode": policy.cli_mode,
        "tools": native_tools(spec),
        "disallowed_tools": policy.disabled_names(),
    }
    if policy.cli_mode != "bypassPermissions":
        frame["can_use_tool"] = approvals.can_use_tool
    return ClaudeAgentOptions(
        **frame,
        mcp_servers=servers,
        model=spec.model,
        system_prompt=_system(spec.system),
        max_turns=spec.limits.turns,
        max_budget_usd=spec.limits.usd,
        output_format=None if shape is None else shape.format(),
        hooks=guard.hooks(),
        include_partial_messages=True,
        verbatim_prompts=True,
        max_buffer_size=_MOST_BUFFERED,
        stderr=stderr,
    )


def native_tools(spec: RunSpec) -> list[str]:
    """The CLI's own tools this run offers."""
    usual = READ_ONLY_TOOLS if spec.mode == "read-only" else TOOLS
    policy = spec.rules()
    return [tool for tool in (usual if spec.native is None else spec.native) if not policy.disabled(tool)]


def offered(spec: RunSpec, boxes: Iterable[Toolbox]) -> list[str]:
    """Every tool name a call may have, as patterns: what is not here is refused."""
    names = [*native_tools(spec), "StructuredOutput"]
    for box in boxes:
        names.extend(box.allowed_tools)
    names.extend(f"mcp__{name}__*" for name in spec.servers)
    return names


def _system(added: str | None) -> Any:
    return {"type": "preset", "preset": "claude_code", **({"append": added} if added else {})}
