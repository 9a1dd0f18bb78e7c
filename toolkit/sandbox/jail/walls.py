"""What a confined process can see, touch and call, written as arguments and a filter for bubblewrap.

The jail starts from nothing and adds: the system's programs read-only, a /proc
and a /dev of its own, a small /tmp in memory, the workspace, a private home and
what the caller names. There is no network, no other process, no capability and
no variable from outside.

Namespaces do not cover the kernel keyring a process inherits, io_uring steps
around the filters of the sandbox nested in the jail, and a program that shares
a terminal can type into it. None of these is needed to build, test or edit, so
they answer "not implemented" or "not permitted". Nor do they cover every kind
of socket: a virtual machine's AF_VSOCK leads to its host from anywhere. So the
families that programs need are named, and no other can be opened. Every other
system call passes.
"""

from __future__ import annotations

import errno
import os
import shutil
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolkit.errors import UnconfinedError
from toolkit.sandbox.jail.folder import JailFolder
from toolkit.sandbox.limits import SHM_BYTES, JailLimits

HOME = "/home/agent"
CLI_HOME = "/run/toolkit/home"
"""The CLI's own home. Commands have another: what they could write there, a shell of the CLI might read."""
CLI_TMP = "/run/toolkit/tmp"
"""The CLI's own temp folder, with the sockets it talks to its sandbox by."""
CLI = "/run/toolkit/cli/claude"
"""Where the CLI is shown if its own path lies in the workspace."""
SOCKET = "/run/toolkit/api.sock"
_OWN = "/run/toolkit/own"
"""One mount with all of ours, known by links: every mount costs each start, here and of each sandbox in here."""
PROXY_SOCKET = f"{_OWN}/gate"
"""Where commands come to the gate: it leads to allowed hosts and never to the model API."""
BIN = "/run/toolkit/bin"
APART = "/run/toolkit/apart"
"""What the CLI starts others with: `bash ARGUMENT…` and `command TEXT`, neither of which can reach the CLI."""
USER_ID = 1000
PATH = "/usr/local/bin:/usr/bin:/bin"
ENVIRONMENT = {
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "PATH": PATH,
    "SHELL": "/bin/bash",
    "TMPDIR": "/tmp",
    "USER": "agent",
}
"""The variables every confined process has; nothing is inherited."""

# Programs find their libraries and certificates with these; none holds a secret.
_ETC = """
alternatives ca-certificates crypto-policies ld.so.cache ld.so.conf ld.so.conf.d mime.types
pki/ca-trust/extracted pki/tls/cert.pem pki/tls/certs pki/tls/openssl.cnf ssl/certs ssl/openssl.cnf terminfo
"""
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")

MESSAGING = ("CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN")
"""Variables with which whoever has them speaks to the model in the CLI's conversation."""
CLI_SOCKETS = f"{CLI_TMP}/cc-socks"
_SNAPSHOTS, _SESSIONS = f"{CLI_HOME}/.claude/shell-snapshots", f"{CLI_HOME}/.claude/sessions"
_SESSION_ENV, _PLUGIN_DATA = f"{CLI_HOME}/.claude/session-env", f"{CLI_HOME}/.claude/plugins/data"
_SCRATCH = f"{CLI_TMP}/claude-{USER_ID}"

