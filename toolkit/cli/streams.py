"""stdin, stdout and stderr as every command relies on them: open, and stderr no reason to end.

A handle that was closed (`<&-`) leads nowhere from here on, or the next file that is opened would take its number.
What cannot be said on stderr, because its file is on a full disk, is lost; the command goes on, for a run is worth
more than its progress. A reader that has gone away is another matter: like any program, a command ends with it.
"""

from __future__ import annotations

import errno
import io
import os
import sys

_NAMES = ("stdin", "stdout", "stderr")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def settle() -> None:
    """Let all three be there, and let stderr fail only where nobody reads it any more."""
    for number, name in enumerate(_NAMES):
        if getattr(sys, name) is None:
            _open_nowhere(number)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    if type(sys.stderr) is io.TextIOWrapper:
        handle = open(2, "wb", closefd=False)  # noqa: SIM115
        sys.stderr = _Stderr(handle, sys.stderr.encoding, sys.stderr.errors, line_buffering=True)


def _open_nowhere(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)
    os.set_inheritable(number, True)


class _Stderr(io.TextIOWrapper):
    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            raise
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            raise
        except OSError:
            return


def is_full(error: OSError) -> bool:
    """Whether there is no room for what was to be written; what stdout still holds is dropped, if that is why."""
    if error.errno not in _FULL:
        return False
    try:
        sys.stdout.flush()
    except OSError:
        _open_nowhere(1)  # it would fail again at the exit
    return True
