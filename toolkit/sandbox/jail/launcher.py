"""The executable file that starts a command in a jail; the SDK takes it for the CLI.

It is a short shell script, written for one jail and readable by a person: it
joins the control group, forgets the environment and becomes bubblewrap, so that
there is one process for the caller to wait for and to end. Started by root, it
first gives up being root: it enters a mount namespace in which every path is
within reach of an unprivileged user, and bubblewrap runs as that user.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from toolkit._base.processes import is_running
from toolkit.errors import SandboxError, UnconfinedError
from toolkit.sandbox.jail.as_root import PLACE, Stage, choose_tenant, lend
from toolkit.sandbox.jail.folder import State, is_lent
from toolkit.sandbox.jail.walls import SYNTHETIC_ETC, Jail, seccomp_filter
from toolkit.sandbox.limits import LimitPlan

MARK = "TOOLKIT_JAIL"
# What the SDK tells the CLI about itself; nothing else passes from the caller's environment.
_PASSED = (
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE",
    "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING",
)
_GONE_SECONDS = 10.0
# Inside: bubblewrap's first process closes its handles on the host a moment after it has started the command, and
# through one of them there would be a way out. What cannot be waited for is not started.
_SETTLED = """\
tries=0
for handle in /proc/1/fd/*; do
    while [ -d "$handle/" ]; do
        tries=$((tries + 1))
        [ $tries -lt 200000 ] || { echo "a handle on a folder of the host stays open" >&2; exit 125; }
    done
done
exec "$@"
"""
_STANDARD = ((0, "<"), (1, ">"), (2, ">"))


@dataclass(frozen=True, slots=True)
class Launcher:
    """A jail that is ready to start commands."""

    jail: Jail
    plan: LimitPlan
    state: State
    tenant: int | None
    """The host uid it runs as when root starts it."""

    @property
    def script(self) -> Path:
        """Start anything in the jail: `script COMMAND ARGUMENT…`."""
        return self.state.folder / "launch"

    def for_command(self, *command: str) -> Path:
        """Return a file that runs `command` in the jail, followed by the arguments it is given."""
        path = self.state.folder / "claude"
        write_script(path, f'#!/bin/sh\nexec {shlex.join([str(self.script), *command])} "$@"\n')
        return path

    def processes(self) -> list[int]:
        """The host pids of the jails this launcher started that are still alive."""
        started = [int(file.name) for file in (self.state.folder / "pids").iterdir()]
        return [pid for pid in started if self._is_marked(pid, "environ") or self._is_marked(pid, "cmdline")]

    def kill(self) -> None:
        """End every jail of this launcher and wait until nothing of them is left."""
        end = time.monotonic() + _GONE_SECONDS
        killed = self._kill_marked()
        # The first process in a jail has ended only when the kernel has ended all others in it.
        while alive := [pid for pid in killed if is_running(pid)]:
            killed |= self._kill_marked()  # what one of them started in its last moment
            if time.monotonic() > end:
                raise SandboxError(
                    f"a jail did not end: process {alive[0]}", fix="It is stuck in the kernel; see: ps -o wchan"
                )
            time.sleep(0.005)

    def _kill_marked(self) -> set[int]:
        everyone = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
        ours = {pid for pid in everyone if self._is_marked(pid, "environ")}.union(self.processes())
        for pid in ours:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return ours

    def _is_marked(self, pid: int, where: str) -> bool:
        """Whether a process is ours; its pid alone says nothing, that may long be someone else's.

        Until it has become bubblewrap, with the mark in its environment, it carries our name in its command.
        """
        wanted = f"{MARK}={self.state.name}" if where == "environ" else self.state.name
        try:
            return wanted.encode() in Path(f"/proc/{pid}/{where}").read_bytes()
        except OSError:
            return False

    def close(self) -> None:
        """End what still runs, take the workspace back and remove every trace on the host."""
        try:
            self.kill()
        finally:
            self.state.close()


def make_launcher(jail: Jail, plan: LimitPlan, state: State) -> Launcher:
    """Write the launcher of a jail; as root, also lend its folders to an unprivileged user."""
    _refuse_movable(jail)
    tenant = choose_tenant()
    state.record(folders=(jail.workspace, jail.home), tenant=tenant, cgroups=_groups(plan))
    if tenant is not None and is_lent(jail.workspace, state.folder):
        raise SandboxError(
            f"the workspace '{jail.workspace}' is in use by another jail",
            fix="Wait until that one has ended, or give each a copy of its own.",
        )
    needed = ["bwrap", "env", "prlimit", "setsid"]
    if tenant is not None:
        needed += ["chown", "nsenter", "mount", "umount"]
    tools = {name: shlex.quote(find_program(name)) for name in needed}
    for name, text in SYNTHETIC_ETC.items():
        (state.shown / "etc" / name).write_text(text, encoding="utf-8")
        (state.shown / "etc" / name).chmod(0o644)
    (state.folder / "seccomp").write_bytes(seccomp_filter())
    places = _staged(jail, state)
    staged = None if tenant is None else [_staged_source(bind.source, places) for bind in jail.binds()]
    arguments = "\0".join(jail.arguments(staged)) + "\0"
    (state.folder / "arguments").write_bytes(os.fsencode(arguments))
    stage = None
    if tenant is not None:
        (state.folder / "stage").mkdir()
        stage = Stage(places, state.folder / "stage")
        state.hold(stage)
    launcher = Launcher(jail=jail, plan=plan, state=state, tenant=tenant)
    write_script(launcher.script, _script(launcher, tools, stage))
    if tenant is not None:
        for folder in (jail.home, jail.workspace):
            lend(folder, tenant)
    return launcher


def _refuse_movable(jail: Jail) -> None:
    """What is shown must not lie deep where the agent writes.

    A folder above it could be renamed and a link put in its place, which the next start would follow. What is
    shown directly in the workspace cannot be moved: it is mounted there.
    """
    for folder in (jail.home,) if jail.read_only else (jail.workspace, jail.home):
        for bind in jail.binds():
            if folder in bind.source.parent.parents:
                raise SandboxError(
                    f"'{bind.source}' lies in '{folder}', where the agent could replace it",
                    fix="Name a place outside, or one directly in that folder.",
                )


def find_program(name: str) -> str:
    """Return where a program the jail is built with is installed."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
    if found is None:
        raise UnconfinedError(
            f"refusing to start: {name} was not found on PATH",
            rules=("jail",),
            fix=f"Install it ({INSTALL.get(name, 'apt install util-linux')}), or see: toolkit sandbox check",
        )
    # Not resolved: one binary may be many programs, told apart by the name they are called by.
    return str(Path(found).absolute())


INSTALL = {
    "bwrap": "apt install bubblewrap",
    "socat": "apt install socat",
    **dict.fromkeys(("chown", "env"), "apt install coreutils"),
}


def _script(launcher: Launcher, tools: dict[str, str], stage: Stage | None) -> str:
    """The shell text; everything that varies is quoted in here, nothing is looked up later."""
    folder, plan, tenant = launcher.state.folder, launcher.plan, launcher.tenant
    environment = {**dict(launcher.jail.environment), MARK: launcher.state.name}
    quoted = " ".join(shlex.quote(f"{name}={value}") for name, value in environment.items())
    passed = " ".join(f'${{{name}+"{name}=${name}"}}' for name in _PASSED)
    terminal = '${TERM+"TERM=$TERM"}' if launcher.jail.terminal else ""
    lines = ["#!/bin/sh", "set -eu", "umask 022"]
    # One that is closed would be the next handle bubblewrap opens, and its first process keeps these three: a way out.
    lines += [f"[ -e /proc/self/fd/{number} ] || exec {number}{way}/dev/null" for number, way in _STANDARD]
    lines += [f": > {shlex.quote(str(folder / 'pids'))}/$$"]
    if not launcher.jail.terminal:
        # Whoever holds a terminal, even to write to it, can read what is typed there.
        lines += [f"[ ! -t {number} ] || exec {number}{way}/dev/null" for number, way in _STANDARD]
    lines += plan.cgroup.joining() if plan.cgroup else []
    lines += [f"exec 8<{shlex.quote(str(folder / 'seccomp'))} 9<{shlex.quote(str(folder / 'arguments'))}"]
    drop = ""
    if stage is not None:
        lines += stage.renewing(tools)
        drop = f"{tools['nsenter']} --mount={stage.path} --setgid={tenant} --setuid={tenant} -- "
    scope = shlex.join(plan.cgroup.prefix) + " " if plan.cgroup and plan.cgroup.prefix else ""
    limited = f"{tools['prlimit']} {shlex.join(plan.rlimits)} --"
    jail = f"{tools['bwrap']} --seccomp 8 --args 9 -- /bin/sh -c {shlex.quote(_SETTLED)} sh {limited}"
    lines += [f'set -- {scope}{drop}{tools["env"]} -i {quoted} {passed} {terminal} {jail} "$@"']
    if not launcher.jail.terminal:
        # Ctrl-C on a terminal goes to all that runs in it: a run decides for itself what that means for its agent.
        # Whoever leads a group already is apart; for it setsid would fork, and the jail would lose its parent.
        lines += ["read -r pid name state parent group rest < /proc/$$/stat"]
        lines += [f'[ "$group" = $$ ] || set -- {tools["setsid"]} "$@"']
    return "\n".join([*lines, 'exec "$@"', ""])


def _groups(plan: LimitPlan) -> tuple[Path, ...]:
    return plan.cgroup.folders if plan.cgroup else ()


def _staged(jail: Jail, state: State) -> dict[Path, Path]:
    """Where each bound path is put for a user who may not look into the folders above it."""
    sources = dict.fromkeys(bind.source for bind in jail.binds() if not bind.source.is_relative_to(state.shown))
    return {source: PLACE / str(index) for index, source in enumerate((state.shown, *sources))}


def _staged_source(source: Path, places: dict[Path, Path]) -> Path:
    if source in places:
        return places[source]
    shown = next(iter(places))
    return places[shown] / source.relative_to(shown)


def write_script(path: Path, text: str) -> None:
    """Write an executable file; its folder is private, so the mode may be open."""
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    path.chmod(0o755)
