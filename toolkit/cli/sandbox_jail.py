"""`toolkit sandbox check` and `toolkit sandbox exec`: the jail for people at a terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from toolkit.sandbox import CheckReport, JailLimits, ShellOptions, limit_names, run_confined
from toolkit.sandbox import check as run_check

_READABLE = click.option(
    "--readable",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Also show this host path, read-only; repeatable.",
)
_REQUIRE = click.option(
    "--require", multiple=True, type=click.Choice(limit_names()), help="Refuse unless this limit holds; repeatable."
)


@click.command(
    epilog="""\b
Examples:
  toolkit sandbox check
  toolkit sandbox check --workspace ./copy --json"""
)
@click.option("--workspace", type=click.Path(path_type=Path), help="Check for this folder  [default: one of its own]")
@click.option("--cli", "cli_path", type=click.Path(path_type=Path), help="Check with this claude binary.")
@_READABLE
@_REQUIRE
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def check(
    workspace: Path | None, cli_path: Path | None, readable: tuple[Path, ...], require: tuple[str, ...], as_json: bool
) -> None:
    """Prove on this machine that the jail holds.

    A program inside the jail tries to get out in every way it knows; each must
    fail. Exits 1 if one does not, or could not be tried.
    """
    report = run_check(workspace, cli_path=cli_path, readable=readable, require=require)
    click.echo(json.dumps(report.as_dict(), indent=2) if as_json else _table(report))
    if not report.ok:
        sys.exit(1)


def _table(report: CheckReport) -> str:
    lines = [f"{'ok  ' if row.ok else 'FAIL'}  {row.name:<12} {row.detail}" for row in report.rows]
    lines += [f"      {'':<12} {row.fix}" for row in report.failed if row.fix]
    for state in report.limits:
        held = f"held by {state.by}" if state.enforced else f"only watched, by {state.by}: not enforced here"
        lines.append(f"{'ok  ' if state.enforced else 'note'}  {state.name + ' limit':<16} {held}")
    verdict = "confined" if report.ok else "NOT confined: nothing would be started"
    return "\n".join([*lines, f"{verdict} ({report.seconds:.2f} s)"])


@click.command(
    "exec",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="""\b
Examples:
  toolkit sandbox exec -- bash
  toolkit sandbox exec --workspace ./copy -- make test""",
)
@click.option("--workspace", type=click.Path(path_type=Path), default=Path(), help="Work here  [default: this folder]")
@_READABLE
@_REQUIRE
@click.option("--read-only", is_flag=True, help="Show the workspace without letting it change.")
@click.option("--memory-mb", type=click.IntRange(min=64), help="Most memory, in MiB  [default: 4096]")
@click.option("--processes", type=click.IntRange(min=16), help="Most processes and threads  [default: 512]")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="End the command after this time.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_command(
    workspace: Path,
    readable: tuple[Path, ...],
    require: tuple[str, ...],
    read_only: bool,
    memory_mb: int | None,
    processes: int | None,
    seconds: float | None,
    command: tuple[str, ...],
) -> None:
    """Run a command in the jail.

    It sees this folder and the system's programs: no network, nothing to steal.

    Exits as the command does, or with 4 if the jail cannot be proven to hold.
    """
    plain = JailLimits()
    limits = JailLimits(
        memory_bytes=memory_mb * 1024 * 1024 if memory_mb else plain.memory_bytes,
        processes=processes or plain.processes,
    )
    options = ShellOptions(readable, limits, require, read_only, seconds)
    done = run_confined(command, workspace, options)
    if done.exceeded is not None:
        used, allowed = done.exceeded.used, done.exceeded.allowed
        click.echo(f"ended: the limit on {done.exceeded.limit} was passed ({used} of {allowed})", err=True)
    sys.exit(done.exit_code)
