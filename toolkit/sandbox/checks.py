"""Report whether a jail on this machine would hold, for people and programs that ask before they start one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from toolkit.errors import SandboxError, UnconfinedError
from toolkit.sandbox.host import find_cli, usable_readable, usable_workspace
from toolkit.sandbox.jail.folder import JailFolder, sweep
from toolkit.sandbox.jail.launcher import open_jail
from toolkit.sandbox.jail.proof import CheckReport, CheckRow, preflight, prove
from toolkit.sandbox.jail.walls import ENVIRONMENT, Jail
from toolkit.sandbox.limits import JailLimits


def check(
    workspace: Path | str | None = None,
    *,
    cli_path: Path | str | None = None,
    readable: Sequence[Path | str] = (),
    limits: JailLimits | None = None,
    require: Sequence[str] = (),
    meanwhile: Callable[[], None] = lambda: None,
) -> CheckReport:
    """Report whether a jail on this machine would hold; never raises for what it finds.

    Without a workspace one is made for the purpose and removed again. `meanwhile` is done while this waits for the
    programs that try to get out, which is most of the time; not at all if it comes to no such try.

    Raises:
        SandboxError: the workspace, a readable path or a limit is not usable as given.
    """
    began = time.monotonic()

    def report(*rows: CheckRow) -> CheckReport:
        return CheckReport(rows, (), time.monotonic() - began)

    if missing := preflight():
        return report(*missing)
    limits = limits or JailLimits()
    given = None if workspace is None else usable_workspace(workspace)
    shown = tuple(usable_readable(path, given) for path in readable)
    try:
        cli = find_cli(cli_path)
    except SandboxError as error:
        return report(CheckRow("cli", "a CLI to confine", False, error.what, error.fix))
    try:
        sweep()
        with JailFolder() as folder:
            jail = Jail(
                workspace=given or folder.own_workspace(),
                readable=shown,
                programs=(cli,),
                environment=ENVIRONMENT,
                limits=limits,
                require=tuple(require),
            )
            return prove(open_jail(jail, folder), cli, began=began, meanwhile=meanwhile)
    except UnconfinedError as error:
        detail = "; ".join((error.what, *error.where))
        return report(*(CheckRow(rule, rule, False, detail, error.fix) for rule in error.rules))
