"""`toolkit runs clean`: make room by removing copies that nobody needs any more."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from toolkit._base.words import count_text, safe_name, size_text
from toolkit.cli.terminal.command import Bytes, Duration, command, json_option
from toolkit.cli.terminal.results import as_json, take_stdout, write_result
from toolkit.errors import RunError

if TYPE_CHECKING:
    from toolkit.runs.storage.tidying import Tidied

EXAMPLE = """
$ toolkit runs clean
$ toolkit runs clean --older-than 7d --larger-than 500M --dry-run
"""


@command(example=EXAMPLE)
@click.option("--older-than", type=Duration(), metavar="TIME", help="Runs that ended longer ago.  [default: 30d]")
@click.option("--larger-than", type=Bytes(), metavar="SIZE", help="The oldest beyond this size.  [default: 2G]")
@click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@json_option("Print it as JSON.")
def clean(older_than: float | None, larger_than: int | None, dry_run: bool, wants_json: bool) -> None:
    """Remove the workspaces of old runs, and keep the rest of them; and copies kept for overlays that none uses.

    A copy stays while its run lives, while a later run works in it, and while it holds changes that were not
    applied. 'toolkit run' does the same at its end with the default bounds. To remove whole runs: toolkit runs remove.
    """
    stdout = take_stdout()
    from toolkit.runs.storage import KEPT_BYTES, KEPT_SECONDS, tidy_copies

    done = tidy_copies(
        most_bytes=KEPT_BYTES if larger_than is None else larger_than,
        most_seconds=KEPT_SECONDS if older_than is None else older_than,
        dry_run=dry_run,
    )
    if wants_json:
        write_result(stdout, as_json([dataclasses.asdict(one) for one in done]))
        _end_with_unfinished(done)
        return
    for one in done:
        word = ("would go" if dry_run else "removed") if one.gone else "stays"
        what = one.run if one.kept_copy is None else f"the kept copy of {', '.join(map(safe_name, one.kept_copy))}"
        write_result(stdout, f"{word:<9} {what}  {size_text(one.size):>9}  {one.why}")
    if not done:
        click.echo("no copy is over a bound", err=True)
    _end_with_unfinished(done)


def _end_with_unfinished(done: Sequence[Tidied]) -> None:
    """Fail, once all others are done, for copies that stay until their apply is settled."""
    unfinished = [one for one in done if one.unfinished]
    if unfinished:
        command = f"toolkit runs apply {unfinished[0].run if len(unfinished) == 1 else 'RUN'}"
        raise RunError(
            f"{count_text(len(unfinished), 'workspace')} could not be removed",
            where=[f"run {one.run}: {one.why}" for one in unfinished],
            fix=f"Apply all of it: {command} --resume, or take all of it back: {command} --undo",
        )


def tidy_afterwards() -> None:
    """What 'toolkit run' does at its end: remove what is over the default bounds, and name it."""
    from toolkit.runs.storage import tidy_copies

    gone = [one for one in tidy_copies() if one.gone]
    for one in gone:
        what = f"the copy of run {one.run}" if one.kept_copy is None else f"the kept copy {one.run}"
        click.echo(f"{what} was removed: {one.why}", err=True)
    if gone:
        size = size_text(sum(one.size for one in gone))
        click.echo(f"{count_text(len(gone), 'copy')} with {size}; the runs themselves are kept", err=True)
