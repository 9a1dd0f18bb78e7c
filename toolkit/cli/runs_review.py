"""`toolkit runs events|diff|apply|remove`: what a run did, and what becomes of it."""

from __future__ import annotations

from typing import Any

import click

from toolkit.cli._help import CommandWithExample
from toolkit.cli._results import as_json, take_stdout, write_result
from toolkit.cli._units import Duration

EVENTS_EXAMPLE = """
$ toolkit runs events last
$ toolkit runs events run-6c1f --follow --json | jq .kind
"""

DIFF_EXAMPLE = """
$ toolkit runs diff last
$ toolkit runs diff run-6c1f > change.patch
"""

APPLY_EXAMPLE = """
$ toolkit runs apply last --dry-run
$ toolkit runs apply run-6c1f src/app.py src/docs
"""

REMOVE_EXAMPLE = """
$ toolkit runs remove run-6c1f
$ toolkit runs remove --older-than 30d
"""


@click.command(cls=CommandWithExample, example=EVENTS_EXAMPLE)
@click.argument("run", metavar="RUN")
@click.option("--follow", is_flag=True, help="Wait for more until the run has ended.")
@click.option("--json", "wants_json", is_flag=True, help="Print each event as a line of JSON.")
def events(run: str, follow: bool, wants_json: bool) -> None:
    """Print what happened in RUN.

    A line for each tool call and warning, or with --json every event as it was stored.
    """
    stdout = take_stdout()
    from toolkit.cli._run_display import Display
    from toolkit.runs import load_run

    stored = load_run(run)
    printed: list[bool] = []
    display = Display(terminal=False, say=lambda line: printed.append(write_result(stdout, line)))
    for event in stored.follow() if follow else stored.events():
        if wants_json:
            printed.append(write_result(stdout, event.to_json()))
        else:
            display.show(event)
        if False in printed:  # nobody reads any more
            return
        printed.clear()
    if stored.state == "crashed":
        click.echo("Its launcher was killed: that is all there is.", err=True)


@click.command(cls=CommandWithExample, example=DIFF_EXAMPLE)
@click.argument("run", metavar="RUN")
@click.option("--stat", is_flag=True, help="Print a table of the changed files instead.")
@click.option("--json", "wants_json", is_flag=True, help="Print the changed files as JSON.")
def diff(run: str, stat: bool, wants_json: bool) -> None:
    """Print what RUN changed, as a patch.

    'git apply' takes it, binary files and modes included. What was applied already is not in it.
    """
    stdout = take_stdout()
    from toolkit._base.words import safe_text
    from toolkit.runs import load_run

    changes = load_run(run).changes()
    if wants_json:
        write_result(stdout, as_json(changes.to_json()))
    elif stat:
        write_result(stdout, changes.summary())
    elif stdout.isatty():
        write_result(stdout, safe_text(changes.patch().decode(errors="replace")))
    else:
        write_result(stdout, changes.patch())
    for path, reason in [] if wants_json or stat else changes.not_in_patch():
        click.echo(safe_text(f"not in the patch: {path}: {reason}"), err=True)


@click.command(cls=CommandWithExample, example=APPLY_EXAMPLE)
@click.argument("run", metavar="RUN")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--mount", "mounts", multiple=True, help="Only what lies in this mount; repeatable.")
@click.option("--dry-run", is_flag=True, help="Decide everything and write nothing.")
@click.option("--conflict-markers", is_flag=True, help="Write both versions where texts do not merge.")
@click.option("--json", "wants_json", is_flag=True, help="Print what was done as JSON.")
def apply(run: str, paths: tuple[str, ...], wants_json: bool, **chosen: Any) -> None:
    """Take the changes of RUN back to the host.

    All of them, or only the PATHs named, which are files or folders as 'toolkit runs diff --stat'
    shows them. All or nothing: if the host changed in a way that does not merge, nothing is written.
    """
    stdout = take_stdout()
    from toolkit._base.words import safe_text
    from toolkit.runs import load_run

    applied = load_run(run).apply(
        paths=paths or None,
        mounts=chosen["mounts"] or None,
        dry_run=chosen["dry_run"],
        conflict_markers=chosen["conflict_markers"],
    )
    if wants_json:
        write_result(stdout, as_json(applied.to_json()))
        return
    for one in applied.changes:
        write_result(stdout, safe_text(f"{one.action:<10} {one.path}"))
    for path, reason in applied.left:
        click.echo(safe_text(f"left       {path}: {reason}"), err=True)
    if applied.dry_run:
        click.echo("Nothing was written: this was a dry run.", err=True)
    elif not applied.changes:
        click.echo("There is nothing to apply.", err=True)


@click.command(cls=CommandWithExample, example=REMOVE_EXAMPLE)
@click.argument("names", nargs=-1, metavar="[RUN]...")
@click.option("--older-than", type=Duration(), metavar="TIME", help="All that ended longer ago: 12h, 30d.")
@click.option("--json", "wants_json", is_flag=True, help="Print the ids of the removed ones as JSON.")
def remove(names: tuple[str, ...], older_than: float | None, wants_json: bool) -> None:
    """Remove runs with their workspaces; never one that runs.

    What was not applied is gone then, and a conversation goes with the last run
    that belongs to it.
    """
    if bool(names) == (older_than is not None):
        raise click.UsageError("name the runs to remove, or give --older-than")
    stdout = take_stdout()
    from toolkit.runs import remove_older_than
    from toolkit.runs.storage import find_run

    if older_than is not None:
        removed = remove_older_than(older_than)
    else:
        chosen = {run.id: run for run in (find_run(name) for name in names)}
        for run in chosen.values():
            run.remove()
        removed = list(chosen)
    if wants_json:
        write_result(stdout, as_json({"removed": removed}))
        return
    for name in removed:
        write_result(stdout, f"removed {name}")
    if not removed:
        click.echo("Nothing was removed.", err=True)
