"""What a server of a run wrote to stderr, as the CLI keeps it in the jail's home.

The files there are within reach of what runs in the jail, so they are opened without following
links, a bounded part of them is read, and nothing in them is believed: it is shown as text.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from toolkit._base.handles import open_beneath

_FOLDER = b".cache/claude-cli-nodejs"
_MARK = "Server stderr: "
_MOST_BYTES = 16 * 1024 * 1024
"""Of the end of a file: the CLI writes all that a server said as one line."""
_MOST_KEPT = 4000
_FOLDERS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def server_stderr(home: Path, server: str, since: float = 0.0) -> str:
    """The end of what it wrote so far; empty where nothing is known. Before `since` another one had the name."""
    found: list[str] = []
    with (
        contextlib.suppress(OSError),
        _opened(os.open(home, _FOLDERS)) as root,
        _opened(open_beneath(root, _FOLDER, _FOLDERS)) as logs,
    ):
        for project in _names(logs):
            where = os.fsencode(f"{project}/mcp-logs-{server}")
            with contextlib.suppress(OSError), _opened(open_beneath(logs, where, _FOLDERS)) as folder:
                found += _told(folder, since)
    return "\n".join(found)[-_MOST_KEPT:]


def _told(folder: int, since: float) -> Iterator[str]:
    for name in sorted(_names(folder)):
        with contextlib.suppress(OSError):
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            with _opened(open_beneath(folder, os.fsencode(name), flags)) as file:
                os.lseek(file, max(0, os.fstat(file).st_size - _MOST_BYTES), os.SEEK_SET)
                lines = os.read(file, _MOST_BYTES).splitlines()
            for line in lines:
                yield from _stderr_in(line, since)


def _stderr_in(line: bytes, since: float) -> Iterator[str]:
    try:
        entry = json.loads(line)
    except ValueError:
        return
    text = entry.get("error") if isinstance(entry, dict) else None
    if isinstance(text, str) and text.startswith(_MARK) and _when(entry) >= since:
        yield text.removeprefix(_MARK).strip()


def _when(entry: dict[str, Any]) -> float:
    try:
        return datetime.fromisoformat(str(entry.get("timestamp"))).timestamp()
    except ValueError:
        return 0.0


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


@contextlib.contextmanager
def _opened(handle: int) -> Iterator[int]:
    try:
        yield handle
    finally:
        os.close(handle)
