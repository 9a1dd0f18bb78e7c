"""`toolkit sandbox check` and `exec` themselves, without a parser: what is done, and how its end is said."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from toolkit.cli.quick.saying import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from toolkit.sandbox import CheckReport


def print_check() -> int:
    """Check a jail in a folder of its own, print the table, and return the exit code."""
    from toolkit.sandbox import check

    report = check()
    say(check_table(report))
    return int(not report.ok)


def check_table(report: CheckReport) -> str:
    """A report as lines for a person."""
    lines = [f"{'ok  ' if row.ok else 'FAIL'}  {row.name:<12} {row.detail}" for row in report.rows]
    lines += [f"      {'':<12} {row.fix}" for row in report.failed if row.fix]
    for limit in report.limits:
        held = f"held by {limit.by}" if limit.enforced else f"only watched, by {limit.by}: not enforced here"
        lines.append(f"{'ok  ' if limit.enforced else 'note'}  {limit.name + ' limit':<16} {held}")
    verdict = "confined" if report.ok else "NOT confined: nothing would be started"
    return "\n".join([*lines, f"{verdict} ({report.seconds:.2f} s)"])


def run_command(
    command: Sequence[str],
    workspace: Path | None = None,
    memory_mb: int | None = None,
    processes: int | None = None,
    **options: Any,
) -> int:
    """Run a command in a jail of this folder, or another, and return its exit code; `options` are of ShellOptions."""
    from toolkit.sandbox import JailLimits, ShellOptions, run_confined

    folder = workspace or Path()
    limits = JailLimits()
    limits = replace(limits, memory_bytes=memory_mb * 1024 * 1024) if memory_mb else limits
    limits = replace(limits, processes=processes) if processes else limits
    done = run_confined(command, folder, ShellOptions(limits=limits, **options, **_layers(folder)))
    if done.exceeded is not None:
        sys.stderr.write(f"ended: {done.exceeded}\n")
    return done.exit_code


def _layers(workspace: Path) -> dict[str, Any]:
    """What shows through a folder that is an overlay of 'toolkit workspace prepare'."""
    from toolkit_workspace import layers_of

    layers = layers_of(workspace)
    return {} if layers is None else {"below": (layers[0],), "work": layers[1]}
