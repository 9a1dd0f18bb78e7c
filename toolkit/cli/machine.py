"""`toolkit doctor`, `demo` and `completion`: is this machine ready, and what does the product do on it?"""

from __future__ import annotations

import itertools
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from toolkit.cli.terminal.command import command, json_option
from toolkit.cli.terminal.project import config_options, project_of
from toolkit.cli.terminal.results import echo_json

if TYPE_CHECKING:
    from toolkit.runs import ProjectFile, RunPlan


DOCTOR_EXAMPLE = """
$ toolkit doctor
$ toolkit doctor --mount .
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
@config_options
@json_option("As JSON.")
def doctor(mounts: tuple[str, ...], wants_json: bool, **which: Any) -> None:
    """Say what would stop a run on this machine, and the fix.

    Ends with 1 when something would. With --mount: the agent's python, pytest, node, git and compiler, each started
    once in the jail, with what the project file says of lent folders and variables.
    """
    from toolkit.doctor import examine, examine_project

    plan = _plan(mounts, project_of(which)) if mounts else None
    findings = []
    for finding in itertools.chain(examine(), examine_project(plan) if plan else ()):
        findings.append(finding)
        if not wants_json:
            mark = "ok" if finding.ok else "stops" if finding.stops else "note"
            click.echo(f"{mark:<6}{finding.name:<20}{finding.found}")
            if not finding.ok and finding.fix:
                click.echo(f"{'':<26}→ {finding.fix}")
    if wants_json:
        echo_json([asdict(finding) for finding in findings])
    sys.exit(any(finding.stops and not finding.ok for finding in findings))


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
