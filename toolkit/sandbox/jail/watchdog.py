"""Look at a running jail often, and end it when it has used more than it may.

For what the kernel cannot be asked to hold: the size of the workspace, total
processor time and, where no control group can be made, memory. It works in a
thread of its own, because a busy event loop must not stop it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from toolkit._base.processes import all_pids, stat_fields
from toolkit.sandbox.jail.launcher import OpenJail

_EVERY = 0.25
_SCAN_EVERY = 0.5
_SCAN_SHARE = 10
"""A scan that takes long is repeated less often, so that it never costs more than a tenth of a core."""
_PER_FILE = 1024
"""What a file takes besides its bytes, so that empty ones count as well."""
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Exceeded:
    """The limit that ended a jail."""

    limit: str
    used: int
    allowed: int


class Watchdog:
    """Watches one jail until it is stopped."""

    def __init__(self, opened: OpenJail) -> None:
        jail, limits = opened.jail, opened.jail.limits
        by_watchdog = {limit.name for limit in opened.plan.held if "watchdog" in limit.by}
        self._folder = opened.folder
        self._folders = [jail.workspace, jail.home or opened.folder.home]
        self._memory = limits.memory_bytes if "memory" in by_watchdog else None
        self._cpu = limits.cpu_seconds
        self._workspace = limits.workspace_bytes
        self._stop = threading.Event()
        self._next_scan = 0.0
        self._free_at_start = _free_bytes(jail.workspace)
        self._thread = threading.Thread(target=self._watch, name="toolkit-watchdog", daemon=True)
        self.exceeded: Exceeded | None = None
        """What was used up, once the jail has been ended for it."""

    def start(self) -> None:
        """Begin, if there is anything to watch."""
        if not (self._memory is None and self._cpu is None and self._workspace is None):
            self._thread.start()

    def stop(self) -> None:
        """Stop looking."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _watch(self) -> None:
        while not self._stop.wait(_EVERY):
            roots = self._folder.processes()
            if not roots:
                continue
            found = self._look(roots)
            if found is not None:
                self.exceeded = found
                self._folder.kill()
                return

    def _look(self, roots: list[int]) -> Exceeded | None:
        if self._memory is not None or self._cpu is not None:
            exceeded = self._look_at_processes(roots)
            if exceeded is not None:
                return exceeded
        return self._look_at_folders() if self._workspace is not None else None

    def _look_at_processes(self, roots: list[int]) -> Exceeded | None:
        pids, memory, seconds = measure_processes(roots)
        if self._memory is not None:
            memory += measure_tmpfs(pids)
            if memory > self._memory:
                return Exceeded("memory", memory, self._memory)
        if self._cpu is not None and seconds > self._cpu:
            return Exceeded("cpu", seconds, self._cpu)
        return None

    def _look_at_folders(self) -> Exceeded | None:
        assert self._workspace is not None
        if time.monotonic() < self._next_scan:
            return None
        began = time.monotonic()
        used, seen_all = measure_folders(self._folders, stop_at=self._workspace)
        now = time.monotonic()
        self._next_scan = now + max(_SCAN_EVERY, _SCAN_SHARE * (now - began))
        if not seen_all:
            # A folder that is closed to us can hide any amount, but not from the disk.
            used = max(used, self._free_at_start - _free_bytes(self._folders[0]))
        return Exceeded("workspace", used, self._workspace) if used > self._workspace else None


def measure_processes(roots: list[int]) -> tuple[set[int], int, int]:
    """These processes and all that came from them, with their memory in bytes and processor seconds."""
    parents: dict[int, int] = {}
    usage: dict[int, tuple[int, int]] = {}
    for pid in all_pids():
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = stat_fields(pid)
            shared = int(_read(f"/proc/{pid}/statm").split()[2])
            parents[pid] = int(fields[1])
            ticks = sum(int(value) for value in fields[11:15])
            usage[pid] = (max(0, int(fields[21]) - shared) * _PAGE, ticks)
    wanted = set(roots)
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in wanted} - wanted
        wanted |= more
        grown = bool(more)
    counted = [usage[pid] for pid in wanted if pid in usage]
    return wanted, sum(memory for memory, _ in counted), sum(ticks for _, ticks in counted) // _TICKS


def _read(file: str) -> bytes:
    """A file of /proc in one piece; this is done for every process, several times a second."""
    handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, 4096)
    finally:
        os.close(handle)


def measure_tmpfs(pids: set[int]) -> int:
    """Bytes in the memory file systems these processes have mounted; no process is charged for them."""
    of_the_host = {device for device, _, _ in _mounts("self")}
    used: dict[str, int] = {}
    seen: set[Path] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            namespace = Path(f"/proc/{pid}/ns/mnt").readlink()
            if namespace in seen:
                continue
            seen.add(namespace)
            for device, place, kind in _mounts(str(pid)):
                if kind == "tmpfs" and device not in of_the_host and device not in used:
                    with contextlib.suppress(OSError):
                        found = os.statvfs(f"/proc/{pid}/root{place}")
                        used[device] = (found.f_blocks - found.f_bfree) * found.f_frsize
    return sum(used.values())


def _mounts(pid: str) -> list[tuple[str, str, str]]:
    """Device, place and kind of everything a process has mounted."""
    lines = Path("/proc", pid, "mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    parts = [line.split(" ") for line in lines]
    return [(fields[2], fields[4], fields[fields.index("-") + 1]) for fields in parts]


def _free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def measure_folders(folders: list[Path], *, stop_at: int) -> tuple[int, bool]:
    """Bytes on disk below `folders`, and whether all of it could be seen. Stops once it is too much."""
    total, seen_all = 0, True
    waiting = [str(folder) for folder in folders]
    while waiting and total <= stop_at:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        total += entry.stat(follow_symlinks=False).st_blocks * 512 + _PER_FILE
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
        except FileNotFoundError:
            continue
        except OSError:
            seen_all = False
    return total, seen_all
