"""`toolkit report`: a run to look at, as one HTML file or live in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toolkit.cli.terminal.command import RUN, command
from toolkit.cli.terminal.results import take_stdout, write_result

if TYPE_CHECKING:
    from toolkit.runs import StoredRun

EXAMPLE = """
$ toolkit report last --open
$ toolkit report run-6c1f -o review.html
$ toolkit report --live last
"""


@command(example=EXAMPLE)
@RUN
@click.option("-o", "--output", metavar="FILE", help="Where to write it; - is stdout. Kept with the run if not given.")
@click.option("--open", "opens", is_flag=True, help="Show it in the browser.")
@click.option("--live", is_flag=True, help="Serve it on this machine while RUN goes on.")
@click.option("--port", type=click.IntRange(1, 65535), help="The port for --live; a free one if not given.")
def report(run: StoredRun, output: str | None, opens: bool, live: bool, port: int | None) -> None:
    """Write RUN as one HTML page and print its path.

    RUN is an id, the beginning of one, or 'last'. The page needs no network: messages, tool
    calls, changes, usage and limits are all in the file, and nothing in it can run. With
    --live the address is printed instead; it serves until the run ends, or Ctrl-C.
    """
    if live and output is not None:
        raise click.UsageError("--live writes no file: leave -o out")
    if port is not None and not live:
        raise click.UsageError("--port is for --live")
    if opens and output == "-":
        raise click.UsageError("--open needs a file: leave -o - out")
    if live:
        import asyncio

        asyncio.run(_serve(run, port or 0, opens=opens))
    else:
        _write(run, output, opens=opens)


def _write(run: StoredRun, output: str | None, *, opens: bool) -> None:
    from toolkit.report import render_report, write_report

    stdout = take_stdout()
    if output == "-":
        write_result(stdout, render_report(run).encode())
        return
    file = write_report(run, output)
    write_result(stdout, str(file))
    if opens:
        _open(file.as_uri())


async def _serve(run: StoredRun, port: int, *, opens: bool) -> None:
    import asyncio
    import contextlib
    import signal

    from toolkit.report import LiveReport

    loop, main = asyncio.get_running_loop(), asyncio.current_task()
    assert main is not None
    loop.add_signal_handler(signal.SIGINT, main.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        async with LiveReport(run, port=port) as serving:
            click.echo(serving.url)
            click.echo("serving until the run ends; Ctrl-C stops it and leaves the run alone", err=True)
            if opens:
                _open(serving.url)
            await serving.wait()
            click.echo(f"the run has ended; to keep its report: toolkit report {run.id}", err=True)


def _open(address: str) -> None:
    import webbrowser

    if not webbrowser.open(address):
        click.echo("no browser could be opened: open the path above yourself", err=True)
