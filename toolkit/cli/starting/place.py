"""The options of `toolkit run` about the agent's surroundings: what is lent, where it is, its variables and servers."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit._base.words import safe_name
from toolkit.cli.terminal.command import NAMED, Bytes, check_roots, with_options

if TYPE_CHECKING:
    from toolkit.runs import InPlace, ProjectFile
    from toolkit.workspace import HostMount, WorkspaceSection

GIT = ("lend", "copy", "none")

place_options = with_options(
    click.option("--lend", multiple=True, metavar="DIR", help="Show this folder of a mount instead of copying it."),
    click.option(
        "--toolchain/--no-toolchain",
        default=None,
        help="Lend virtual environment, node_modules and interpreter.  [default: toolchain]",
    ),
    click.option("--at", metavar="PATH", help="Where the agent finds the mounts; at their own paths if not given."),
    click.option(
        "--git",
        type=click.Choice(GIT),
        help="A mount's history: lend it, copy .git as it is, or leave it out.  [default: lend]",
    ),
    click.option("--readable", multiple=True, metavar="PATH", help="Show this host path as well, read-only."),
    click.option(
        "--env", "variables", type=NAMED, multiple=True, metavar="NAME=VALUE", help="A variable for its commands."
    ),
    click.option("--env-from", "taken", multiple=True, metavar="NAME", help="A variable as it is set here."),
    click.option(
        "--server", "servers", type=NAMED, multiple=True, metavar="NAME=COMMAND", help="An MCP server inside the jail."
    ),
    click.option("--memory", type=Bytes(), metavar="SIZE", help="Most memory for all of it together: 8GB."),
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
        return InPlace(given["in_place"])
    mounts = _mounts(given, project)
    if not mounts:
        _refuse_without_mounts(given)
        return None
    roots = given["roots"] or (project.roots() if project and not given["mounts"] else ["."])
    at = given["at"] or (project.said("at") if project else None)
    section = WorkspaceSection(_lending(mounts, given["lend"]), allowed_host_roots=roots, at=at)
    check_roots(section, "--allow-root")
    Layout(places=tuple((part.landing, part.inside) for part in section.places.parts))
    return section


def _refuse_without_mounts(given: dict[str, Any]) -> None:
    for option in ("lend", "at", "git"):
        if given[option]:
            raise click.UsageError(f"--{option} is about what is mounted: write --mount as well")


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


def variables_of(given: dict[str, Any]) -> dict[str, str]:
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


def servers_of(given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The MCP servers, as a run takes them."""
    found: dict[str, dict[str, Any]] = {}
    for name, command in given["servers"]:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise click.UsageError(f"--server {safe_name(name)}: its command cannot be read: {error}") from None
        if not words:
            raise click.UsageError(f"--server {safe_name(name)}: there is no command; write NAME=COMMAND")
        if name in found:
            raise click.UsageError(f"two servers are called {safe_name(name)}: give one another name")
        found[name] = {"type": "stdio", "command": words[0], "args": words[1:]}
    return found
