"""`toolkit workspace`: plan and prepare safe copies, list and clean them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from toolkit.workspace import Progress, WorkspaceSection

_ELSEWHERE: dict[str, tuple[str, str]] = {
    "apply": ("toolkit.cli.workspace_changes:apply", "Take an agent's changes back to the host, all or nothing."),
    "diff": ("toolkit.cli.workspace_changes:diff", "Show what changed in a workspace since it was prepared."),
}
"""Subcommands that live in files of their own: `module:attribute` and their summary."""


class _WorkspaceGroup(click.Group):
    """A group that imports the larger subcommands only to run them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_ELSEWHERE})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = _ELSEWHERE[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_WorkspaceGroup)
def workspace() -> None:
    """Give an agent a safe copy of host files, and clean up after it.

    \b
    Example:
      toolkit workspace plan --mount src --exclude '*.pyc'
    """


class _Bytes(click.ParamType[int]):
    """A number of bytes: 5000000, 5_000_000, 5MB, 1.5GB."""

    name = "bytes"
    _UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}  # noqa: RUF012

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip().lower()
        number = text.rstrip("bkmgt").strip()
        unit = text[len(number) :].strip()
        try:
            return int(float(number) * self._UNITS[unit]) if "." in number else int(number) * self._UNITS[unit]
        except (ValueError, KeyError, OverflowError):
            self.fail(f"{value!r} is no number of bytes: write 5000000 or 5MB", param, ctx)


def _mount_options(command: Callable[..., None]) -> Callable[..., None]:
    options = [
        click.option(
            "--mount",
            "mounts",
            multiple=True,
            required=True,
            metavar="HOST[:WHERE]",
            help="A host file or folder, and where it lands in the workspace. Repeatable.",
        ),
        click.option(
            "--root",
            "roots",
            multiple=True,
            default=(".",),
            show_default=True,
            help="A folder the mounts must lie in. Repeatable.",
        ),
        click.option("--include", multiple=True, metavar="PATTERN", help="Take only this, as in a .gitignore file."),
        click.option("--exclude", multiple=True, metavar="PATTERN", help="Leave this out, as in a .gitignore file."),
        click.option("--gitignore", is_flag=True, help="Leave out what the tree's own .gitignore files name."),
        click.option(
            "--follow-symlinks", is_flag=True, help="Copy what links out of a mount lead to, if a root holds it."
        ),
        click.option("--max-bytes", type=_Bytes(), help="The most bytes each mount may have, for example 50MB."),
        click.option("--strict", is_flag=True, help="A file that cannot be read is an error."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _section(options: dict[str, Any], **more: Any) -> WorkspaceSection:
    from toolkit.workspace import HostMount, WorkspaceSection

    mounts = []
    for text in options["mounts"]:
        host, _, where = text.rpartition(":") if ":" in text and not Path(text).exists() else (text, "", "")
        mounts.append(
            HostMount(
                host,
                where or None,
                options["include"],
                options["exclude"],
                options["max_bytes"],
                options["follow_symlinks"],
                options["gitignore"],
            )
        )
    return WorkspaceSection(mounts, options["roots"], strict=options["strict"], **more)


def _print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=2))


@workspace.command()
@_mount_options
def plan(as_json: bool, **options: Any) -> None:
    """Show what a workspace would hold and leave out.

    A tree with sizes, and what stays behind by which rule. Nothing is copied.
    Exit 1 if a mount is larger than --max-bytes.

    \b
    Example:
      toolkit workspace plan --mount . --gitignore --exclude .git/
    """
    found = _section(options).plan()
    if as_json:
        _print_json(found.to_json())
    else:
        click.echo(found.tree())
    if any(mount.is_over_budget for mount in found.mounts):
        sys.exit(1)


@workspace.command()
@_mount_options
@click.option(
    "--parent", type=click.Path(file_okay=False), help="Where the workspace is made; the temp folder if not given."
)
def prepare(as_json: bool, parent: str | None, **options: Any) -> None:
    """Make a workspace, print its path and leave it.

    'toolkit workspace diff' and 'apply' work on it; 'clean --kept' removes it.

    \b
    Example:
      cd "$(toolkit workspace prepare --mount src)"
    """
    bar = _Bar()
    section = _section(options, parent=parent, keep=True, progress=bar)
    bar.of = lambda: section.plan().files
    try:
        with section:
            facts = {"temp_dir": str(section.temp_dir), "fingerprint": section.fingerprint() if as_json else ""}
            text = section.render()
    finally:
        bar.done()
    if as_json:
        _print_json({**facts, "text": text})
    else:
        click.echo(facts["temp_dir"])


class _Bar:
    """A progress bar on a terminal, from the second second on."""

    def __init__(self) -> None:
        self.of: Callable[[], int] = int
        self._start = time.monotonic()
        self._bar: Any = None
        self._at = 0

    def __call__(self, progress: Progress) -> None:
        if self._bar is None:
            if time.monotonic() - self._start < 1 or not sys.stderr.isatty():
                return
            self._bar = click.progressbar(length=self.of(), label="copying", file=sys.stderr, show_pos=True)
            self._bar.__enter__()
        self._bar.update(progress.files - self._at)
        self._at = progress.files

    def done(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)


_PARENT = click.option(
    "--parent", type=click.Path(exists=True, file_okay=False), help="Where to look; the temp folder if not given."
)


@workspace.command(name="list")
@_PARENT
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(parent: str | None, as_json: bool) -> None:
    """List the workspaces of this user: in use, kept, left over, or with an unfinished apply.

    \b
    Example:
      toolkit workspace list
    """
    from toolkit_workspace import default_parent, find_workspaces

    found = find_workspaces(Path(parent).absolute() if parent else default_parent())
    rows = [
        {"path": str(one.temp_dir), "status": one.status, "pid": one.pid, "created": one.created, "mounts": one.mounts}
        for one in found
    ]
    if as_json:
        _print_json(rows)
        return
    for one in found:
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.created))
        click.echo(f"{one.status:10}  {made}  {one.temp_dir}  {', '.join(map(ascii, one.mounts))}")
    if not found:
        click.echo("no workspaces", err=True)


@workspace.command()
@_PARENT
@click.option("--kept", is_flag=True, help="Also remove those that were meant to stay.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def clean(parent: str | None, kept: bool, as_json: bool) -> None:
    """Remove what killed processes left over.

    Never a workspace whose owner lives, and only with --kept one that was meant to stay.

    \b
    Example:
      toolkit workspace clean
    """
    from toolkit_workspace import clean_workspaces, default_parent

    place = Path(parent).absolute() if parent else default_parent()
    removed = [str(one.temp_dir) for one in clean_workspaces(place, kept=kept)]
    if as_json:
        _print_json(removed)
        return
    for path in removed:
        click.echo(f"removed {path}")
    if not removed:
        click.echo("nothing to clean", err=True)
