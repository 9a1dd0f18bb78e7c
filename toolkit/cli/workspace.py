"""`toolkit workspace`: plan and prepare safe copies, look at what changed, take it back, and clean up."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.terminal.command import (
    MOUNT,
    Bytes,
    Group,
    apply_options,
    check_apply_options,
    check_roots,
    json_option,
    with_options,
)
from toolkit.cli.terminal.results import (
    echo_json,
    print_applied,
    print_changes,
    print_gone_on,
    take_stdout,
    telling_at_ctrl_c,
)

if TYPE_CHECKING:
    from toolkit.errors import WorkspaceError
    from toolkit.workspace import Progress, WorkspaceSection


@click.group(cls=Group, epilog="Run 'toolkit workspace COMMAND --help' for options and an example.")
def workspace() -> None:
    """Give an agent a safe copy of host files, and clean up after it."""


def _not_empty(fix: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Refuse an empty path, as an unset variable leaves it: to Python it is the current folder, or everything."""

    def check(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
        if value == "" or (isinstance(value, tuple) and "" in value):
            raise click.BadParameter(f"the path is empty: {fix}")
        return value

    return check


_no_empty_folder = _not_empty("write '.' for the current folder")


_mount_options = with_options(
    click.option(
        "--mount",
        "mounts",
        type=MOUNT,
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
        callback=_no_empty_folder,
        help="A folder the mounts must lie in. Repeatable.",
    ),
    click.option("--include", multiple=True, metavar="PATTERN", help="Take only this, as in a .gitignore file."),
    click.option("--exclude", multiple=True, metavar="PATTERN", help="Leave this out, as in a .gitignore file."),
    click.option("--gitignore", is_flag=True, help="Leave out what the tree's own .gitignore files name."),
    click.option("--follow-symlinks", is_flag=True, help="Copy what links out of a mount lead to, if a root holds it."),
    click.option("--max-bytes", type=Bytes(), help="The most bytes each mount may have, for example 50MB."),
    click.option("--strict", is_flag=True, help="A file that cannot be read is an error."),
    json_option(),
)


def _section(options: dict[str, Any], **more: Any) -> WorkspaceSection:
    from toolkit.workspace import HostMount, WorkspaceSection

    rules = {name: options[name] for name in ("max_bytes", "follow_symlinks", "gitignore")}
    mounts = [
        HostMount(host, where, options["include"], options["exclude"], **rules) for host, where in options["mounts"]
    ]
    return check_roots(WorkspaceSection(mounts, options["roots"], strict=options["strict"], **more), "--root")


@workspace.command(example="$ toolkit workspace plan --mount . --gitignore --exclude .git/")
@_mount_options
def plan(wants_json: bool, **options: Any) -> None:
    """Show what a workspace would hold and leave out.

    A tree with sizes, and what stays behind by which rule. Nothing is copied.
    Exit 1 if a mount is larger than --max-bytes.
    """
    found = _section(options).plan()
    if wants_json:
        echo_json(found.to_json())
    else:
        click.echo(found.tree())
    if any(mount.is_over_budget for mount in found.mounts):
        sys.exit(1)


@workspace.command(example='$ cd "$(toolkit workspace prepare --mount src)"')
@_mount_options
@click.option(
    "--parent",
    type=click.Path(file_okay=False),
    callback=_no_empty_folder,
    help="Where the workspace is made; the temp folder if not given.",
)
@click.option(
    "--backend",
    type=click.Choice(["auto", "copy", "overlay"]),
    default="copy",
    show_default=True,
    help="An overlay has only what is written in its folder: the rest shows in a jail. auto: for large trees.",
)
def prepare(wants_json: bool, parent: str | None, backend: str, **options: Any) -> None:
    """Make a workspace, print its path and leave it.

    'toolkit workspace diff' and 'apply' work on it; 'clean --kept' removes it. 'toolkit sandbox exec --workspace'
    runs a command in it, which sees all of it whatever the backend.
    """
    from toolkit_workspace import left_unread_text

    bar = _Bar()
    section = _section(options, parent=parent, keep=True, progress=bar, backend=backend)
    bar.of = lambda: section.plan().files
    try:
        with section:
            facts = {"temp_dir": str(section.temp_dir), "fingerprint": section.fingerprint() if wants_json else ""}
            text = section.render()
            used, why = section.filled_by
            unread = left_unread_text(section.left_out)
    finally:
        bar.done()
    if unread:
        click.echo(unread, err=True)
    if wants_json:
        echo_json({**facts, "backend": {"used": used, "why": why}, "text": text})
    else:
        if backend != "copy":
            click.echo(f"{used}: {why}", err=True)
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


@workspace.command("list", example="$ toolkit workspace list")
@_PARENT
@json_option()
def list_(parent: str | None, wants_json: bool) -> None:
    """List the workspaces of this user, and what each is.

    In use, kept, left over, or with an unfinished apply.
    """
    from toolkit_workspace import default_parent, find_workspaces

    found = find_workspaces(Path(parent).absolute() if parent else default_parent())
    rows = [
        {
            "path": str(one.temp_dir),
            "status": one.status,
            "pid": one.pid,
            "created": one.created,
            "mounts": one.mounts,
            "backend": one.backend,
        }
        for one in found
    ]
    if wants_json:
        echo_json(rows)
        return
    for one in found:
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.created))
        backend = "" if one.backend == "copy" else f"  {one.backend}"
        click.echo(f"{one.status:10}  {made}  {one.temp_dir}  {', '.join(map(ascii, one.mounts))}{backend}")
    if not found:
        click.echo("no workspaces", err=True)


