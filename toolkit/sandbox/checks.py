"""Report whether a jail on this machine would hold, for people and programs that ask before they start one."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from toolkit.errors import SandboxError, UnconfinedError
from toolkit.sandbox.host import find_cli, usable_readable, usable_workspace
from toolkit.sandbox.jail.folder import State, sweep
from toolkit.sandbox.jail.launcher import make_launcher
from toolkit.sandbox.jail.proof import CheckReport, CheckRow, check_launcher, preflight
from toolkit.sandbox.jail.walls import Jail
from toolkit.sandbox.limits import JailLimits, plan_limits


def check(
    workspace: Path | str | None = None,
    *,
    cli_path: Path | str | None = None,
    readable: Sequence[Path | str] = (),
    limits: JailLimits | None = None,
    require: Sequence[str] = (),
) -> CheckReport:
    """Report whether a jail on this machine would hold; never raises for what it finds.

    Without a workspace one is made for the purpose and removed again.

    Raises:
        SandboxError: the workspace, a readable path or a limit is not usable as given.
    """
    began = time.monotonic()
    missing = preflight()
    if missing:
        return CheckReport(tuple(missing), (), time.monotonic() - began)
    own = Path(tempfile.mkdtemp(prefix="toolkit-check-")) if workspace is None else None
    try:
        folder = usable_workspace(own or Path(str(workspace)))
        paths = tuple(usable_readable(path) for path in readable)
        return _check_machine(folder, paths, cli_path, limits or JailLimits(), require, began)
    finally:
        if own is not None:
            shutil.rmtree(own, ignore_errors=True)


def _check_machine(
    workspace: Path,
    readable: tuple[Path, ...],
    cli_path: Path | str | None,
    limits: JailLimits,
    require: Sequence[str],
    began: float,
) -> CheckReport:
    sweep()
    try:
        cli = find_cli(cli_path)
    except SandboxError as error:
        row = CheckRow("cli", "a CLI to confine", False, error.what, error.fix)
        return CheckReport((row,), (), time.monotonic() - began)
    state = State()
    try:
        plan = plan_limits(limits, name=state.name, require=require)
        jail = Jail(
            workspace=workspace,
            shown=state.shown,
            home=state.shown / "home",
            programs=(cli,),
            readable=readable,
            environment=(("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/home/agent")),
            limits=limits,
        )
        launcher = make_launcher(jail, plan, state)
    except UnconfinedError as error:
        state.close()
        rows = [CheckRow(rule, rule, False, error.what, error.fix) for rule in error.rules]
        return CheckReport(tuple(rows), (), time.monotonic() - began)
    except BaseException:
        state.close()
        raise
    try:
        return check_launcher(launcher, cli, began=began)
    finally:
        launcher.close()