# In a user namespace of its own a process cannot open what others hold, read their memory or trace them, and in a
# process namespace of its own it cannot signal them. Nor may it speak to the CLI by its sockets, or change what the
# CLI reads again: a line in its shell snapshot would run with every command. What the CLI's own sandbox starts is in
# such namespaces already. Each mount is put before those that are there, so the last to be made is named first.
#
# Whoever makes the snapshot may write that, and keeps the CLI's home: a login shell runs the profile it finds there.
# A command without the CLI's sandbox notes its folder in the CLI's temp folder. Hooks and stdio servers need nothing of
# that one, but two folders of the home where the CLI names them: for a hook's variables, and a plugin's own.
_APART_BASH = f"""\
#!/bin/sh
has_tmp=${{APART_TMP:-yes}}
unset APART_TMP
[ /proc/self/ns/user -ef /proc/1/ns/user ] || exec /bin/bash "$@"
unset {" ".join(MESSAGING)}
start="{shutil.which("bwrap", path=PATH) or "bwrap"} --unshare-user --unshare-pid --die-with-parent --dev-bind / /"
[ -d {CLI_HOME} ] || exec $start -- /bin/bash "$@"
case "$1 $2 $3" in
    "-c -l SNAPSHOT_FILE={_SNAPSHOTS}/"*) set -- --bind {_SNAPSHOTS} {_SNAPSHOTS} -- /bin/bash "$@" ;;
    *)
        set -- -- /bin/bash "$@"
        [ "$HOME" != {CLI_HOME} ] || HOME={HOME}
        [ "$TMPDIR" != {CLI_TMP} ] || TMPDIR=/tmp ;;
esac
if [ "$has_tmp" = yes ]; then
    for socket in {CLI_TMP}/*.sock; do [ ! -S "$socket" ] || set -- --ro-bind /dev/null "$socket" "$@"; done
    [ ! -d {CLI_SOCKETS} ] || set -- --tmpfs {CLI_SOCKETS} --remount-ro {CLI_SOCKETS} "$@"
    [ ! -d {_SCRATCH} ] || set -- --ro-bind {_SCRATCH} {_SCRATCH} "$@"
else
    for folder in "${{CLAUDE_ENV_FILE%/*}}" "$CLAUDE_PLUGIN_DATA"; do
        case $folder in
            */..*) ;;
            {_SESSION_ENV}/?* | {_PLUGIN_DATA}/?*) [ ! -d "$folder" ] || set -- --bind "$folder" "$folder" "$@" ;;
        esac
    done
    set -- --tmpfs {CLI_TMP} --remount-ro {CLI_TMP} "$@"
fi
[ ! -d {_SESSIONS} ] || set -- --tmpfs {_SESSIONS} --remount-ro {_SESSIONS} "$@"
[ ! -f {HOME}/.bashrc ] || set -- --ro-bind {HOME}/.bashrc {HOME}/.bashrc "$@"
exec $start --ro-bind {CLI_HOME} {CLI_HOME} "$@"
"""
_APART_COMMAND = f"""\
#!/bin/sh
[ $# = 1 ] || {{ echo "one command was expected, not $#" >&2; exit 125; }}
export APART_TMP=no
exec {APART}/bash -c "$1"
"""
APART_PROGRAMS = {"bash": _APART_BASH, "command": _APART_COMMAND}

SYNTHETIC_ETC = {
    "passwd": f"root:x:0:0:root:/:/bin/false\nagent:x:{USER_ID}:{USER_ID}:agent:{HOME}:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/:/bin/false\n",
    "group": f"root:x:0:\nagent:x:{USER_ID}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost agent\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "resolv.conf": "",
}
HANDED = dict(zip(SYNTHETIC_ETC, (3, 4, 5, 6), strict=False))
"""Those that bubblewrap makes of a handle it is started with, and its number: a shell has few, of one digit."""
_LOAD, _JUMP_EQ, _JUMP_GE, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
# Offsets in struct seccomp_data (little endian); of an int argument the kernel looks at this half only.
_NR, _ARCH, _FIRST_ARGUMENT, _SECOND_ARGUMENT, _THIRD_ARGUMENT = 0, 4, 16, 24, 32
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_X32 = 0x40000000