@workspace.command(example="$ toolkit workspace clean")
@_PARENT
@click.option("--kept", is_flag=True, help="Also remove those that were meant to stay.")
@json_option()
def clean(parent: str | None, kept: bool, wants_json: bool) -> None:
    """Remove what killed processes left over.

    Never a workspace whose owner lives, and only with --kept one that was meant to stay. Copies that were kept for
    overlays, and that none uses, go as well: over 30 days old, or those used longest ago beyond 2 GiB.
    """
    from toolkit_workspace import clean_workspaces, default_parent
    from toolkit_workspace.pristine import KeptCopies

    place = Path(parent).absolute() if parent else default_parent()
    removed = [str(one.temp_dir) for one in clean_workspaces(place, kept=kept)]
    copies = KeptCopies()
    removed += [str(copies.folder / one.name) for one in copies.tidy() if one.gone]
    if wants_json:
        echo_json(removed)
        return
    for path in removed:
        click.echo(f"removed {path}")
    if not removed:
        click.echo("nothing to clean", err=True)


_FOLDER = click.argument("workspace_dir", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
_PATHS = click.option(
    "--path",
    "paths",
    multiple=True,
    callback=_not_empty("write a path of the workspace, or leave the option out for all of it"),
    help="Only this file or folder, relative to the workspace. Repeatable.",
)

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


@workspace.command(example=DIFF_EXAMPLE)
@_FOLDER
@_PATHS
@click.option("--patch", is_flag=True, help="Print a patch for 'git apply' instead of a table.")
@json_option()
def diff(workspace_dir: Path, paths: tuple[str, ...], patch: bool, wants_json: bool) -> None:
    """Show what changed in a workspace since it was prepared.

    DIR is what 'toolkit workspace prepare' printed. A change marked with ! deserves a second look. Nothing
    in the workspace is run. It works while the agent is still at it, too.
    """
    from toolkit_workspace import Workspace
    from toolkit_workspace.changes import changes_of

    stdout = take_stdout()
    # By looking only, without opening a section: the owner of the workspace may be at work in it.
    looked_at = Workspace.found(workspace_dir)
    changes = changes_of(looked_at)
    if looked_at.has_unfinished_apply:
        click.echo(f"{looked_at.unfinished()}\n", err=True)
    print_changes(
        stdout, changes.below(*paths) if paths else changes, "json" if wants_json else "patch" if patch else "table"
    )


@workspace.command(example=APPLY_EXAMPLE)
@_FOLDER
@_PATHS
@apply_options
def apply(
    workspace_dir: Path,
    paths: tuple[str, ...],
    mounts: tuple[str, ...],
    resume: bool,
    undo: bool,
    wants_json: bool,
    **how: bool,
) -> None:
    """Take an agent's changes back to the host, all or nothing.

    What the host changed since is merged; what does not merge stops everything before the first write.
    Killed at any point, it is finished with --resume or taken back with --undo.
    """
    check_apply_options(resume, undo, chosen=bool(paths or mounts or any(how.values())))
    from toolkit.workspace import WorkspaceSection
    from toolkit_workspace import Workspace

    def unfinished() -> WorkspaceError | None:
        looked_at = Workspace.found(workspace_dir)
        return looked_at.unfinished() if looked_at.has_unfinished_apply else None

    stdout = take_stdout()
    with telling_at_ctrl_c(unfinished), WorkspaceSection.open(workspace_dir) as section:
        if resume or undo:
            print_gone_on(stdout, section, undo=undo, wants_json=wants_json)
            return
        applied = section.apply(paths=paths or None, mounts=mounts or None, **how)
        print_applied(stdout, applied, wants_json=wants_json)
