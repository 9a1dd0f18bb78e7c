"""Tell whether a process is still the one it was: numbers are used again, start times and boots are not."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def all_pids() -> list[int]:
    """The number of every process there is now."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def boot_id() -> str:
    """What the kernel calls this boot of the machine; empty where it does not say."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    return ""


def started_at(pid: int) -> int | None:
    """When a process started, in ticks since the boot; None if there is no such process."""
    fields = stat_fields(pid)
    return int(fields[19]) if len(fields) > 19 else None


def is_running(pid: int) -> bool:
    """Whether there is such a process and it has not ended (a zombie has)."""
    fields = stat_fields(pid)
    return bool(fields) and fields[0] not in (b"Z", b"X")


def stat_fields(pid: int) -> list[bytes]:
    """What /proc says of a process after its name, beginning with its state; empty if there is none.

    The name stands in parentheses and may hold anything, so the fields are counted from the last one.
    """
    try:
        # Not through pathlib: some ask for every process there is, several times a second.
        handle = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(handle, 4096).rpartition(b")")[2].split()
        finally:
            os.close(handle)
    except OSError:
        return []
