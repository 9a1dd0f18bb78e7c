"""Open a jail: the executable file that starts a command in it, which the SDK takes for the CLI.

It is a short shell script, written for one jail and readable by a person: it
joins the control group, forgets the environment and becomes bubblewrap, so that
there is one process for the caller to wait for and to end. Started by root, it
first gives up being root: it enters a mount namespace in which every path is
within reach of an unprivileged user, and bubblewrap runs as that user.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from toolkit._base.files import is_full
from toolkit._base.handles import READ_DIR, make_folders
from toolkit._base.layered import Layers, Mounted, look_below, make_above, mount_layers
from toolkit.errors import SandboxError, UnconfinedError
from toolkit.sandbox.jail.as_root import PLACE, Stage, choose_tenant, lend
from toolkit.sandbox.jail.cgroup import Cgroup
from toolkit.sandbox.jail.folder import MARK, JailFolder
from toolkit.sandbox.jail.machine import find_program, writing_in
from toolkit.sandbox.jail.walls import APART_PROGRAMS, HANDED, SYNTHETIC_ETC, Bind, Jail, seccomp_filter
from toolkit.sandbox.limits import LimitPlan, plan_limits

# What the SDK tells the CLI about itself; nothing else passes from the caller's environment.
_PASSED = (
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE",
    "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING",
)
# Inside: bubblewrap's first process closes its handles on the host a moment after it has started the command, and
# through one of them there would be a way out. What cannot be waited for is not started.
_ONCE_HANDLES_ARE_CLOSED = """\
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
class OpenJail:
    """A jail that is ready to start commands; it ends with its folder."""

    jail: Jail
    plan: LimitPlan
    folder: JailFolder
    tenant: int | None
    """The host uid it runs as when root starts it."""

    @property
    def script(self) -> Path:
        """Start anything in the jail: `script COMMAND ARGUMENT…`."""
        return self.folder.path / "launch"

    def for_command(self, *command: str) -> Path:
        """Return a file that runs `command` in the jail, followed by the arguments it is given."""
        path = self.folder.path / "claude"
        first, rest = self.script.read_text(encoding="utf-8", errors="surrogateescape").split("\n", 1)
        write_script(path, f'{first}\nset -- {shlex.join(command)} "$@"\n{rest}')
        return path


def open_jail(jail: Jail, folder: JailFolder) -> OpenJail:
    """Make everything ready to start commands in a jail; as root, also lend its folders to an unprivileged user.

    Nothing is proven yet. Whatever comes of it, closing `folder` gives everything back.

    Raises:
        SandboxError: the workspace is in use, or what is shown could be replaced by the agent.
        UnconfinedError: a required limit would not hold, the kernel refuses, or there is no room.
    """
    with writing_in(folder.path):
        return _open(jail, folder)


def _open(jail: Jail, folder: JailFolder) -> OpenJail:
    plan = plan_limits(jail.limits, name=folder.name, require=jail.require)
    binds = jail.binds(folder)
    group, tenant = plan.cgroup or Cgroup(), choose_tenant()
    homes = (folder.home, jail.cli_home or folder.cli_home)
    # Written down before anything is changed: whoever clears up after a kill must find it.
    folder.record(
        folders=(jail.workspace, *homes),
        notes_in=jail.notes_in,
        tenant=tenant,
        cgroups=group.folders,
        sole=jail.sole,
    )
    _refuse_movable(binds)
    folder.claim()
    with writing_in(jail.workspace):
        _make_mount_points(jail)
    needed = ["bwrap", "env", "prlimit", "setsid"]
    if tenant is not None:
        needed += ["chown", "mount", "umount"]
    if tenant is not None or jail.below:
        needed += ["nsenter"]
    tools = {name: shlex.quote(find_program(name)) for name in needed}
    for name, text in SYNTHETIC_ETC.items():
        (folder.own / "etc" / name).write_text(text, encoding="utf-8")
        (folder.own / "etc" / name).chmod(0o644)
    for name, text in APART_PROGRAMS.items():
        write_script(folder.own / "apart" / name, text)
    if tenant is not None:
        for lent in (*homes, jail.workspace):
            lend(lent, tenant)
        if jail.has_gate:
            for socket in filter(Path.exists, (folder.socket, folder.proxy)):
                os.chown(socket, tenant, tenant)
    laid = _lay_over(jail, folder, tenant)
    stage = None
    if tenant is not None:
        stage, binds = _stage(folder, binds, laid)
    (folder.path / "seccomp").write_bytes(seccomp_filter())
    (folder.path / "arguments").write_bytes(os.fsencode("\0".join([*jail.arguments(binds), ""])))
    opened = OpenJail(jail, plan, folder, tenant)
    write_script(opened.script, _script(opened, group, tools, stage or laid))
    return opened


