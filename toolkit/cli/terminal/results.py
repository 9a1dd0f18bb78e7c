"""stdout is for results: whatever a user's code prints while a command runs goes to stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any, TextIO

import click


def take_stdout() -> TextIO:
    """A stream to the real stdout; from now until the process ends, prints go to stderr.

    Call it before a user's code is imported.
    """
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    kept = os.dup(1)
    os.set_inheritable(kept, False)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        _discard(1)
    # A result is printed even where the terminal's encoding has no letter for part of it.
    return os.fdopen(kept, "w", encoding=encoding, errors="backslashreplace")


def write_result(stream: TextIO, result: str | bytes) -> bool:
    """Print a result, bytes as they are; a reader that has gone away (`| head`) is no error, but False."""
    with contextlib.suppress(BrokenPipeError):
        if isinstance(result, bytes):
            stream.buffer.write(result)
        else:
            stream.write(result if result.endswith("\n") else result + "\n")
        stream.flush()
        return True
    # What is still buffered would fail once more when the stream is closed at exit.
    _discard(stream.fileno())
    return False


def _discard(handle: int) -> None:
    """Let whatever is written to a handle go nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, handle)
    os.close(null)


def as_json(value: Any) -> str:
    """A value as JSON for people and programs alike."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def echo_json(value: Any) -> None:
    """Print a value as JSON in plain ASCII, where no user's code has run."""
    click.echo(json.dumps(value, indent=2))
