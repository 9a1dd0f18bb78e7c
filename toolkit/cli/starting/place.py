"""The options of `toolkit run` about the agent's surroundings: what is copied and lent, where it is, its variables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit._base.words import safe_name
from toolkit.cli.terminal.command import MOUNT, NAMED, check_roots, with_options

if TYPE_CHECKING:
    from toolkit.runs import InPlace, ProjectFile
    from toolkit.workspace import HostMount, WorkspaceSection

GIT = ("lend", "copy", "none")
BACKENDS = ("auto", "copy", "overlay")

file_options = with_options(
    click.option(
        "--mount", "mounts", type=MOUNT, multiple=True, metavar="HOST[:WHERE]", help="Copy this into the workspace."
    ),
    click.option(
        "--allow-root",
        "roots",
        type=click.Path(exists=True, file_okay=False),
        multiple=True,
        metavar="DIR",
        help="Where mounts may come from.  [default: .]",
    ),
    click.option("--exclude", "excludes", multiple=True, metavar="PATTERN", help="Leave behind, as in a .gitignore."),
    click.option("--gitignore/--no-gitignore", default=None, help="Also leave behind what .gitignore files say."),
    click.option(
        "--leave-out-secrets/--with-secrets",
        default=None,
        help="Leave behind what usually holds credentials: .env, keys …",
    ),
    click.option(
        "--git",
        type=click.Choice(GIT),
        help="A mount's history: lend it, copy .git as it is, or leave it out.  [default: lend]",
    ),
    click.option("--lend", multiple=True, metavar="DIR", help="Show this folder of a mount instead of copying it."),
    click.option(
        "--backend",
        type=click.Choice(BACKENDS),
        help="Copy the mounts, or lay what is written over a copy that is kept.  [default: auto]",
    ),
    click.option("--at", metavar="PATH", help="Where the agent finds the mounts; at their own paths if not given."),
    click.option(
        "--in-place",
        type=click.Path(exists=True, file_okay=False),
        metavar="DIR",
        help="Let the agent change this folder itself: no copy, nothing to apply or undo.",
    ),
    title="Files",
)
place_options = with_options(
    click.option(
        "--toolchain/--no-toolchain",
        default=None,
        help="Lend virtual environment, node_modules and interpreter.  [default: toolchain]",
    ),
    click.option(
        "--folder",
        "folders",
        multiple=True,
        metavar="DIR",
        help="A host folder that its commands and file tools may read.",
    ),
    click.option(
        "--readable",
        multiple=True,
        metavar="PATH",
        help="A host file or folder that only its commands may read, such as a program's data.",
    ),
    click.option(
        "--env", "variables", type=NAMED, multiple=True, metavar="NAME=VALUE", help="A variable for its commands."
    ),
    click.option("--env-from", "taken", multiple=True, metavar="NAME", help="A variable as it is set here."),
    title="Further things of this machine",
)
"""Each is a part of `RunSpec` or of its mounts."""


def workspace_of(given: dict[str, Any], project: ProjectFile | None = None) -> WorkspaceSection | InPlace | None:
    """Where the agent works: a copy of the mounts, a host folder, or nothing of the host.

    `--mount` and `--in-place` take the place of the project file's mounts. What it says for all mounts holds for those
    of `--mount`, too; a folder to lend that they do not have is left out.

    Raises:
        SandboxError: it would stand where the jail has its own things.
    """
    from toolkit.runs import InPlace
    from toolkit.sandbox import Layout
    from toolkit.workspace import WorkspaceSection

    if given["in_place"] is not None:
        if given["mounts"]:
            raise click.UsageError("--mount makes a copy and --in-place does not: write one of them")
        _refuse_without_mounts(given)
        if given["leave_out_secrets"] is None and project and any(one.leave_out_secrets for one in project.mounts()):
            raise click.UsageError(
                f"--in-place shows the folder as it is, and {project.path.name} leaves out secrets\n"
                "  Write --mount DIR for a copy without them, or --with-secrets to show them"
            )
        return InPlace(given["in_place"])
    mounts = _mounts(given, project)
    if not mounts:
        _refuse_without_mounts(given)
        return None
    roots = given["roots"] or (project.roots() if project and not given["mounts"] else ["."])
    at = given["at"] or (project.said("at") if project else None)
    backend: Any = given["backend"] or "auto"
    section = WorkspaceSection(_lending(mounts, given["lend"]), allowed_host_roots=roots, at=at, backend=backend)
    check_roots(section, "--allow-root")
    Layout(places=tuple((part.landing, part.inside) for part in section.places.parts))
    return section


def _refuse_without_mounts(given: dict[str, Any]) -> None:
    names = {"excludes": "exclude", "leave_out_secrets": "leave-out-secrets", "roots": "allow-root"}
    for option in ("lend", "at", "git", "backend", "excludes", "gitignore", "leave_out_secrets", "roots"):
        if given[option]:
            raise click.UsageError(f"--{names.get(option, option)} is about what is mounted: write --mount as well")


def _mounts(given: dict[str, Any], project: ProjectFile | None) -> list[HostMount]:
    """The mounts that were given, else those of the project file; each with what is said for all of them."""
    from toolkit.runs import with_wishes
    from toolkit.workspace import HostMount

    wishes = {
        "exclude_glob": given["excludes"],
        "gitignore": given["gitignore"],
        "git": given["git"],
        "leave_out_secrets": given["leave_out_secrets"],
    }
    mounts = [HostMount(host, where) for host, where in given["mounts"]]
    if project is not None:
        own = [] if given["resume"] else project.mounts()  # a conversation goes on where it was
        mounts = project.dressed(mounts) if mounts else own
    return [with_wishes(mount, wishes, win=True) for mount in mounts]


def _lending(mounts: Sequence[HostMount], folders: Iterable[str]) -> list[HostMount]:
    """The mounts, each with the folders of it that are lent."""
    from toolkit.runs import lend_to

    lending, lost = lend_to(mounts, folders, Path.cwd())
    if lost:
        raise click.UsageError(
            f"--lend {safe_name(lost[0])}: no mount has such a folder\n"
            "  Write it relative to a mount, as in --mount . --lend .venv, or as a path that lies in one;\n"
            "  what lies elsewhere is shown with --readable"
        )
    return lending


def _variables(given: dict[str, Any]) -> dict[str, str]:
    """The variables for the agent: those that were written, and those that were asked for by name."""
    found: dict[str, str] = {}
    taken = []
    for name in given["taken"]:
        if name not in os.environ:
            raise click.UsageError(f"--env-from {safe_name(name)}: no such variable is set here")
        taken.append((name, os.environ[name]))
    for name, value in (*given["variables"], *taken):
        if name in found:
            raise click.UsageError(f"the variable {safe_name(name)} is given twice: write --env or --env-from once")
        found[name] = value
    return found


def surroundings_of(given: dict[str, Any]) -> dict[str, Any]:
    """What else of this machine the agent has, as a run takes it."""
    return {
        "toolchain": given["toolchain"],
        "folders": given["folders"],
        "readable": given["readable"],
        "env": _variables(given),
    }
