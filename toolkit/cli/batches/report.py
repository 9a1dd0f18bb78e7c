"""`toolkit batch report`: a batch as one page."""

from __future__ import annotations

import sys

import click

from toolkit.cli.terminal.command import CommandWithExample, json_option, mistyped_if_refused
from toolkit.cli.terminal.results import as_json, take_stdout, write_result

REPORT_EXAMPLE = """
$ toolkit batch report nightly --open
$ toolkit batch report nightly -o review.html
"""


@click.command(cls=CommandWithExample, example=REPORT_EXAMPLE)
@click.argument("name")
@click.option(
    "-o", "--output", metavar="FILE", help="Where to write it; - is stdout. Kept with the batch if not given."
)
@click.option("--alone", is_flag=True, help="Only this page, without the reports of the runs.")
@click.option("--open", "opens", is_flag=True, help="Show it in the browser.")
@json_option("Print what the page shows as JSON, and write nothing.")
def report(name: str, output: str | None, alone: bool, opens: bool, wants_json: bool) -> None:
    """Write the batch NAME as one HTML page and print its path.

    It shows outcomes, cost, time, why tasks failed, and the rate of requests. Beside it, in FILE-runs, is the report
    of every run, which the page links. Nothing needs the network, and nothing in the pages can run.
    """
    from toolkit.fleets.looking import BatchTable
    from toolkit.report.batches import batch_data, render_batch, write_batch
    from toolkit.runs.batches import find_batch

    if opens and (output == "-" or wants_json):
        raise click.UsageError("--open needs a file: leave -o - and --json out")
    with mistyped_if_refused():
        table = BatchTable(find_batch(name))
    stdout = take_stdout()
    if wants_json:
        write_result(stdout, as_json(batch_data(table, lambda run: None)))
        return
    if output == "-":
        write_result(stdout, render_batch(table).encode())
        return
    file = write_batch(table, output, with_runs=not alone, on_run=_told if sys.stderr.isatty() else None)
    write_result(stdout, str(file))
    if opens:
        import webbrowser

        if not webbrowser.open(file.as_uri()):
            click.echo("no browser could be opened: open the path above yourself", err=True)


def _told(number: int, of: int) -> None:
    click.echo(f"\r\x1b[Kreport {number} of {of}" if number < of else "\r\x1b[K", err=True, nl=False)
