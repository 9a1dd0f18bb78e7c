"""`toolkit runs stop`: end a run that another terminal, or another program, began."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from toolkit.cli.terminal.command import RUN, Duration, command
from toolkit.errors import RunError

if TYPE_CHECKING:
    from toolkit.runs import StoredRun

_LOOK = 0.1


@command(example="$ toolkit runs stop last")
@RUN
@click.option("--wait", type=Duration(), default="30s", show_default=True, metavar="TIME", help="For the run to end.")
@click.option("--turn", is_flag=True, help="End only the turn under way; a program that has more to say goes on.")
def stop(run: StoredRun, wait: float, turn: bool) -> None:
    """End RUN: the turn under way is interrupted, and what it gave is kept.

    The run ends as it does after Ctrl-C, wherever it was started.
    """
    from toolkit.runs.asking import RunClient

    with RunClient(run.folder) as client:
        if turn:
            client.interrupt()
            return
        client.stop()
    end = time.monotonic() + wait
    while run.is_running():
        if time.monotonic() > end:
            raise RunError(
                f"run {run.id} was told to stop and has not ended within {wait:g} s",
                fix=f"Follow it: toolkit runs events {run.id} --follow",
            )
        time.sleep(_LOOK)  # another process's end sets no event of ours
    click.echo(f"run {run.id} has ended: toolkit runs show {run.id}", err=True)
