"""The options of `toolkit run` about its setup: the command that prepares the workspace before the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.terminal.command import NAMED, Duration, with_options

if TYPE_CHECKING:
    from toolkit.runs import Setup

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
)
"""Each is a part of `Setup`."""


def setup_of(given: dict[str, Any]) -> Setup | None:
    """The setup that was asked for.

    Raises:
        ToolkitError: it cannot be as asked.
    """
    from toolkit.runs import Setup

    if given["setup"] is None:
        for option in ("setup_domains", "setup_files", "setup_deadline", "setup_variables"):
            if given[option]:
                name = {"setup_domains": "domain", "setup_files": "keyed-by", "setup_variables": "env"}.get(option)
                raise click.UsageError(f"--setup-{name or 'deadline'} is about a setup: write --setup COMMAND as well")
        return None
    more = {} if given["setup_deadline"] is None else {"deadline": given["setup_deadline"]}
    variables = dict(given["setup_variables"])
    return Setup(given["setup"], domains=given["setup_domains"], keyed_by=given["setup_files"], env=variables, **more)
