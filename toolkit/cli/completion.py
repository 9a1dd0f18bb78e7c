"""`toolkit completion`: what a shell needs to complete the command line."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from toolkit.cli._help import CommandWithExample

EXAMPLE = """
$ toolkit completion bash >> ~/.bashrc
$ toolkit completion fish > ~/.config/fish/completions/toolkit.fish
"""


@click.command(cls=CommandWithExample, example=EXAMPLE)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell."""
    from toolkit.cli import toolkit

    maker = get_completion_class(shell)
    assert maker is not None
    click.echo(maker(toolkit, {}, "toolkit", "_TOOLKIT_COMPLETE").source())
