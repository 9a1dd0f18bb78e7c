"""The `toolkit` command: parse, call, print. Each command lives in a file of its own.

Commands are imported when they are used, so that `toolkit --help` stays quick;
their one-line summaries stand in the table below and a test keeps them true.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import ClassVar, NamedTuple

import click

from toolkit import __version__
from toolkit.errors import ToolkitError


class Entry(NamedTuple):
    home: str
    """`module:attribute` of the click command."""
    summary: str


COMMANDS: dict[str, Entry] = {
    "approvals": Entry("toolkit.cli.approvals:approvals", "Answer a run's questions, and see what is remembered."),
    "call": Entry("toolkit.cli.call:call", "Call one tool and print what the model would read."),
    "completion": Entry("toolkit.cli.completion:completion", "Print the completion script for a shell."),
    "demo": Entry("toolkit.cli.demo:demo", "Show the product at work: no key, no network."),
    "doctor": Entry("toolkit.cli.doctor:doctor", "Say what would stop a run on this machine, and the fix."),
    "inspect": Entry("toolkit.cli.inspect:inspect", "Show the tools in TARGET as a client sees them."),
    "install": Entry("toolkit.cli.install:install", "Add TARGET to an MCP client's configuration."),
    "report": Entry("toolkit.cli.report:report", "Write RUN as one HTML page and print its path."),
    "run": Entry("toolkit.cli.run:run", "Run an agent on PROMPT, confined, and print what it says."),
    "runs": Entry("toolkit.cli.runs:runs", "Look at stored runs, and take their changes back."),
    "sandbox": Entry("toolkit.cli.sandbox:sandbox", "Confine an agent, and prove that it is confined."),
    "serve": Entry("toolkit.cli.serve:serve", "Serve the tools in TARGET over stdio or HTTP."),
    "workspace": Entry(
        "toolkit.cli.workspace:workspace", "Give an agent a safe copy of host files, and clean up after it."
    ),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only to run it."""

    table: ClassVar[dict[str, Entry]] = COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.home.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.table[name].summary) for name in sorted(self.table)])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Run 'toolkit COMMAND --help' for options and an example.",
)
@click.version_option(__version__, prog_name="toolkit", message="%(prog)s %(version)s")
def toolkit() -> None:
    """Typed Python functions as agent tools, and agents that work confined."""


def main() -> None:
    """Run the command line; a ToolkitError is printed as it is and ends with its exit code."""
    try:
        toolkit(prog_name="toolkit")
    except ToolkitError as error:
        click.echo(str(error), err=True)
        sys.exit(error.exit_code)