def _lay_over(jail: Jail, folder: JailFolder, tenant: int | None) -> Mounted | None:
    """Mount the workspace over what shows through it, in a namespace of its own; for the tenant, as its own files."""
    if not jail.below:
        return None
    assert jail.work is not None
    points = folder.path / "below"
    points.mkdir()
    try:
        laid = mount_layers(Layers(jail.workspace, jail.work, jail.below), shown_as=tenant, points=points)
    except OSError as error:
        raise UnconfinedError(
            f"refusing to start: the workspace cannot be laid over the copy below it: {error.strerror or error}",
            rules=("jail",),
            where=[str(path) for path in jail.below],
            fix="Prepare it as a copy: --backend copy",
        ) from error
    folder.hold(laid)
    return laid


def _refuse_movable(binds: tuple[Bind, ...]) -> None:
    """What is shown must not lie where the agent could move it.

    It, or a folder above it, could be renamed and a link put in its place, which the next start would follow; a
    bubblewrap before 0.12 even makes mount points behind such a link (CVE-2026-87766). Only what is shown at its own
    name, as are all folders above it that are written, cannot be moved: it is mounted there.
    """
    targets = {bind.target for bind in binds}
    for around in (bind for bind in binds if bind.writable):
        for bind in binds:
            if around.source in bind.source.parents and not _is_held(bind, around, targets):
                raise SandboxError(
                    f"'{bind.source}' lies in '{around.source}', where the agent could replace it",
                    fix="Name a place outside, or one directly in the workspace to show at its own name.",
                )


def _is_held(bind: Bind, around: Bind, targets: set[str]) -> bool:
    """Whether it and every folder between the two is mounted where it lies."""
    steps, place = [], around.target
    for part in bind.source.relative_to(around.source).parts:
        place = f"{place}/{part}"
        steps.append(place)
    return bind.target == place and targets.issuperset(steps)


def _make_mount_points(jail: Jail) -> None:
    """Make room in the workspace for what is shown there; nobody works in it yet.

    bubblewrap would follow a link that an earlier run left on the way, so there must be none.
    """
    for source, inside in (*((path, str(path)) for path in jail.readable), *jail.lent):
        point = jail.within(inside)
        if point is None or (jail.read_only and point.exists()):
            continue
        root = os.open(jail.workspace, READ_DIR)
        try:
            below = os.fsencode(point.relative_to(jail.workspace))
            above, _, name = below.rpartition(b"/")
            wanted = below if source.is_dir() else above
            folder = make_above(root, jail.below, wanted) if jail.below else make_folders(root, wanted)
            if not source.is_dir() and (not jail.below or look_below(jail.below, below) is None):
                os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder))
            os.close(folder)
        except OSError as error:
            if is_full(error):
                raise
            raise SandboxError(
                f"'{inside}' cannot be shown: {error.strerror}",
                where=[f"something else is at its place in the workspace: {point}"],
                fix="Move that away, or start from a fresh copy.",
            ) from error
        finally:
            os.close(root)


