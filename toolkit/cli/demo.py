"""`toolkit demo`: the product at work on a small example."""

from __future__ import annotations

import os
import sys

import click

from toolkit.cli._help import CommandWithExample


@click.command(cls=CommandWithExample, example="$ toolkit demo")
@click.option("--live", is_flag=True, help="Use the real model; needs ANTHROPIC_API_KEY.")
def demo(live: bool) -> None:
    """Show the product at work: no key, no network.

    An agent fixes a failing test in a copy of a small project, confined. Its model is scripted;
    the CLI, the jail, the tools and the files are real.
    """
    from toolkit.demo.show import demo as show

    if live and not os.environ.get("ANTHROPIC_API_KEY"):
        raise click.UsageError("--live needs a key: set ANTHROPIC_API_KEY, or leave --live out")
    result = show(click.echo, live=live)
    sys.exit(0 if result is not None and result.ok else 1)
