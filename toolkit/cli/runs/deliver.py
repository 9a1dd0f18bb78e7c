"""`toolkit runs branch` and `toolkit runs patch`: the work of a run as git takes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit._base.words import safe_name, safe_text, show_hidden
from toolkit.cli.terminal.command import RUN, command, json_option, with_options
from toolkit.cli.terminal.results import as_json, take_stdout, write_result

if TYPE_CHECKING:
    from toolkit.runs import StoredRun
    from toolkit_workspace.delivering import Delivered

BRANCH_EXAMPLE = """
$ toolkit runs branch last --name agent/fix-prices
agent/fix-prices  2 commits on 9c1f0e2  in /home/me/shop
$ git diff main...agent/fix-prices
"""

PATCH_EXAMPLE = """
$ toolkit runs patch last > change.mbox
$ git am change.mbox
$ toolkit runs patch last --pr-body body.md > change.mbox
"""

delivery_options = with_options(
    click.option("--onto", metavar="COMMIT", help="Where to begin; the commit the run began with if not given."),
    click.option("--message", metavar="TEXT", help="For what the agent did not commit itself."),
    click.option("--only", "paths", multiple=True, metavar="PATH", help="Only these files or folders, as one commit."),
    click.option("--mount", "mounts", multiple=True, help="Only this mount, by its place in the workspace."),
    click.option("--squash", is_flag=True, help="One commit for everything, instead of the agent's own."),
    click.option(
        "--with-uncommitted", is_flag=True, help="First a commit with what you had not committed in files it changed."
    ),
    click.option(
        "--pr-body",
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        metavar="FILE",
        help="Also write a summary in Markdown, for a pull request.",
    ),
)
"""What `branch` and `patch` share."""


@command(example=BRANCH_EXAMPLE)
@RUN
@click.option("--name", metavar="NAME", help="Of the branch.  [default: agent/RUN]")
@delivery_options
@click.option("--force", is_flag=True, help="Replace a branch of that name; never one that is checked out.")
@json_option("Print what was made as JSON.")
def branch(run: StoredRun, name: str | None, pr_body: Path | None, wants_json: bool, **given: Any) -> None:
    """Make the changes of RUN a branch of your repository.

    The agent's own commits come along, with the agent as their author, and one more for what it left
    uncommitted. Your working tree and index are not touched, and nothing of the workspace is run.
    """
    stdout = take_stdout()
    _write_body(run, pr_body)
    delivered = run.branch(name, **_options(given))
    if wants_json:
        write_result(stdout, as_json(delivered.to_json()))
        return
    from toolkit.cli.terminal.display import branch_lines

    for one in branch_lines(delivered.to_json()):
        write_result(stdout, one)
    _tell(delivered)


@command(example=PATCH_EXAMPLE)
@RUN
@delivery_options
def patch(run: StoredRun, pr_body: Path | None, **given: Any) -> None:
    """Print the changes of RUN as mails, which 'git am' takes.

    The same commits as 'toolkit runs branch' makes, binary files and modes included. Nothing is written to your
    repository.
    """
    stdout = take_stdout()
    _write_body(run, pr_body)
    delivered = run.mails(**_options(given))
    # Byte by byte for a file or pipe; a terminal gets none of the codes that could rewrite its screen.
    mails = delivered.mailbox
    write_result(stdout, safe_text(mails.decode("utf-8", "backslashreplace")) if stdout.isatty() else mails)
    _tell(delivered)


def _write_body(run: StoredRun, file: Path | None) -> None:
    """Write the summary first: where that fails, nothing has been made yet."""
    if file is None:
        return
    try:
        file.write_text(run.pull_request(), encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"--pr-body {safe_name(str(file))}: it cannot be written: {error.strerror}") from None


def _options(given: dict[str, Any]) -> dict[str, Any]:
    return {**given, "paths": given["paths"] or None, "mounts": given["mounts"] or None}


def _tell(delivered: Delivered) -> None:
    for path, reason in delivered.left:
        click.echo(f"left out: {safe_name(path)} ({show_hidden(reason)})", err=True)
    for path, reasons in sorted(delivered.marks.items()):
        click.echo(f"look twice: {safe_name(path)} ({show_hidden('; '.join(reasons))})", err=True)
