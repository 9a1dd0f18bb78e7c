"""The `toolkit` command: parse, call, print. Each group of commands lives in a file of its own.

A file is imported when one of its commands is used, so that `toolkit --help` stays quick;
the one-line summaries stand in the table below and a test keeps them true. What the
commands share is in `terminal`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NamedTuple

import click

from toolkit import __version__
from toolkit.errors import ToolkitError


class Entry(NamedTuple):
    home: str
    """The module of the click command."""
    summary: str


COMMANDS: dict[str, Entry] = {
    "approvals": Entry("toolkit.cli.runs.approvals", "Answer a run's questions, and see what is remembered."),
    "call": Entry("toolkit.cli.serving", "Call one tool and print what the model would read."),
    "completion": Entry("toolkit.cli.machine", "Print the completion script for a shell."),
    "demo": Entry("toolkit.cli.machine", "Show the product at work: no key, no network."),
    "doctor": Entry("toolkit.cli.machine", "Say what would stop a run on this machine, and the fix."),
    "init": Entry("toolkit.cli.starting.init", "Write a toolkit.toml for the project in this folder."),
    "inspect": Entry("toolkit.cli.serving", "Show the tools in TARGET as a client sees them."),
    "install": Entry("toolkit.cli.serving", "Add TARGET to an MCP client's configuration."),
    "report": Entry("toolkit.cli.runs.report", "Write RUN as one HTML page and print its path."),
    "run": Entry("toolkit.cli.starting.running", "Run an agent on PROMPT, confined, and print what it says."),
    "runs": Entry("toolkit.cli.runs.stored", "Look at stored runs, and take their changes back."),
    "sandbox": Entry("toolkit.cli.sandbox", "Confine an agent, and prove that it is confined."),
    "serve": Entry("toolkit.cli.serve", "Serve the tools in TARGET over stdio or HTTP."),
    "ui": Entry("toolkit.cli.ui", "Show all runs on one page, as they happen."),
    "workspace": Entry("toolkit.cli.workspace", "Give an agent a safe copy of host files, and clean up after it."),
}


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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in sorted(COMMANDS)])


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
