"""A terminal taken over for a while and given back as it was, however that ends.

Plain ANSI codes: the second screen, no cursor, no wrapped lines; keys come one by one. Ctrl-C ends it, Ctrl-Z leaves
the terminal in order until the program goes on, and a terminal that is closed or resized is noticed at once.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import termios
import tty
from collections.abc import Callable
from types import FrameType
from typing import Any, Self, TextIO

from toolkit._base.files import write_all

_TAKE = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_GIVE_BACK = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_MOMENT = 0.05
"""Seconds in which the rest of a key's code has to follow its first byte."""
_KEYS = {
    **{b"\x1b[A": "up", b"\x1b[B": "down", b"\x1bOA": "up", b"\x1bOB": "down"},
    **{b"\x1b[5~": "page up", b"\x1b[6~": "page down", b"\x1b[H": "home", b"\x1b[F": "end"},
    **{b"\x1b[1~": "home", b"\x1b[4~": "end", b"\x1bOH": "home", b"\x1bOF": "end"},
    **{b"\r": "enter", b"\n": "enter", b"\x1b": "escape", b"\x7f": "backspace", b"\x03": "quit", b"\x04": "quit"},
}
_ENDS = (signal.SIGTERM, signal.SIGHUP)


class Screen:
    """The terminal between `with` and its end. Signals are its business, so it is for the main thread."""

    def __init__(self, keys: int, out: TextIO) -> None:
        self._keys = keys
        self._out = out
        self._wakes, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[int, Any] = {}
        self._shown: list[str] | None = None
        self._is_to_pause = False

    def __enter__(self) -> Self:
        self._was = termios.tcgetattr(self._keys)
        for number, handler in self._handlers().items():
            self._before[number] = signal.signal(number, handler)
        self._before_wake = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._take()
        return self

    def __exit__(self, *ended: object) -> None:
        self._give_back()
        signal.set_wakeup_fd(self._before_wake)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._wakes)
        os.close(self._wake)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, as they are now."""
        with contextlib.suppress(OSError):
            found = os.get_terminal_size(self._out.fileno())
            if found.columns and found.lines:
                return found.columns, found.lines
        return shutil.get_terminal_size((80, 24))

    def show(self, lines: list[str]) -> None:
        """Show these lines, the first on top; what is the same already is not drawn again."""
        if lines == self._shown:
            return
        self._shown = lines
        drawn = "\n".join(f"{line}\x1b[0m\x1b[K" for line in lines)
        self._say(f"\x1b[H{drawn}\x1b[J")

    def key(self, seconds: float) -> str | None:
        """The next key, by its name or as the character it is; None when the time is over, or there is a signal.

        Raises:
            EOFError: the terminal is gone.
        """
        ready = select.select([self._keys, self._wakes], [], [], seconds)[0]
        if self._wakes in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wakes, 512)
            if self._is_to_pause:
                self._pause()
            return None
        if not ready:
            return None
        code = self._read()
        if code == b"\x1b":
            while select.select([self._keys], [], [], _MOMENT)[0] and not (code in _KEYS and code != b"\x1b"):
                code += self._read()
                if len(code) > 2 and 0x40 <= code[-1] <= 0x7E and code[1:2] in b"[O":
                    break
        return _KEYS.get(code) or code.decode(errors="ignore")

    def _read(self) -> bytes:
        try:
            byte = os.read(self._keys, 1)
        except OSError:
            byte = b""
        if not byte:
            raise EOFError
        more = 3 if byte[0] >= 0xF0 else 2 if byte[0] >= 0xE0 else 1 if byte[0] >= 0xC0 else 0
        for _ in range(more):  # the rest of a character of several bytes
            if select.select([self._keys], [], [], _MOMENT)[0]:
                byte += os.read(self._keys, 1)
        return byte

    def _handlers(self) -> dict[int, Callable[[int, FrameType | None], None]]:
        def resized(number: int, frame: FrameType | None) -> None:
            self._shown = None

        def ends(number: int, frame: FrameType | None) -> None:
            raise SystemExit(128 + number)

        def paused(number: int, frame: FrameType | None) -> None:
            self._is_to_pause = True  # what is being drawn is drawn to its end first

        return {signal.SIGWINCH: resized, signal.SIGTSTP: paused, **dict.fromkeys(_ENDS, ends)}

    def _pause(self) -> None:
        self._is_to_pause = False
        self._give_back()
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)  # stops here, until somebody lets it go on
        signal.signal(signal.SIGTSTP, ours)
        self._take()

    def _take(self) -> None:
        tty.setcbreak(self._keys)
        self._shown = None
        self._say(_TAKE)

    def _give_back(self) -> None:
        self._say(_GIVE_BACK)
        with contextlib.suppress(termios.error):  # it is gone
            termios.tcsetattr(self._keys, termios.TCSADRAIN, self._was)

    def _say(self, text: str) -> None:
        # By its handle: a signal in the middle of a write leaves no half-written buffer behind.
        data = text.encode(self._out.encoding or "utf-8", "replace")
        with contextlib.suppress(OSError):  # it is gone: the next key says so
            write_all(self._out.fileno(), [data])
