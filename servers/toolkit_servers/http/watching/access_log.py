"""The access log: a line on stderr for each request that ended, with no word of what it carried.

Lines are written by a thread, a batch at a time: a log that nobody reads stops no call. When too
many wait, the oldest are dropped, and a line says how many.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from toolkit._base.json_bytes import json_bytes
from toolkit._base.words import safe_line

LogFormat = Literal["off", "text", "json"]
_MOST_WAITING = 10_000
_LONGEST_WORD = 80
_BATCH_SECONDS = 0.05
_LAST_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One request as the log tells it."""

    method: str
    """The protocol's method, or GET, DELETE and the like."""
    tool: str
    """The tool or prompt; empty where there is none."""
    outcome: str
    """ok, error (the tool says so), failed (a protocol error), refused, cancelled."""
    status: int
    milliseconds: float
    client: str
    """The name of the token, or the address."""
    program: str
    """What the client calls itself; empty where it did not say."""
    reason: str = ""
    """Why it was refused."""


class AccessLog:
    """Writes entries to a descriptor, in one of two formats."""

    def __init__(self, form: LogFormat = "text", fd: int = 2) -> None:
        self.is_on = form != "off"
        self._as_line = _json_line if form == "json" else _text_line
        self._fd = fd
        self._waiting: deque[tuple[datetime, LogEntry]] = deque()
        self._dropped = 0
        self._some = threading.Event()
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def write(self, entry: LogEntry) -> None:
        """Take an entry; it is written soon."""
        if not self.is_on:
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._waiting.popleft()
            self._dropped += 1
        self._waiting.append((datetime.now(UTC), entry))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="toolkit-access-log", daemon=True)
            self._thread.start()
        if not self._some.is_set():
            self._some.set()

    def flush(self) -> None:
        """Let what waits be written, for at most a moment; for the end of the process."""
        self._ends.set()
        self._some.set()
        if self._thread is not None:
            self._thread.join(_LAST_SECONDS)

    def _run(self) -> None:
        while not self._ends.is_set():
            self._some.wait()
            self._ends.wait(_BATCH_SECONDS)  # what comes meanwhile is written with it
            self._some.clear()
            text = memoryview(self._take())
            with contextlib.suppress(OSError):
                while text:
                    text = text[os.write(self._fd, text) :]

    def _take(self) -> bytes:
        lines = []
        while True:
            try:
                lines.append(self._as_line(*self._waiting.popleft()))
            except IndexError:
                break
        dropped, self._dropped = self._dropped, 0
        if dropped:
            lines.append(f"{dropped} lines of the access log were dropped: nobody read it\n")
        return "".join(lines).encode("utf-8", "replace")


def _text_line(at: datetime, entry: LogEntry) -> str:
    words = [
        at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
        _word(entry.client),
        _word(entry.program) or "-",
        _word(entry.method),
        _word(entry.tool) or "-",
        f"{entry.status}",
        entry.outcome,
        f"{entry.milliseconds:.1f}ms",
    ]
    return " ".join(words) + (f" ({entry.reason})\n" if entry.reason else "\n")


def _json_line(at: datetime, entry: LogEntry) -> str:
    told = {
        "time": at.isoformat(timespec="milliseconds"),
        "client": _clipped(entry.client),
        "program": _clipped(entry.program) or None,
        "method": _clipped(entry.method),
        "tool": _clipped(entry.tool) or None,
        "status": entry.status,
        "outcome": entry.outcome,
        "ms": round(entry.milliseconds, 3),
        "reason": entry.reason or None,
    }
    return json_bytes({key: value for key, value in told.items() if value is not None}).decode() + "\n"


def _word(text: str) -> str:
    """A client's own word: one line, no spaces, not long."""
    return _clipped(text).replace(" ", "_")


def _clipped(text: str) -> str:
    return safe_line(text, _LONGEST_WORD)
