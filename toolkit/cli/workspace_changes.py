"""`toolkit workspace diff` and `apply`: look at what an agent did, and take back what you like."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolkit._base.words import safe_name, safe_text
from toolkit.cli._help import CommandWithExample

if TYPE_CHECKING:
    from toolkit_workspace import Applied, Changes, WorkspaceSection

_FOLDER = click.argument("workspace_dir", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
_PATHS = click.option(
    "--path", "paths", multiple=True, help="Only this file or folder, relative to the workspace. Repeatable."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

DIFF_EXAMPLE = """
$ toolkit workspace diff /tmp/toolkit-workspace-0a1b2c3d4e5f
M  src/app.py  +1 −0
A  src/run.sh  +2 −0  ! executable
2 changes: 1 added, 1 modified; 1 to look at twice (!)
"""

APPLY_EXAMPLE = """
$ toolkit workspace apply /tmp/toolkit-workspace-0a1b2c3d4e5f --path src/app.py
replaced  src/app.py
"""


@click.command(cls=CommandWithExample, example=DIFF_EXAMPLE)
@_FOLDER
@_PATHS
@click.option("--patch", is_flag=True, help="Print a patch for 'git apply' instead of a table.")
@_JSON
def diff(workspace_dir: Path, paths: tuple[str, ...], patch: bool, as_json: bool) -> None:
    """Show what changed in a workspace since it was prepared.

    DIR is what 'toolkit workspace prepare' printed. A change marked with ! deserves a second look. Nothing
    in the workspace is run. It works while the agent is still at it, too.
    """
    changes = _narrowed(_changes(workspace_dir), paths)
    if as_json:
        click.echo(json.dumps(changes.to_json(), indent=2))
    elif patch:
        _print_patch(changes.patch())
        for path, reason in changes.not_in_patch():
            click.echo(f"not in the patch: {_shown(path)} ({reason})", err=True)
    else:
        click.echo(changes.summary(max_rows=500))


@click.command(cls=CommandWithExample, example=APPLY_EXAMPLE)
@_FOLDER
@_PATHS
@click.option("--mount", "mounts", multiple=True, help="Only this mount, by its place in the workspace. Repeatable.")
@click.option("--dry-run", is_flag=True, help="Say what would be done and write nothing.")
@click.option("--conflict-markers", is_flag=True, help="Write texts that do not merge with both versions in them.")
@click.option("--resume", is_flag=True, help="Finish an apply that was interrupted.")
@click.option("--undo", is_flag=True, help="Take back an interrupted apply, or the last finished one.")
@_JSON
def apply(
    workspace_dir: Path,
    paths: tuple[str, ...],
    mounts: tuple[str, ...],
    dry_run: bool,
    conflict_markers: bool,
    resume: bool,
    undo: bool,
    as_json: bool,
) -> None:
    """Take an agent's changes back to the host, all or nothing.

    What the host changed since is merged; what does not merge stops everything before the first write.
    Killed at any point, it is finished with --resume or taken back with --undo.
    """
    if resume and undo:
        raise click.UsageError("--resume and --undo exclude each other")
    if (resume or undo) and (paths or mounts or dry_run or conflict_markers):
        raise click.UsageError("--resume and --undo take no other options: what was chosen then is finished or undone")
    with _opened(workspace_dir) as section:
        if resume or undo:
            _settle(section, undo=undo, as_json=as_json)
            return
        applied = section.apply(
            paths=paths or None, mounts=mounts or None, dry_run=dry_run, conflict_markers=conflict_markers
        )
    if as_json:
        click.echo(json.dumps(applied.to_json(), indent=2))
    else:
        _print_applied(applied)


def _opened(workspace_dir: Path) -> WorkspaceSection:
    from toolkit_workspace import WorkspaceSection

    return WorkspaceSection.open(workspace_dir)


def _changes(workspace_dir: Path) -> Changes:
    """The changes, by looking only: the owner of the workspace may be at work in it."""
    from toolkit_workspace import Workspace, changes_of

    return changes_of(Workspace(workspace_dir.resolve()))


def _narrowed(changes: Changes, paths: tuple[str, ...]) -> Changes:
    return changes.below(*paths) if paths else changes


def _settle(section: WorkspaceSection, *, undo: bool, as_json: bool) -> None:
    done = section.undo_apply() if undo else section.resume_apply()
    word = "undone" if undo else "resumed"
    if as_json:
        click.echo(json.dumps({word: done}))
    elif done:
        click.echo("taken back: the host is as it was" if undo else "finished: all changes are applied")
    else:
        click.echo("no apply had begun to write: nothing to " + ("take back" if undo else "finish"), err=True)


def _print_applied(applied: Applied) -> None:
    for one in applied.changes:
        click.echo(f"{'would be ' if applied.dry_run else ''}{one.action:8}  {_shown(one.path)}")
    for path, reason in applied.left:
        click.echo(f"left: {_shown(path)} ({reason})", err=True)
    if not applied.changes:
        click.echo("nothing to apply", err=True)


def _print_patch(patch: bytes) -> None:
    """To a file or pipe byte by byte; on a terminal without the codes that could rewrite the screen."""
    if sys.stdout.isatty():
        text = patch.decode("utf-8", "backslashreplace")
        click.echo(safe_text(text), nl=False)
    else:
        sys.stdout.buffer.write(patch)


def _shown(path: str) -> str:

    return safe_name(path)
