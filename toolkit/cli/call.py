"""`toolkit call`: one tool, called as a client would call it."""

from __future__ import annotations

import sys

import click

from toolkit.cli._help import CommandWithExample
from toolkit.cli._results import as_json, take_stdout, write_result

EXAMPLE = """
$ toolkit call tools.py find_todos folder=src limit=5
$ toolkit call tools.py tag_note id=7 tags=home tags=urgent
$ toolkit call tools.py add_note 'note:={"title": "Milk", "done": false}'
"""


@click.command(cls=CommandWithExample, example=EXAMPLE)
@click.argument("target")
@click.argument("tool")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--json", "wants_json", is_flag=True, help="Print the MCP result as JSON.")
def call(target: str, tool: str, arguments: tuple[str, ...], wants_json: bool) -> None:
    """Call one tool and print what the model would read.

    KEY=VALUE takes the type the tool asks for; repeat a key to give a list.
    KEY:=JSON gives any value as JSON. Ends with 1 when the tool reports an error.
    """
    stdout = take_stdout()
    from toolkit.errors import MistypedArguments
    from toolkit_servers.target import call_once, load_target

    loaded = load_target(target)
    try:
        outcome = call_once(loaded, tool, arguments, say=lambda line: click.echo(line, err=True))
    except MistypedArguments as error:
        raise click.UsageError(str(error)) from None
    if wants_json:
        write_result(stdout, as_json(outcome.reply.wire()))
    elif not outcome.reply.is_error:
        write_result(stdout, outcome.text)
    if outcome.reply.is_error:
        click.echo(outcome.problem, err=True)
        sys.exit(1)
