"""The options of `toolkit run` about what holds the agent: limits, and confinement."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.terminal.command import Bytes, Duration, with_options
from toolkit.errors import SettingsError

if TYPE_CHECKING:
    from toolkit.sandbox import SandboxSettings

_HELD = ("memory", "processes", "file", "workspace", "tmp", "cpu")
_CONTROL_FILES = (".claude", ".mcp.json", ".git/hooks", ".git/config", "CLAUDE.md", "CLAUDE.local.md")

limit_options = with_options(
    click.option("--deadline", type=Duration(), metavar="TIME", help="Wall-clock limit: 90s, 10m, 1h."),
    click.option("--max-usd", type=float, help="Cost limit in dollars."),
    click.option("--max-tokens", type=int, help="Limit on all tokens together."),
    click.option("--max-turns", type=int, help="Limit on model calls that ask for tools."),
    click.option("--memory", type=Bytes(), metavar="SIZE", help="Memory of all processes together.  [default: 4GiB]"),
    click.option("--max-processes", type=int, help="Processes and threads at once.  [default: 512]"),
    click.option("--max-cpu", type=Duration(), metavar="TIME", help="Processor time of all processes."),
    click.option("--max-file", type=Bytes(), metavar="SIZE", help="The largest single file.  [default: 1GiB]"),
    click.option("--max-workspace", type=Bytes(), metavar="SIZE", help="All its files together.  [default: 4GiB]"),
    click.option("--max-tmp", type=Bytes(), metavar="SIZE", help="The size of /tmp.  [default: 512MiB]"),
    click.option(
        "--require",
        multiple=True,
        type=click.Choice(_HELD),
        metavar="LIMIT",
        help=f"Refuse to start where this cannot be enforced: {', '.join(_HELD)}.",
    ),
    title="Limits",
)
confinement_options = with_options(
    click.option(
        "--profile",
        type=click.Choice(["offline", "allowlist", "read-only"]),
        help="What it may reach and change.  [default: offline, or allowlist with domains]",
    ),
    click.option("--allow-domain", "domains", multiple=True, metavar="DOMAIN", help="A host that commands may reach."),
    click.option(
        "--allow-control-file",
        "control_files",
        multiple=True,
        type=click.Choice(_CONTROL_FILES),
        metavar="NAME",
        help="Let the agent change this file that steers agents: CLAUDE.md, .mcp.json …",
    ),
    click.option(
        "--settings",
        "settings_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Settings of the CLI that tighten the profile, as JSON.",
    ),
    title="Confinement",
)
"""Each is a part of `RunSpec`."""


def bounds_of(given: dict[str, Any]) -> dict[str, Any]:
    """Limits and confinement as a run takes them.

    Raises:
        ToolkitError: a limit that is none, or settings that cannot be read.
    """
    from toolkit.runs import Limits

    cpu, settings = given["max_cpu"], given["settings_file"]
    return {
        "limits": Limits(
            seconds=given["deadline"],
            usd=given["max_usd"],
            tokens=given["max_tokens"],
            turns=given["max_turns"],
            memory_bytes=given["memory"],
            processes=given["max_processes"],
            cpu_seconds=None if cpu is None else int(cpu) if cpu == int(cpu) else cpu,
            file_bytes=given["max_file"],
            workspace_bytes=given["max_workspace"],
            tmp_bytes=given["max_tmp"],
        ),
        "require": given["require"],
        "profile": given["profile"],
        "domains": given["domains"],
        "allow_control_files": given["control_files"],
        "settings": None if settings is None else _settings(settings),
    }


def _settings(file: Path) -> SandboxSettings:
    from toolkit.sandbox import SandboxSettings

    try:
        return SandboxSettings.load(file)
    except SettingsError as error:
        raise click.UsageError(f"--settings {file}: {error}") from None
