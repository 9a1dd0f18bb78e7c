"""The commands as one click group, each imported only to be run."""

from __future__ import annotations

from importlib import import_module

import click
from click.shell_completion import CompletionItem

from toolkit import __version__
from toolkit.cli.quick.table import COMMANDS, DESCRIPTION, EPILOG


class LazyGroup(click.Group):
    """The commands of the table: known by name, and imported only to be run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name].home), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names of the table; click would import every command for its help."""
        commands = [CompletionItem(name, help=entry.summary) for name, entry in sorted(COMMANDS.items())]
        found = [item for item in commands if item.value.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in sorted(COMMANDS)])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help=DESCRIPTION,
    epilog=EPILOG,
)
@click.version_option(__version__, prog_name="toolkit", message="%(prog)s %(version)s")
def toolkit() -> None:
    """The command itself; its help is in the table."""
