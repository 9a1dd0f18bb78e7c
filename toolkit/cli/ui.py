"""`toolkit ui`: one page for all runs, live in the browser or as files."""

from __future__ import annotations

import click

from toolkit.cli.terminal.command import command
from toolkit.cli.terminal.results import take_stdout, write_result

EXAMPLE = """
$ toolkit ui
$ toolkit ui --port 8400
$ toolkit ui --export site
"""


@command(example=EXAMPLE)
@click.option("--port", type=click.IntRange(1, 65535), help="The port; a free one if not given.")
@click.option("--open", "opens", is_flag=True, help="Show it in the browser.")
@click.option("--export", metavar="DIR", help="Write the page and every report as files, and stop.")
def ui(port: int | None, opens: bool, export: str | None) -> None:
    """Show all runs on one page, as they happen.

    The page is served on this machine only, for whoever has its address. There you see what runs, what it costs and
    what waits for an answer; you can answer, stop, go on, apply changes and put them on a branch. Ctrl-C ends it and
    leaves the runs alone.
    """
    if export is not None:
        if port is not None or opens:
            raise click.UsageError("--export serves nothing: leave --port and --open out")
        from toolkit.ui import export_ui

        write_result(take_stdout(), str(export_ui(export)))
        return
    import asyncio

    asyncio.run(_serve(port or 0, opens=opens))


async def _serve(port: int, *, opens: bool) -> None:
    import asyncio
    import signal

    from toolkit.ui import UiServer

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with UiServer(port=port) as serving:
        click.echo(serving.url)
        click.echo("keep the address to yourself: it is the key. Ctrl-C ends the page, not the runs", err=True)
        if opens:
            import webbrowser

            if not webbrowser.open(serving.url):
                click.echo("no browser could be opened: open the address above yourself", err=True)
        await ended.wait()
