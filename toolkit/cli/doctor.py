"""`toolkit doctor`: what would stop a run on this machine."""

from __future__ import annotations

import json
import sys

import click

from toolkit.cli._help import CommandWithExample


@click.command(cls=CommandWithExample, example="$ toolkit doctor")
@click.option("--json", "wants_json", is_flag=True, help="As JSON.")
def doctor(wants_json: bool) -> None:
    """Say what would stop a run on this machine, and the fix.

    Ends with 1 when something would.
    """
    from toolkit.doctor import examine

    findings = []
    for finding in examine():
        findings.append(finding)
        if not wants_json:
            mark = "ok" if finding.ok else "stops" if finding.stops else "note"
            click.echo(f"{mark:<6}{finding.name:<20}{finding.found}")
            if not finding.ok and finding.fix:
                click.echo(f"{'':<26}→ {finding.fix}")
    if wants_json:
        click.echo(json.dumps([finding.as_data() for finding in findings], indent=2))
    sys.exit(any(finding.stops and not finding.ok for finding in findings))
