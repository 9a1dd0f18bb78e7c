"""What a confined process can see and touch, written as arguments for bubblewrap.

The jail starts from nothing and adds: the system's programs read-only, a /proc
and a /dev of its own, a small /tmp in memory, the workspace, a private home and
what the caller names. There is no network, no other process, no capability and
no variable from outside. This module only describes; the launcher starts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolkit.sandbox.limits import SHM_BYTES, JailLimits

HOME = "/home/agent"
SOCKET = "/run/toolkit/api.sock"
BIN = "/run/toolkit/bin"
USER_ID = 1000

# Programs find their libraries, certificates and time zone with these; none holds a secret.
_ETC = (
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "pki/ca-trust/extracted",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
)
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")

SYNTHETIC_ETC = {
    "passwd": f"root:x:0:0:root:/:/bin/false\nagent:x:{USER_ID}:{USER_ID}:agent:{HOME}:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/:/bin/false\n",
    "group": f"root:x:0:\nagent:x:{USER_ID}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost agent\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "resolv.conf": "",
}


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
    """The one host folder to work in; it has the same path inside."""
    shown: Path
    """A private host folder: `etc` in it holds synthetic files, `bin`, if there is one, programs to put first."""
    home: Path
    """The host folder behind the agent's home."""
    programs: tuple[Path, ...] = ()
    """Single executables to show, for example the CLI."""
    readable: tuple[Path, ...] = ()
    """Further host paths to show read-only, at the same place."""
    socket: Path | None = None
    """The gate's socket; without it there is no way out at all."""
    environment: tuple[tuple[str, str], ...] = ()
    limits: JailLimits = field(default_factory=JailLimits)
    read_only: bool = False
    """Show the workspace without letting anything change in it."""
    terminal: bool = False
    """Keep the caller's terminal, for a person at a shell."""

    def binds(self) -> tuple[Bind, ...]:
        """The host paths outside the system's own, shallow ones first so that deeper ones win."""
        paths = [
            Bind(self.workspace, str(self.workspace), writable=not self.read_only),
            Bind(self.home, HOME, writable=True),
            *(Bind(path, str(path)) for path in (*self.readable, *self.programs)),
            *(Bind(self.shown / "etc" / name, f"/etc/{name}") for name in SYNTHETIC_ETC),
        ]
        if self.socket is not None:
            paths.append(Bind(self.socket, SOCKET))
        if (self.shown / "bin").is_dir():
            paths.append(Bind(self.shown / "bin", BIN))
        return tuple(sorted(paths, key=lambda bind: len(Path(bind.target).parts)))

    def arguments(self, sources: Sequence[Path] | None = None) -> list[str]:
        """Return bubblewrap's arguments up to the command.

        `sources` names another place for each of `binds()`, where the user that
        starts bubblewrap cannot reach the paths themselves.
        """
        binds = self.binds()
        places = [bind.source for bind in binds] if sources is None else list(sources)
        arguments = [*_namespaces(terminal=self.terminal), *_system(), *_own_file_systems(self.limits)]
        for bind, place in zip(binds, places, strict=True):
            arguments += ["--bind" if bind.writable else "--ro-bind", str(place), bind.target]
        # Last, because bubblewrap creates the mount points above in these two.
        arguments += ["--remount-ro", "/dev", "--remount-ro", "/"]
        return [*arguments, "--chdir", str(self.workspace)]


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
    for name in _ETC:
        arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return arguments


def _own_file_systems(limits: JailLimits) -> list[str]:
    shm = min(SHM_BYTES, limits.tmp_bytes)
    # The list of kernel keys shows what the starter's session holds; a null device without
    # device access cannot even be opened.
    keys = ["--ro-bind", "/dev/null", "/proc/keys"] if Path("/proc/keys").exists() else []
    return [
        *("--proc", "/proc"),
        # Some of these files belong to root by owner alone, without a capability: never writable.
        *("--ro-bind", "/proc/sys", "/proc/sys"),
        *keys,
        *("--dev", "/dev"),
        *("--perms", "1777", "--size", str(shm), "--tmpfs", "/dev/shm"),
        *("--perms", "1777", "--size", str(limits.tmp_bytes), "--tmpfs", "/tmp"),
        *("--dir", "/var", "--symlink", "../tmp", "/var/tmp", "--dir", "/run"),
    ]
