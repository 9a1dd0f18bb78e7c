"""Keep the last lines of what the CLI writes to stderr: often the only place that names a cause."""

from __future__ import annotations

from collections import deque


class Tail:
    """The last lines, bounded in number and length."""

    def __init__(self, lines: int = 50, width: int = 500) -> None:
        self._lines: deque[str] = deque(maxlen=lines)
        self._width = width

    def write(self, line: str) -> None:
        """Add a line; the SDK's `stderr` callback."""
        self._lines.append(line.rstrip("\n")[: self._width])

    def __str__(self) -> str:
        return "\n".join(self._lines)
