"""Lines for a person, without a parser's help: each is there at once, and a reader that went away ends the command."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def say(text: str) -> None:
    """Write a line to stdout."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def ended(do: Callable[[], int | None]) -> int | None:
    """What `do` returns; a reader that went away (`| head`) ends it with 1, as click lets it."""
    try:
        return do()
    except BrokenPipeError:
        # What is still buffered would fail once more when the stream is closed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
