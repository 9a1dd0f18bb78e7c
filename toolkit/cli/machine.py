"""`toolkit doctor`, `demo` and `completion`: is this machine ready, and what does the product do on it?"""

from __future__ import annotations

import itertools
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from toolkit.cli.quick.findings import is_project, show, would_stop
from toolkit.cli.terminal.command import command, json_option
from toolkit.cli.terminal.project import config_options, project_of
from toolkit.cli.terminal.results import echo_json

if TYPE_CHECKING:
    from toolkit.doctor import Finding
    from toolkit.runs import ProjectFile, RunPlan


DOCTOR_EXAMPLE = """
$ toolkit doctor
$ toolkit doctor --mount .
$ toolkit doctor --online
"""


@command(example=DOCTOR_EXAMPLE)
@click.option(
    "--mount",
    "mounts",
    type=click.Path(exists=True, file_okay=False),
    multiple=True,
    metavar="DIR",
    help="Say as well what an agent will have in this project.",
)
@click.option("--online", is_flag=True, help="Ask the model API whether it takes the key: one free request.")
@config_options
@json_option("As JSON.")
def doctor(mounts: tuple[str, ...], online: bool, wants_json: bool, **which: Any) -> None:
    """Say what would stop a run on this machine, and the fix.

    Ends with 1 when something would. With --mount, and in a folder with a .git or a toolkit.toml: the agent's python,
    pytest, node, git and compiler, each started once in the jail, with what the project file says of lent folders and
    variables.
    """
    from toolkit import doctor as looking

    plan, notes = (_plan(mounts, project_of(which)), []) if mounts else _plan_here(which)
    keys = (looking.examine_key() for _ in range(online))
    found = itertools.chain(looking.examine(), keys, notes, looking.examine_project(plan) if plan else ())
    if not wants_json:
        sys.exit(show(found))
    findings = list(found)
    echo_json([asdict(finding) for finding in findings])
    sys.exit(any(map(would_stop, findings)))


def _plan_here(which: dict[str, Any]) -> tuple[RunPlan | None, list[Finding]]:
    """What a run in this folder would be given, where it is a project. A project file holds once it is accepted."""
    if not is_project():
        return None, []
    from toolkit.doctor import Finding
    from toolkit.runs import ProjectFile

    if any(which.values()):
        return _plan((".",), project_of(which)), []
    file = ProjectFile.find()
    if file is None or file.trust == "accepted":
        return _plan((".",), file), []
    found = "not accepted on this machine, so the following is without it"
    return _plan((".",), None), [Finding("toolkit.toml", False, found, "Read it, then: toolkit doctor --trust", False)]


def _plan(mounts: tuple[str, ...], project: ProjectFile | None) -> RunPlan:
    """What a run with these mounts would be given."""
    from toolkit.runs import RunSpec, plan_run
    from toolkit.workspace import HostMount, WorkspaceSection

    made = [HostMount(mount) for mount in mounts]
    section = WorkspaceSection(project.dressed(made) if project else made, allowed_host_roots=mounts)
    options = {"workspace": section} if project is None else project.options(workspace=section)
    return plan_run(RunSpec("(none)", **options))


@command(example="$ toolkit demo")
@click.option("--live", is_flag=True, help="Use the real model; needs a key, as a run does.")
@click.option("--as", "as_typed", default="toolkit", hidden=True, help="What the reader types to get at the toolkit.")
def demo(live: bool, as_typed: str) -> None:
    """Show the product at work: no key, no network.

    An agent fixes a failing test in a copy of a small project, confined. Its model is scripted;
    the CLI, the jail, the tools and the files are real.
    """
    from toolkit.demo import demo as show
    from toolkit.sandbox import find_api

    if live and find_api().lacks_key:
        raise click.UsageError("--live needs a key: set ANTHROPIC_API_KEY, or leave --live out")
    result = show(click.echo, live=live, command=as_typed)
    sys.exit(0 if result is not None and result.ok else 1)


COMPLETION_EXAMPLE = """
$ toolkit completion bash >> ~/.bashrc
$ toolkit completion fish > ~/.config/fish/completions/toolkit.fish
"""


@command(example=COMPLETION_EXAMPLE)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell."""
    from toolkit.cli import toolkit

    maker = get_completion_class(shell)
    assert maker is not None
    click.echo(maker(toolkit, {}, "toolkit", "_TOOLKIT_COMPLETE").source())
