"""What would stop a run on this machine: one finding a line."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from toolkit.doctor.finding import Finding
from toolkit.errors import SandboxError
from toolkit.sandbox import CheckReport, check, find_cli


def examine() -> Iterator[Finding]:
    """Look at everything a run needs; never raises for what it finds."""
    around: list[tuple[list[Finding], list[Finding]]] = []
    report = check(meanwhile=lambda: around.append(_around()))
    installed, provided = around[0] if around else _around()
    yield from installed
    yield _cli(report)
    yield from _sandbox(report)
    yield from provided


def _around() -> tuple[list[Finding], list[Finding]]:
    """What is before the jail in the list, and what is behind it; loaded only when there is time for it."""
    from toolkit.doctor.needs import installed, provided

    return installed(), provided()


def _cli(report: CheckReport) -> Finding:
    try:
        path = find_cli(None)
        version = _version_of(path, report)
    except SandboxError as error:
        return Finding("cli", False, error.what, error.fix)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("cli", False, f"it does not start: {error}", "pip install --force-reinstall claude-agent-sdk")
    why = "named by CLAUDE_BIN" if os.environ.get("CLAUDE_BIN") else "bundled with claude-agent-sdk"
    if "claude_agent_sdk" not in str(path) and not os.environ.get("CLAUDE_BIN"):
        why = "found where the SDK looks"
    return Finding("cli", True, f"{version} at {path} ({why})")


def _version_of(cli: Path, report: CheckReport) -> str:
    """What it said in the jail, where it was started just now; else it is asked here."""
    for row in report.rows:
        if row.name == "cli" and row.ok:
            return row.detail
    asked = subprocess.run([cli, "--version"], capture_output=True, text=True, timeout=30, check=True, env=_clean())
    return asked.stdout.strip()


def _clean() -> dict[str, str]:
    """An environment without anything of the user's: a version is asked for, nothing else."""
    quiet = {"DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1"}
    return {"PATH": "/usr/bin:/bin", "HOME": tempfile.gettempdir(), **quiet}


def _sandbox(report: CheckReport) -> Iterator[Finding]:
    if report.ok:
        yield Finding("sandbox", True, f"{len(report.rows)} rules hold, proven in {report.seconds:.1f} s")
    for row in report.failed:
        yield Finding(f"sandbox {row.name}", False, f"{row.detail} ({row.rule} would be lost)", row.fix)
    for name in report.not_enforced:
        yield Finding(f"limit {name}", False, "cannot be enforced here", "See: toolkit sandbox check", stops=False)
