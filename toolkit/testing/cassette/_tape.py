"""Stands between the SDK and the CLI and writes down what both say. A program of its own.

    python _tape.py CASSETTE CLI ARGUMENTS...

Bytes pass through unchanged; the cassette gets one JSON line for every frame,
with secrets taken out before they reach the disk, and a last line with the exit
code. It imports nothing but the standard library: it has to start at once, in
whatever environment the CLI is given. Signals reach the CLI, and it ends as the
CLI ends.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import IO, Any

VERSION = 1
REMOVED = "[removed]"

_SECRET_NAME = re.compile(r"(?i)(key|token|secret|password|passwd|credential|auth)")
_SECRET_TEXT = re.compile(
    r"sk-[A-Za-z0-9_-]{8,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,}"
    r"|AKIA[0-9A-Z]{16}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"
    r"|(?i:\bbearer\s+)[A-Za-z0-9._~+/-]{8,}=*"
)
_ASSIGNED = re.compile(
    r"(?i)(\b[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)[A-Z0-9_]*\s*[=:]\s*)([^\s\"',;]{6,})"
)
# The account of the person who records; nothing a replay needs.
_SECRET_FIELDS = frozenset({"account", "email", "organization", "user_id", "device_id", "account_uuid"})


class Cleaner:
    """Takes out of a frame what must not be written down: known values, secret-looking texts, the account."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        values = {value for name, value in environment.items() if _SECRET_NAME.search(name) and len(value) >= 8}
        self._values = sorted(values, key=len, reverse=True)

    def clean(self, value: Any) -> Any:
        """Return a copy without secrets."""
        if isinstance(value, str):
            return self._clean_text(value)
        if isinstance(value, list):
            return [self.clean(item) for item in value]
        if isinstance(value, dict):
            return {key: REMOVED if key in _SECRET_FIELDS and item else self.clean(item) for key, item in value.items()}
        return value

    def _clean_text(self, content: str) -> str:
        for value in self._values:
            content = content.replace(value, REMOVED)
        return _ASSIGNED.sub(lambda found: found[1] + REMOVED, _SECRET_TEXT.sub(REMOVED, content))


class Tape:
    """The cassette being written; safe to use from several threads."""

    def __init__(self, file: IO[str], cleaner: Cleaner) -> None:
        self._file = file
        self._cleaner = cleaner
        self._lock = threading.Lock()

    def frame(self, to: str, line: bytes) -> None:
        """Write one frame down; what is no JSON object is kept as the text it was."""
        try:
            frame = json.loads(line)
        except ValueError:
            frame = None
        if isinstance(frame, dict):
            self.line({"to": to, "frame": self._cleaner.clean(frame)})
        elif line.strip():
            self.line({"to": to, "text": self._cleaner.clean(line.decode(errors="replace").rstrip("\n"))})

    def line(self, content: dict[str, Any]) -> None:
        """Write one line."""
        with self._lock:
            self._file.write(json.dumps(content, ensure_ascii=False) + "\n")
            self._file.flush()


def _copy(source: int, sink: int, tape: Tape, to: str) -> None:
    """Pass lines on as they come, noting each before it is passed, so that a reply stands after its request."""
    pending = b""
    while piece := os.read(source, 65536):
        *lines, pending = (pending + piece).split(b"\n")
        for line in lines:
            tape.frame(to, line)
        if not _write(sink, piece):
            break
    if pending.strip():
        tape.frame(to, pending)
    if to == "cli":
        tape.line({"to": "cli", "end": True})
        os.close(sink)


def _write(sink: int, data: bytes) -> bool:
    try:
        while data:
            data = data[os.write(sink, data) :]
    except BrokenPipeError:
        return False
    return True


def main(cassette: str, command: list[str]) -> int:
    """Run the command with its conversation written to the cassette; return its exit code."""
    with open(cassette, "w", encoding="utf-8") as file:  # noqa: PTH123
        tape = Tape(file, Cleaner(os.environ))
        tape.line({"cassette": VERSION})
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda received, _: process.send_signal(received))
        assert process.stdin is not None
        assert process.stdout is not None
        stdin = os.dup(process.stdin.fileno())
        process.stdin.close()
        threading.Thread(target=_copy, args=(0, stdin, tape, "cli"), daemon=True).start()
        _copy(process.stdout.fileno(), 1, tape, "sdk")
        code = process.wait()
        tape.line({"exit": code})
        return code


if __name__ == "__main__":
    exit_code = main(sys.argv[1], sys.argv[2:])
    if exit_code < 0:
        if -exit_code != signal.SIGKILL:
            signal.signal(-exit_code, signal.SIG_DFL)
        os.kill(os.getpid(), -exit_code)
    # The thread that reads stdin may still wait in read(): an ordinary exit would wait for its lock.
    os._exit(exit_code)
