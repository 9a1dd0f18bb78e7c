"""Look at a running jail often, and end it when it has used more than it may.

For what the kernel cannot be asked to hold: the size of the workspace, total
processor time and, where no control group can be made, memory. It works in a
thread of its own, because a busy event loop must not stop it.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from toolkit._base.words import size_text
from toolkit.sandbox.jail.launcher import OpenJail
from toolkit.sandbox.measure import (
    measure_folders,
    measure_processes,
    measure_shared,
    measure_tmpfs,
    measure_unlinked,
    shared_on_machine,
)

_EVERY = 0.25
_SCAN_EVERY = 0.5
_SCAN_SHARE = 10
"""A scan that takes long is repeated less often, so that it never costs more than a tenth of a core."""
_PATIENCE = 3
"""Looks in a row that did not see everything before the disk is asked instead: a moving folder is no hiding place."""


@dataclass(frozen=True, slots=True)
class Exceeded:
    """The limit that ended a jail."""

    limit: str
    used: int
    """What was found; the same as `allowed` where the kernel let nothing more be used."""
    allowed: int

    def __str__(self) -> str:
        return f"the limit on {self.limit} was passed ({self.figures})"

    @property
    def figures(self) -> str:
        """What was used, and of how much, for a person."""
        used, allowed = (f"{one:,} s" if self.limit == "cpu" else size_text(one) for one in (self.used, self.allowed))
        return f"{used} of {allowed}"


class Watchdog:
    """Watches one jail until it is stopped."""

    def __init__(self, opened: OpenJail) -> None:
        jail, limits = opened.jail, opened.jail.limits
        by_watchdog = {limit.name for limit in opened.plan.held if "watchdog" in limit.by}
        self._folder = opened.folder
        self._folders = [jail.workspace, opened.folder.home, jail.cli_home or opened.folder.cli_home]
        self._memory = limits.memory_bytes if "memory" in by_watchdog else None
        self._cpu = limits.cpu_seconds
        self._workspace = limits.workspace_bytes
        self._stop = threading.Event()
        self._next_scan = self._next_shared = 0.0
        self._unseen = self._unseen_shared = 0
        self._shared = 0
        self._shared_at_start = shared_on_machine()
        self._free_at_start = _free_bytes(jail.workspace)
        self._began = time.time()
        self._thread = threading.Thread(target=self._watch, name="toolkit-watchdog", daemon=True)
        self.exceeded: Exceeded | None = None
        """What was used up, once the jail has been ended for it."""
        self._group = opened.plan.cgroup
        self._most_memory = limits.memory_bytes or 0

    def start(self) -> None:
        """Begin, if there is anything to watch."""
        if not (self._memory is None and self._cpu is None and self._workspace is None):
            self._thread.start()

    def stop(self) -> None:
        """Stop looking."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def ended(self, code: int | None) -> Exceeded | None:
        """The limit that a command was ended for which ended with this code; to be asked before the jail is closed.

        Where the kernel holds the memory it ends single processes: that of the command, or one without which it failed.
        """
        if self.exceeded is None and code and self.killed:
            return Exceeded("memory", self._most_memory, self._most_memory)
        return self.exceeded

    @property
    def killed(self) -> int:
        """How many processes in the jail the kernel has ended because the memory was used up, until now."""
        return 0 if self._group is None else self._group.killed()

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
        return self._look_at_folders(roots) if self._workspace is not None else None

    def _look_at_processes(self, roots: list[int]) -> Exceeded | None:
        pids, memory, seconds = measure_processes(roots)
        if self._memory is not None:
            memory += measure_tmpfs(pids) + self._look_at_shared(pids)
            if memory > self._memory:
                return Exceeded("memory", memory, self._memory)
        if self._cpu is not None and seconds > self._cpu:
            return Exceeded("cpu", seconds, self._cpu)
        return None

    def _look_at_shared(self, pids: set[int]) -> int:
        """What they share without a name, by the last look at it."""
        began = time.monotonic()
        if began < self._next_shared:
            return self._shared
        self._shared, seen_all = measure_shared(pids)
        now = time.monotonic()
        self._next_shared = now + _SCAN_SHARE * (now - began)
        self._unseen_shared = 0 if seen_all else self._unseen_shared + 1
        if self._unseen_shared >= _PATIENCE:
            # What is under way in a socket can be of any size, but not for the machine.
            self._shared = max(self._shared, shared_on_machine() - self._shared_at_start)
        return self._shared

    def _look_at_folders(self, roots: list[int]) -> Exceeded | None:
        assert self._workspace is not None
        if time.monotonic() < self._next_scan:
            return None
        began = time.monotonic()
        used, seen_folders = measure_folders(self._folders, stop_at=self._workspace, changed_since=self._began)
        unlinked, seen_handles = measure_unlinked(measure_processes(roots)[0], self._folders)
        used += unlinked
        now = time.monotonic()
        self._next_scan = now + max(_SCAN_EVERY, _SCAN_SHARE * (now - began))
        self._unseen = 0 if seen_folders and seen_handles else self._unseen + 1
        if self._unseen >= _PATIENCE:
            # What is closed to us can hide any amount, but not from the disk.
            used = max(used, self._free_at_start - _free_bytes(self._folders[0]))
        return Exceeded("workspace", used, self._workspace) if used > self._workspace else None


def _free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
