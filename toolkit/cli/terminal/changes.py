"""Changes of a workspace, and what was done with them: printed in one way wherever they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TextIO

import click

from toolkit._base.words import safe_name, safe_text
from toolkit.cli.terminal.command import json_option, with_options
from toolkit.cli.terminal.results import as_json, write_result

if TYPE_CHECKING:
    from toolkit.workspace import Applied, Changes

_MOST_ROWS = 500


apply_options = with_options(
    click.option(
        "--mount", "mounts", multiple=True, help="Only this mount, by its place in the workspace. Repeatable."
    ),
    click.option("--dry-run", is_flag=True, help="Say what would be done and write nothing."),
    click.option("--conflict-markers", is_flag=True, help="Write both versions where texts do not merge."),
    json_option("Print what was done as JSON."),
)
"""The options of every command that takes changes back to the host."""


def print_changes(stdout: TextIO, changes: Changes, form: Literal["table", "patch", "json"]) -> None:
    """The changes on stdout; what no patch can hold is named on stderr."""
    if form == "json":
        write_result(stdout, as_json(changes.to_json()))
    elif form == "table":
        write_result(stdout, changes.summary(max_rows=_MOST_ROWS))
    else:
        patch = changes.patch()
        # Byte by byte for a file or pipe; a terminal gets none of the codes that could rewrite its screen.
        write_result(stdout, safe_text(patch.decode("utf-8", "backslashreplace")) if stdout.isatty() else patch)
        for path, reason in changes.not_in_patch():
            click.echo(f"not in the patch: {safe_name(path)} ({reason})", err=True)


def print_applied(stdout: TextIO, applied: Applied, *, wants_json: bool) -> None:
    """What was done to the host, or would be, on stdout; what was left on stderr."""
    if wants_json:
        write_result(stdout, as_json(applied.to_json()))
        return
    would_be = "would be " if applied.dry_run else ""
    for one in applied.changes:
        write_result(stdout, f"{would_be}{one.action:8}  {safe_name(one.path)}")
    for path, reason in applied.left:
        click.echo(f"left: {safe_name(path)} ({reason})", err=True)
    if not applied.changes:
        click.echo("nothing to apply", err=True)
