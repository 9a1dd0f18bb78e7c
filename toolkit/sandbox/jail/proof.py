"""Prove that a jail holds, before anything is started in it.

First what has to be there (bubblewrap, socat, the CLI, permission to make
namespaces), then a canary in the very jail that will be used. Every row of
the report is a rule; a rule that could not be checked counts as broken.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from toolkit.errors import UnconfinedError
from toolkit.sandbox.jail.canary import Flight, fly
from toolkit.sandbox.jail.launcher import OpenJail
from toolkit.sandbox.jail.machine import INSTALL, how_to_allow, sysctl
from toolkit.sandbox.limits import HeldLimit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_PASSED: dict[str, CheckReport] = {}


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One rule and whether it holds here."""

    name: str
    rule: str
    """The promise that is lost without it."""
    ok: bool
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was checked, row by row."""

    rows: tuple[CheckRow, ...]
    limits: tuple[HeldLimit, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every rule holds."""
        return bool(self.rows) and all(row.ok for row in self.rows)

    @property
    def failed(self) -> tuple[CheckRow, ...]:
        """The rules that do not."""
        return tuple(row for row in self.rows if not row.ok)

    @property
    def not_enforced(self) -> tuple[str, ...]:
        """Limits that this machine cannot hold firmly."""
        return tuple(limit.name for limit in self.limits if not limit.enforced)

    def as_dict(self) -> dict[str, Any]:
        """The report for a program."""
        return {
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "rows": [asdict(row) for row in self.rows],
            "limits": [asdict(limit) for limit in self.limits],
        }

    def demand(self) -> None:
        """Raise UnconfinedError unless every rule holds."""
        if self.ok:
            return
        first = self.failed[0]
        raise UnconfinedError(
            f"refusing to start: {first.rule} is not proven",
            rules=[row.rule for row in self.failed],
            where=[f"{row.name}: {row.detail}" for row in self.failed],
            fix=next((row.fix for row in self.failed if row.fix), "See: toolkit sandbox check"),
        )


_RULES = {
    "read": "files outside the workspace stay unread",
    "handles": "files outside the workspace stay unread",
    "write": "nothing outside the workspace is written",
    "port": "no connection to the host's ports",
    "unix": "no connection to the host's sockets",
    "abstract": "no connection to abstract sockets",
    "environment": "no variable of the caller inside",
    "pid1": "no variable of the caller in PID 1",
    "processes": "no process of the host in sight",
    "families": "no socket but those that stay inside",
    "namespaces": "every namespace is the jail's own",
    "apart": "the CLI out of reach of what it starts",
    "privileges": "no privilege to use or gain",
    "kernel": "no kernel setting can be changed",
    "nested": "the CLI's own sandbox inside the jail",
    "tools": "the CLI's own sandbox inside the jail",
    "workspace": "the workspace can be used, by an unprivileged user",
    "gate": "the gate as the only way out",
}


def prove(
    opened: OpenJail,
    cli: Path | None = None,
    *,
    began: float | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> CheckReport:
    """Fly the canary in an open jail; a pass is remembered for this same machine, jail and CLI.

    `meanwhile` is done once, while the canary flies: it must not count on what comes of that.
    """
    began = time.monotonic() if began is None else began
    key = _fingerprint(opened, cli)
    known = _PASSED.get(key)
    if known is not None:
        meanwhile()
        return known
    flight = fly(opened, cli, meanwhile)
    rows = _machine_rows(flight, cli)
    if flight.started:
        rows += [CheckRow(o.name, _RULES[o.name], o.ok, o.detail) for o in flight.outcomes]
    report = CheckReport(tuple(rows), opened.plan.held, time.monotonic() - began)
    if report.ok:
        _PASSED[key] = report
    return report


def preflight() -> list[CheckRow]:
    """What is missing on this machine before a jail can even be tried."""
    rule = "a jail around the agent"
    system = os.uname().sysname if hasattr(os, "uname") else os.name
    if system != "Linux":
        return [
            CheckRow(
                "system",
                rule,
                False,
                f"{system} is not supported: the jail needs Linux namespaces",
                "Run it in a Linux machine or virtual machine.",
            )
        ]
    rows = []
    for program in ("bwrap", "socat"):
        if shutil.which(program) is None:
            package = INSTALL[program].rpartition(" ")[2]
            fix = f"Install it: apt install {package}, dnf install {package} or apk add {package}"
            rows.append(CheckRow(program, rule, False, f"{package} was not found on PATH", fix))
    return rows


def demand_preflight() -> None:
    """Raise UnconfinedError if this machine lacks something every jail needs."""
    rows = preflight()
    if rows:
        CheckReport(tuple(rows), (), 0.0).demand()


def _machine_rows(flight: Flight, cli: Path | None) -> list[CheckRow]:
    rule = "a jail around the agent"
    if not flight.started:
        detail = flight.stderr.strip().splitlines()[-1][:300] if flight.stderr.strip() else "the launcher said nothing"
        return [CheckRow("jail", rule, False, detail, how_to_allow(flight.stderr))]
    rows = [CheckRow("jail", rule, True, "bubblewrap starts with every namespace")]
    if cli is not None:
        good = bool(flight.cli_version)
        fix = "" if good else "Name what it needs with readable=…, or use the CLI that comes with claude-agent-sdk."
        rows.append(
            CheckRow("cli", "a CLI to confine", good, flight.cli_version or f"{cli} does not start inside", fix)
        )
    return rows


def _fingerprint(opened: OpenJail, cli: Path | None) -> str:
    """Everything a pass depends on: binaries, kernel, settings of both, and the jail's options."""
    kernel = os.uname()
    parts = [kernel.release, kernel.version, str(opened.plan.rlimits), str(opened.plan.held)]
    for program in (shutil.which("bwrap"), shutil.which("socat"), cli):
        if program is not None:
            found = Path(program).stat()
            parts.append(f"{program} {found.st_size} {found.st_mtime_ns} {found.st_ino}")
    for name in ("kernel/apparmor_restrict_unprivileged_userns", "user/max_user_namespaces"):
        parts.append(sysctl(name))
    jail, folder = opened.jail, opened.folder
    parts += [str(opened.tenant is None), str(sorted(jail.environment.items()))]
    parts += jail.arguments(jail.binds(folder))
    return "\0".join(parts).replace(str(folder.path), "FOLDER")
