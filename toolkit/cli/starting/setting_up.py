"""The options of `toolkit run` about its setup: the command that prepares the workspace before the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.terminal.command import NAMED, Duration, with_options

if TYPE_CHECKING:
    from toolkit.runs import ProjectFile, Setup

setup_options = with_options(
    click.option("--setup", metavar="COMMAND", help="Run this first, once: what it installs is shown to the agent."),
    click.option("--setup-domain", "setup_domains", multiple=True, metavar="DOMAIN", help="A host that it may reach."),
    click.option(
        "--setup-keyed-by",
        "setup_files",
        multiple=True,
        metavar="FILE",
        help="Run it again when this changes.  [default: lock files]",
    ),
    click.option("--setup-deadline", type=Duration(), metavar="TIME", help="Wall-clock limit for it.  [default: 30m]"),
    click.option(
        "--setup-env", "setup_variables", type=NAMED, multiple=True, metavar="NAME=VALUE", help="A variable for it."
    ),
    title="Setup",
)
"""Each is a part of `Setup`."""


def setup_of(given: dict[str, Any], project: ProjectFile | None = None) -> Setup | dict[str, Any] | None:
    """The setup that was asked for; where the project file has one, what is to be different in it.

    Raises:
        ToolkitError: it cannot be as asked.
    """
    from toolkit.runs import Setup

    parts: dict[str, Any] = {
        "domains": given["setup_domains"],
        "keyed_by": given["setup_files"],
        "deadline": given["setup_deadline"],
        "env": dict(given["setup_variables"]),
    }
    parts = {name: value for name, value in parts.items() if value or value == 0}
    if project is not None and project.said("setup") is not None:
        return parts if given["setup"] is None else {"command": given["setup"], **parts}
    if given["setup"] is None:
        for name in parts:
            option = {"domains": "domain", "keyed_by": "keyed-by"}.get(name, name)
            raise click.UsageError(f"--setup-{option} is about a setup: write --setup COMMAND as well")
        return None
    return Setup(given["setup"], **parts)