# name: (x86_64, aarch64)
_ABSENT = {
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_REFUSED = {
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
}
_IOCTL = (16, 29)
_SOCKET, _SOCKETPAIR = (41, 198), (53, 199)
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_NETLINK_ROUTE = 0
"""The one protocol of netlink that libc uses, to list addresses; bubblewrap brings the loopback up with it."""
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


@dataclass(frozen=True, slots=True)
class Bind:
    """One host path that appears in the jail."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Jail:
    """Everything that decides what a confined process can reach."""

    workspace: Path
    """The one host folder to work in."""
    below: tuple[Path, ...] = ()
    """Folders that show through the workspace, which holds only what is written then; the first is on top."""
    work: Path | None = None
    """For `below`: an empty folder on the workspace's file system, for the kernel."""
    places: tuple[tuple[str, str], ...] = ()
    """Where parts of it appear: a path relative to it and one inside; all of it at its own path if there are none."""
    start: str = ""
    """Where a command starts; the first of the places if not given."""
    has_cli: bool = False
    """Give the CLI a home and a temp folder apart from those of commands."""
    cli_home: Path | None = None
    """The host folder behind the CLI's home; without one it goes with the jail, as the commands' home does."""
    programs: tuple[Path, ...] = ()
    """Single executables to show, for example the CLI."""
    readable: tuple[Path, ...] = ()
    """Further host paths to show read-only, at the same place."""
    lent: tuple[tuple[Path, str], ...] = ()
    """Host paths to show read-only, each with its place inside."""
    protected: tuple[str, ...] = ()
    """Paths of the workspace, as they appear inside, that are shown read-only."""
    has_gate: bool = False
    """Show the gate's socket; without it there is no way out at all."""
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: JailLimits = field(default_factory=JailLimits)
    require: tuple[str, ...] = ()
    """Names of limits without which it must not start."""
    read_only: bool = False
    """Show the workspace without letting anything change in it."""
    sole: bool = False
    """Have the workspace for itself: no second such jail in it. One that root starts has it in any case."""
    terminal: bool = False
    """Keep the caller's terminal, for a person at a shell."""

    def binds(self, folder: JailFolder) -> tuple[Bind, ...]:
        """The host paths outside the system's own, shallow ones first so that deeper ones win."""
        paths = [
            *(Bind(self.workspace / part, inside, writable=not self.read_only) for part, inside in self.shown_at()),
            *self._holding(),
            Bind(folder.home, HOME, writable=True),
            *([Bind(self.cli_home or folder.cli_home, CLI_HOME, writable=True)] if self.has_cli else []),
            *(Bind(path, str(path)) for path in (*self.readable, *self.programs)),
            *(Bind(path, inside) for path, inside in self.lent),
            *(Bind(source, inside) for inside in self.protected if (source := self.within(inside)) is not None),
            *(Bind(folder.own / "etc" / name, f"/etc/{name}") for name in SYNTHETIC_ETC if name not in HANDED),
            Bind(folder.own, _OWN),
        ]
        if self.has_gate:
            paths.append(Bind(folder.socket, SOCKET))
        return tuple(sorted(paths, key=lambda bind: len(Path(bind.target).parts)))

    def shown_at(self) -> tuple[tuple[str, str], ...]:
        """The parts of the workspace and where each appears."""
        return self.places or ((".", str(self.workspace)),)

    @property
    def notes_in(self) -> Path:
        """The host folder behind the first place, where the canary leaves its notes."""
        return self.workspace / self.shown_at()[0][0]

    def within(self, inside: str) -> Path | None:
        """The host path behind one inside, below the workspace's places; None elsewhere."""
        for part, place in sorted(self.shown_at(), key=lambda pair: -len(pair[1])):
            if Path(inside).is_relative_to(place):
                return self.workspace / part / Path(inside).relative_to(place)
        return None

    def _holding(self) -> list[Bind]:
        """The folders of the workspace above something shown there, each bound to itself: so none can be moved."""
        tops = {place for _, place in self.shown_at()}
        held: dict[str, Bind] = {}
        for inside in (*map(str, self.readable), *(place for _, place in self.lent), *self.protected):
            for above in Path(inside).parents:
                source = self.within(str(above))
                if source is None or str(above) in tops:
                    break
                held[str(above)] = Bind(source, str(above), writable=not self.read_only)
        return [*held.values()]

    def arguments(self, binds: Iterable[Bind]) -> list[str]:
        """Return bubblewrap's arguments up to the command."""
        binds = tuple(binds)
        arguments = [*_namespaces(terminal=self.terminal), *_system(), *_own_file_systems(self.limits, binds)]
        if self.has_cli:
            arguments += ["--perms", "0700", "--size", str(self.limits.tmp_bytes), "--tmpfs", CLI_TMP]
        for bind in binds:
            arguments += ["--bind" if bind.writable else "--ro-bind", str(bind.source), bind.target]
        for place in (APART, *([BIN] if self.has_cli else [])):
            arguments += ["--symlink", f"{_OWN}/{Path(place).name}", place]
        # Files and no mounts, which each cost a start; no links either: a sandbox in here may show /etc and no more.
        for name, number in HANDED.items():
            arguments += ["--perms", "0444", "--file", str(number), f"/etc/{name}"]
        # Last, because bubblewrap creates the mount points above in these two.
        arguments += ["--remount-ro", "/dev", "--remount-ro", "/"]
        return [*arguments, "--chdir", self.start or self.shown_at()[0][1]]


def _namespaces(*, terminal: bool) -> list[str]:
    spaces = [f"--unshare-{kind}" for kind in ("user", "pid", "net", "ipc", "uts", "cgroup")]
    identity = ["--uid", str(USER_ID), "--gid", str(USER_ID), "--hostname", "agent", "--cap-drop", "ALL"]
    return [*spaces, *identity, "--die-with-parent", *([] if terminal else ["--new-session"])]


def _system() -> list[str]:
    arguments = ["--ro-bind", "/usr", "/usr"]
    for name in _MERGED:
        place = Path("/", name)
        if place.is_symlink():
            arguments += ["--symlink", str(place.readlink()), str(place)]
        elif place.is_dir():
            arguments += ["--ro-bind", str(place), str(place)]
    for name in _ETC.split():
        arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return [*arguments, *_time_zone()]


def _time_zone() -> list[str]:
    """As the host has it: where it is a link, its target is the zone's name.

    Without that name the CLI compares the file with every zone there is, at each start.
    """
    zone = Path("/etc/localtime")
    if zone.is_symlink() and zone.resolve().is_relative_to("/usr"):
        return ["--symlink", str(zone.readlink()), str(zone)]
    return ["--ro-bind-try", str(zone), str(zone)]


def _own_file_systems(limits: JailLimits, binds: Iterable[Bind]) -> list[str]:
    shm = min(SHM_BYTES, limits.tmp_bytes)
    # The list of kernel keys shows what the starter's session holds; a null device without
    # device access cannot even be opened.
    keys = ["--ro-bind", "/dev/null", "/proc/keys"] if Path("/proc/keys").exists() else []
    # Something shown below a link would be known by another name than its own.
    is_link = not any(Path(bind.target).is_relative_to("/var/tmp") for bind in binds)
    tmpfs = ("--perms", "1777", "--size", str(limits.tmp_bytes), "--tmpfs")
    return [
        *("--proc", "/proc"),
        # Some of these files belong to root by owner alone, without a capability: never writable.
        *("--ro-bind", "/proc/sys", "/proc/sys"),
        *keys,
        *("--dev", "/dev"),
        *("--perms", "1777", "--size", str(shm), "--tmpfs", "/dev/shm"),
        *(*tmpfs, "/tmp"),
        *("--dir", "/var", "--dir", "/run"),
        *(("--symlink", "../tmp", "/var/tmp") if is_link else (*tmpfs, "/var/tmp")),
    ]


def seccomp_filter(machine: str | None = None) -> bytes:
    """Return the compiled filter for this machine.

    Raises:
        UnconfinedError: the numbers of the system calls on this machine are not known here.
    """
    machine = machine or os.uname().machine
    if machine not in _MACHINES:
        raise UnconfinedError(
            f"refusing to start: the jail has no system call filter for a {machine} machine",
            rules=("jail",),
            fix="Run it on x86_64 or aarch64.",
        )
    column, arch = _MACHINES[machine]
    absent = [numbers[column] for numbers in _ABSENT.values()]
    refused = [numbers[column] for numbers in _REFUSED.values()]

    # A foreign ABI (32 bit, x32) has other numbers for the same calls, so all of it is absent.
    rules: list[_Rule] = [(_LOAD, _ARCH, "", ""), (_JUMP_EQ, arch, "", "absent"), (_LOAD, _NR, "", "")]
    if machine == "x86_64":
        rules.append((_JUMP_GE, _X32, "absent", ""))
    rules += [(_JUMP_EQ, number, "absent", "") for number in absent]
    rules += [(_JUMP_EQ, number, "refused", "") for number in refused]
    rules += [
        (_JUMP_EQ, _SOCKET[column], "sockets", ""),
        (_JUMP_EQ, _SOCKETPAIR[column], "sockets", ""),
        (_JUMP_EQ, _IOCTL[column], "", "allow"),
        (_LOAD, _SECOND_ARGUMENT, "", ""),
        (_JUMP_EQ, _TIOCSTI, "refused", ""),
        (_JUMP_EQ, _TIOCLINUX, "refused", "allow"),
    ]
    sockets: list[_Rule] = [
        (_LOAD, _FIRST_ARGUMENT, "", ""),
        *((_JUMP_EQ, family, "allow", "") for family in (_AF_UNIX, _AF_INET, _AF_INET6)),
        (_JUMP_EQ, _AF_NETLINK, "", "no family"),
        (_LOAD, _THIRD_ARGUMENT, "", ""),
        (_JUMP_EQ, _NETLINK_ROUTE, "allow", "no family"),
    ]
    return _assemble([*rules, *sockets], {"sockets": len(rules)})


_Rule = tuple[int, int, str, str]
"""What to do, with which value, and where to go on if it is so and if it is not; nowhere is the next rule."""


def _assemble(rules: list[_Rule], places: Mapping[str, int]) -> bytes:
    """Turn rules with named targets into BPF: those of `places`, and the endings after the last rule."""
    endings = {
        "allow": _ALLOW,
        "absent": _ERRNO | errno.ENOSYS,
        "refused": _ERRNO | errno.EPERM,
        "no family": _ERRNO | errno.EAFNOSUPPORT,
    }
    place = {**places, **{name: len(rules) + offset for offset, name in enumerate(endings)}}

    def distance(here: int, target: str) -> int:
        return place[target] - here - 1 if target else 0

    program = [
        struct.pack("<HBBI", code, distance(here, yes), distance(here, no), value)
        for here, (code, value, yes, no) in enumerate(rules)
    ]
    program += [struct.pack("<HBBI", _RETURN, 0, 0, value) for value in endings.values()]
    return b"".join(program)
