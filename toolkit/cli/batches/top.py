"""`toolkit batch top` and `retry`: a batch as it goes on, and tasks that are to be done once more."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import click

from toolkit._base.words import count_text, safe_line
from toolkit.cli.terminal.command import CommandWithExample, json_option, mistyped_if_refused
from toolkit.cli.terminal.results import as_json, take_stdout, write_result

if TYPE_CHECKING:
    from toolkit.fleets.looking import BatchTable, BatchView

TOP_EXAMPLE = """
$ toolkit batch top nightly
$ toolkit batch top nightly --once
"""
RETRY_EXAMPLE = """
$ toolkit batch retry nightly prices
$ toolkit batch retry nightly --failed
"""


@click.command(cls=CommandWithExample, example=TOP_EXAMPLE)
@click.argument("name")
@click.option("--once", is_flag=True, help="Print the table once, and stop.")
@json_option("Print it once as JSON.")
def top(name: str, once: bool, wants_json: bool) -> None:
    """Show the batch NAME as it goes on: a row for each task, every second.

    Keys: Up and Down choose a task, Enter opens it, i interrupts its run, r has it done again, f shows only some,
    o writes its report and opens it in the browser, q quits. Quitting leaves the batch alone.
    """
    from toolkit.fleets.looking import BatchTable
    from toolkit.runs.batches import find_batch

    with mistyped_if_refused():
        table = BatchTable(find_batch(name))
    if wants_json:
        view = table.look()
        tasks = [row.to_json() for row in table.with_turns(view.rows)]
        write_result(take_stdout(), as_json({**view.to_json(), "tasks": tasks}))
        return
    if once:
        _print(table, table.look())
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "") in ("", "dumb"):
        raise click.UsageError(
            "the live table needs a terminal\n"
            f"  For a script: toolkit batch top {name} --once, or --json\n"
            f"  As a page: toolkit batch report {name}"
        )
    from toolkit.cli.batches.live.board import Board
    from toolkit.cli.batches.live.screen import Screen

    with Screen(sys.stdin.fileno(), sys.stdout) as screen:
        Board(table, screen).run()


def _print(table: BatchTable, view: BatchView) -> None:
    from toolkit.cli.batches.live.frame import ordered, plain_lines

    width = shutil.get_terminal_size((120, 24)).columns
    rows = table.with_turns(ordered(view.rows, "all"))
    write_result(take_stdout(), "\n".join(plain_lines(view, rows, width)))


@click.command(cls=CommandWithExample, example=RETRY_EXAMPLE)
@click.argument("name")
@click.argument("tasks", nargs=-1, metavar="[TASK]...")
@click.option("--failed", is_flag=True, help="All tasks that ended and are not ok.")
def retry(name: str, tasks: tuple[str, ...], failed: bool) -> None:
    """Have tasks of the batch NAME that have ended done once more, from the start.

    Whoever works on the batch on this machine does them after the others; otherwise, and on a cluster, the next
    'toolkit batch TASKS --resume' does. What they cost until now stays in the books, and the limit holds.
    """
    from toolkit.runs.batches import find_batch

    if bool(tasks) == failed:
        raise click.UsageError("name the tasks to do again, or write --failed")
    with mistyped_if_refused():
        batch = find_batch(name)
    standings = batch.standings()
    if failed:
        tasks = tuple(id for id, one in standings.items() if not one.is_open and one.state != "ok")
    for task in tasks:
        batch.check_again(task, standings)  # all of them, before one is opened
    opened = [task for task in tasks if batch.again(task)]
    for task in opened:
        click.echo(f"open again: {safe_line(task, 60)}", err=True)
    already = len(tasks) - len(opened)
    if already:
        click.echo(f"{count_text(already, 'task')} to be done again already", err=True)
    if not tasks:
        click.echo("no task has failed: there is nothing to do again", err=True)
    elif not batch.is_worked_on:
        click.echo(f"To do them: toolkit batch TASKS --name {name} --resume", err=True)
