"""A control group for one jail, where this machine lets the caller make one.

Version 2 (delegated, or as root) and version 1 (as root) are used directly, and
`systemd-run --scope` where systemd manages the tree. Nothing is assumed: a
group counts only once it exists and has taken the limit.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_EMPTY_SECONDS = 3.0
_FULL = 0.95
"""How much of its memory a group has used at least that was refused more."""
_SYSTEMD = Path("/run/systemd/system")


@dataclass(frozen=True, slots=True)
class Cgroup:
    """Where a launcher puts its process, and what it puts in front of its command."""

    folders: tuple[Path, ...] = ()
    """Groups to join before anything else is started."""
    prefix: tuple[str, ...] = ()
    """A command that starts the rest in a group of its own."""

    def joining(self) -> list[str]:
        """Shell lines by which a shell puts itself into the groups."""
        lines = []
        for folder in self.folders:
            # Version 1 can move a single thread, which a shell is; a process is moved only after all others have
            # let go of a lock, 10 ms later.
            tasks = folder / "tasks"
            what, file = ("0", tasks) if tasks.exists() else ("$$", folder / "cgroup.procs")
            lines.append(f"echo {what} > {shlex.quote(str(file))}")
        return lines

    def killed(self) -> int:
        """How many processes the kernel has ended in the groups because their memory was used up; 0 once removed.

        A scope of systemd is gone with its last process, and what it counted with it.
        """
        return sum(map(_killed_in, self.folders))

    def remove(self) -> None:
        """Remove the groups; they are empty once the jail is gone."""
        for folder in self.folders:
            remove_group(folder)


def remove_group(folder: Path) -> None:
    """Remove an empty group; the kernel may need a moment to see that its last process has ended."""
    end = time.monotonic() + _EMPTY_SECONDS
    while time.monotonic() < end:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.01)
        else:
            return


def _killed_in(group: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        # A machine without memory ends processes, too: only a group that came to its own limit has passed it.
        if (group / "memory.events").exists():
            events = _counts(group / "memory.events")
            return events["oom_kill"] if events["oom"] else 0
        most, limit = (_number(group / f"memory.{name}_in_bytes") for name in ("max_usage", "limit"))
        return _counts(group / "memory.oom_control").get("oom_kill", 0) if most >= _FULL * limit else 0
    return 0


def _counts(file: Path) -> dict[str, int]:
    """The numbers that a file of the kernel gives by name."""
    pairs = (line.split() for line in file.read_text(encoding="ascii").splitlines())
    return {name: int(value) for name, value in pairs}


def _number(file: Path) -> int:
    return int(file.read_text(encoding="ascii"))


def make_cgroup(name: str, memory_bytes: int) -> Cgroup | None:
    """Return a group that holds at most `memory_bytes`, or None if none can be made here."""
    for kind, folder in _parents():
        group = folder / name
        try:
            group.mkdir()
        except OSError:
            continue
        if _set_memory(kind, group, memory_bytes):
            return Cgroup(folders=(group,))
        Cgroup(folders=(group,)).remove()
    return _systemd_scope(memory_bytes)


def _parents() -> list[tuple[int, Path]]:
    """The groups a new one may be made in: below our own first, then beside it."""
    mounts = _mount_points()
    found: list[tuple[int, Path]] = []
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        kind = 2 if not controllers else 1  # version 2 has one tree, whose line names no controller
        if kind == 1 and "memory" not in controllers.split(","):
            continue
        mount = mounts.get("" if kind == 2 else "memory")
        if mount is None:
            continue
        own = mount / path.lstrip("/")
        # Inside a container the path may be the host's; the mount is then our own group.
        own = own if own.is_dir() else mount
        found.append((kind, own))
        if own != mount:
            found.append((kind, own.parent))
    return sorted(found, key=lambda parent: -parent[0])


def _mount_points() -> dict[str, Path]:
    mounts: dict[str, Path] = {}
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, place, kind, options = line.split(" ")[:4]
        if kind == "cgroup2":
            mounts[""] = Path(place)
        elif kind == "cgroup" and "memory" in options.split(","):
            mounts["memory"] = Path(place)
    return mounts


def _set_memory(kind: int, group: Path, memory_bytes: int) -> bool:
    if kind == 2:
        limit, swap, swap_value = "memory.max", "memory.swap.max", "0"
    else:  # version 1 counts memory and swap together, so the same number leaves no swap
        limit, swap, swap_value = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", str(memory_bytes)
    if kind == 2 and not (group / limit).exists():
        with contextlib.suppress(OSError):
            (group.parent / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
    if not (group / limit).exists() or not os.access(group / "cgroup.procs", os.W_OK):
        return False
    try:
        (group / limit).write_text(str(memory_bytes), encoding="ascii")
    except OSError:
        return False
    with contextlib.suppress(OSError):  # only where swap is accounted
        if (group / swap).exists():
            (group / swap).write_text(swap_value, encoding="ascii")
    return True


def _systemd_scope(memory_bytes: int) -> Cgroup | None:
    """A scope of its own, tried once with a command that does nothing."""
    program = shutil.which("systemd-run")
    if program is None or not _SYSTEMD.is_dir():
        return None
    user = () if os.geteuid() == 0 else ("--user",)
    prefix = (program, *user, "--scope", "--quiet", "--collect")
    prefix += ("-p", f"MemoryMax={memory_bytes}", "-p", "MemorySwapMax=0", "--")
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        tried = subprocess.run([*prefix, "true"], capture_output=True, timeout=5, check=False)
        if tried.returncode == 0:
            return Cgroup(prefix=prefix)
    return None
