"""What a command of the launcher's prints: kept in a file, told as events, and its last lines at hand."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import re
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from toolkit._base.words import safe_text

_MOST_KEPT = 16_000_000
_MOST_TOLD = 400_000
_PAUSE = 0.1
"""Seconds for which pieces are gathered into one event."""
_LINES, _WIDTH = 30, 400
_SHORTEST = 8
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[=>()][0B]?")
HIDDEN = "[hidden]"


class Output:
    """Takes what a command prints, until it is closed.

    Args:
        file: Where all of it is kept, up to 16 MB.
        tell: Gets texts, at most ten times a second, up to 400 kB.
        secrets: Values that must not be kept or told: those of variables that the command was given.
    """

    def __init__(self, file: Path, tell: Callable[[str], None], secrets: Iterable[str] = ()) -> None:
        self.path = file
        self._file: BinaryIO | None = file.open("ab", buffering=0)
        self._tell = tell
        self._secrets = [one for one in secrets if len(one) >= _SHORTEST]
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._waiting = ""
        self._held = ""
        """The beginning of a line that is not complete: a secret may be cut in two there."""
        self._kept = self._told = 0
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._timer: asyncio.TimerHandle | None = None

    def take(self, piece: bytes) -> None:
        """The next piece."""
        text = self._held + self._decode(piece)
        whole, newline, self._held = text.rpartition("\n")
        if len(self._held) > _WIDTH * 10:  # a line without an end
            whole, newline, self._held = text, "", ""
        if whole or newline:
            self._pass_on(f"{whole}{newline}")

    def close(self) -> list[str]:
        """Nothing more comes; the last lines that say something."""
        rest = self._held + self._decode(b"", True)
        self._held = ""
        if rest:
            self._pass_on(rest)
        self._flush()
        if self._file is not None:
            self._file.close()
        self._file = None
        return [line for line in self._lines if line.strip()]

    def _pass_on(self, text: str) -> None:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        self._keep(text.encode(errors="replace"))
        for line in text.removesuffix("\n").split("\n"):
            # A line that was drawn anew, as progress bars do: what it said last.
            shown = safe_text(_COLOURS.sub("", line.rstrip("\r").rpartition("\r")[2]))
            self._lines.append(shown[:_WIDTH])
            self._waiting += f"{shown}\n"
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self._flush)

    def _keep(self, data: bytes) -> None:
        if self._file is None or self._kept >= _MOST_KEPT:
            return
        self._kept += len(data)
        more = b"\n[the rest is not kept]\n" if self._kept >= _MOST_KEPT else b""
        with contextlib.suppress(OSError):  # a full disk: the command says so as well
            self._file.write(data + more)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        text, self._waiting = self._waiting, ""
        if not text or self._told >= _MOST_TOLD:
            return
        self._told += len(text)
        self._tell(text if self._told < _MOST_TOLD else f"{text[:_MOST_TOLD]}\n… the rest is in the run's folder\n")
