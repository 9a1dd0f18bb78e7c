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
    from toolkit.runs import InPlace
    from toolkit.workspace import HostMount, WorkspaceSection

GIT = ("lend", "copy", "none")

place_options = with_options(
    click.option("--lend", multiple=True, metavar="DIR", help="Show this folder of a mount instead of copying it."),
    click.option("--no-toolchain", is_flag=True, help="Lend no virtual environment, node_modules or interpreter."),
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


def workspace_of(given: dict[str, Any]) -> WorkspaceSection | InPlace | None:
    """Where the agent works: a copy of the mounts, a host folder, or nothing of the host.

    Raises:
        SandboxError: it would stand where the jail has its own things.
    """
    from toolkit.runs import InPlace
    from toolkit.sandbox import Layout
    from toolkit.workspace import HostMount, WorkspaceSection

    if not given["mounts"]:
        for option in ("lend", "at", "git"):
            if given[option]:
                raise click.UsageError(f"--{option} is about what is mounted: write --mount as well")
    if given["in_place"] is not None:
        if given["mounts"]:
            raise click.UsageError("--mount makes a copy and --in-place does not: write one of them")
        return InPlace(given["in_place"])
    if not given["mounts"]:
        return None
    mounts = [
        HostMount(
            host,
            where,
            exclude_glob=given["excludes"],
            gitignore=given["gitignore"],
            git=given["git"] or "lend",
            leave_out_secrets=given["leave_out_secrets"],
        )
        for host, where in given["mounts"]
    ]
    section = WorkspaceSection(_lending(mounts, given["lend"]), allowed_host_roots=given["roots"], at=given["at"])
    check_roots(section, "--allow-root")
    Layout(places=tuple((part.landing, part.inside) for part in section.places.parts))
    return section


def _lending(mounts: Sequence[HostMount], folders: Iterable[str]) -> list[HostMount]:
    """The mounts, each with the folders of it that are lent."""
    from dataclasses import replace

    lent: dict[int, list[str]] = {}
    for folder in folders:
        found = [(number, below) for number, mount in enumerate(mounts) if (below := _below(mount, folder))]
        if not found:
            raise click.UsageError(
                f"--lend {safe_name(folder)}: no mount has such a folder\n"
                "  Write it relative to a mount, as in --mount . --lend .venv, or as a path that lies in one;\n"
                "  what lies elsewhere is shown with --readable"
            )
        for number, below in found:
            lent.setdefault(number, []).append(below)
    return [replace(mount, lend=tuple(lent.get(number, ()))) for number, mount in enumerate(mounts)]


def _below(mount: HostMount, folder: str) -> str | None:
    """What a mount calls a folder that was written relative to it, to the current folder, or as a whole path."""
    top = Path(os.path.abspath(mount.host_path))  # noqa: PTH100 - links in the path must stay
    for path in (top / folder, Path.cwd() / folder):
        whole = Path(os.path.normpath(path))
        for above in (top, top.resolve()):
            if whole != above and whole.is_relative_to(above) and whole.is_dir():
                return str(whole.relative_to(above))
    return None


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