def _stage(folder: JailFolder, binds: tuple[Bind, ...], laid: Mounted | None) -> tuple[Stage, tuple[Bind, ...]]:
    """Put every bound path where a user finds it who may not look into the folders above it."""
    visible = folder.visible
    apart = dict.fromkeys(bind.source for bind in binds if not bind.source.is_relative_to(visible))
    places = {source: PLACE / str(index) for index, source in enumerate((visible, *apart))}

    def staged(source: Path) -> Path:
        return places[source] if source in places else places[visible] / source.relative_to(visible)

    (folder.path / "stage").mkdir()
    stage = Stage(places, folder.path / "stage", -1 if laid is None else laid.mounts)
    folder.hold(stage)
    return stage, tuple(replace(bind, source=staged(bind.source)) for bind in binds)


def _script(opened: OpenJail, group: Cgroup, tools: Mapping[str, str], stage: Stage | Mounted | None) -> str:
    """The shell text; everything that varies is quoted in here, nothing is looked up later."""
    folder, jail, tenant = opened.folder.path, opened.jail, opened.tenant
    environment = {**jail.environment, MARK: opened.folder.name}
    quoted = " ".join(shlex.quote(f"{name}={value}") for name, value in environment.items())
    passed = " ".join(f'${{{name}+"{name}=${name}"}}' for name in _PASSED)
    terminal = '${TERM+"TERM=$TERM"}' if jail.terminal else ""
    lines = ["#!/bin/sh", "set -eu", "umask 022"]
    # One that is closed would be the next handle bubblewrap opens, and its first process keeps these three: a way out.
    lines += [f"[ -e /proc/self/fd/{number} ] || exec {number}{way}/dev/null" for number, way in _STANDARD]
    lines += [f": > {shlex.quote(str(folder / 'pids'))}/$$"]
    if not jail.terminal:
        # Whoever holds a terminal, even to write to it, can read what is typed there.
        lines += [f"[ ! -t {number} ] || exec {number}{way}/dev/null" for number, way in _STANDARD]
    lines += group.joining()
    for name, number in HANDED.items():
        lines += [f"exec {number}<{shlex.quote(str(opened.folder.own / 'etc' / name))}"]
    lines += [f"exec 8<{shlex.quote(str(folder / 'seccomp'))} 9<{shlex.quote(str(folder / 'arguments'))}"]
    drop = ""
    if isinstance(stage, Mounted):
        drop = f"{tools['nsenter']} {shlex.join(stage.entering())} -- "
    elif stage is not None:
        lines += stage.renewing(tools)
        drop = f"{tools['nsenter']} --mount={stage.path} --setgid={tenant} --setuid={tenant} -- "
    scope = shlex.join(group.prefix) + " " if group.prefix else ""
    # prlimit runs inside: only there do processes count per jail.
    limited = f"{tools['prlimit']} {shlex.join(opened.plan.rlimits)} --"
    inside = f"/bin/sh -c {shlex.quote(_ONCE_HANDLES_ARE_CLOSED)} sh {limited}"
    walls = f"{tools['bwrap']} --seccomp 8 --args 9 -- {inside}"
    lines += [f'set -- {scope}{drop}{tools["env"]} -i {quoted} {passed} {terminal} {walls} "$@"']
    if not jail.terminal:
        # Ctrl-C on a terminal goes to all that runs in it: a run decides for itself what that means for its agent.
        # Whoever leads a group already is apart; for it setsid would fork, and the jail would lose its parent.
        lines += ["read -r pid name state parent group rest < /proc/$$/stat"]
        lines += [f'[ "$group" = $$ ] || set -- {tools["setsid"]} "$@"']
    return "\n".join([*lines, 'exec "$@"', ""])


def write_script(path: Path, text: str) -> None:
    """Write an executable file; its folder is private, so the mode may be open."""
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    path.chmod(0o755)
