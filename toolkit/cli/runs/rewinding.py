"""`toolkit runs rewind`: the checkpoints of a run, and the way back to one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from toolkit._base.words import safe_line
from toolkit.cli.terminal.command import RUN, command, json_option
from toolkit.cli.terminal.results import as_json, take_stdout, write_result

if TYPE_CHECKING:
    from toolkit.runs import Checkpoint, StoredRun

EXAMPLE = """
$ toolkit runs rewind last
NUMBER  TAKEN                CHANGED  WHAT
     1  2026-03-02 02:10:07        0  start of turn 1
     2  2026-03-02 02:14:31        3  start of turn 2
$ toolkit runs rewind last --to 2
$ toolkit run "Try it with a table instead." --resume last
"""


@command(example=EXAMPLE)
@RUN
@click.option("--to", type=int, metavar="NUMBER", help="The checkpoint to go back to.")
@json_option("Print the checkpoints, or what was done, as JSON.")
def rewind(run: StoredRun, to: int | None, wants_json: bool) -> None:
    """Take RUN's files and its conversation back together.

    Without --to: list its checkpoints, the start of every turn among them. With it, 'toolkit run --resume'
    goes on from that moment with the files of that moment. What is taken back becomes a checkpoint
    of its own, so that it can be had again. The host's files are not touched.
    """
    stdout = take_stdout()
    if to is None:
        found = run.checkpoints
        if wants_json:
            write_result(stdout, as_json([one.to_data() for one in found]))
        elif found:
            write_result(stdout, "\n".join(checkpoint_lines(found)))
        else:
            click.echo(f"Run {run.id} has no checkpoints: only runs on a copy have them (--mount).", err=True)
        return
    done = run.rewind(to)
    if wants_json:
        whole = {"to": done.to.to_data(), "back": done.back.to_data(), "is_beginning": done.is_beginning}
        write_result(stdout, as_json({"run": run.id, **whole}))
        return
    talk = "its conversation begins anew" if done.is_beginning else "its conversation goes on from there"
    write_result(stdout, f"run {run.id} is back at checkpoint {to} ({safe_line(done.to.label, 60)}); {talk}")
    click.echo(f"Go on: toolkit run PROMPT --resume {run.id}", err=True)
    click.echo(f"Have back what was taken: toolkit runs rewind {run.id} --to {done.back.number}", err=True)


def checkpoint_lines(found: list[Checkpoint]) -> list[str]:
    """Checkpoints as a table."""
    lines = [f"NUMBER  {'TAKEN':<19}  CHANGED  WHAT"]
    for one in found:
        taken = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.taken))
        lines.append(f"{one.number:>6}  {taken}  {one.changed:>7,}  {safe_line(one.label, 60)}")
    return lines
