"""A checkpoint: one moment of a run's files and of its conversation, and the list of those a run has.

The list is `checkpoints.jsonl` in the run's folder, one line each, written when the snapshot of the
files is: it is there after a kill. A number is never used twice.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.errors import RunError

FILE = "checkpoints.jsonl"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One moment of a run: its files, and its conversation."""

    number: int
    """What `rewind` takes; 1 is the first of the run."""
    label: str
    taken: float
    """Seconds since the epoch."""
    turn: int
    """The turn that began then or was under way; that which had ended last where none was."""
    changed: int
    """How many paths differed from what was prepared."""
    snapshot: int
    """The number of the workspace's snapshot."""
    before: str | None = None
    """The prompt before which the conversation ended; None where `at` counts."""
    at: str | None = None
    """The entry of the transcript that the conversation ended with; None for its beginning."""

    def to_data(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        return dataclasses.asdict(self)


def checkpoints_of(folder: Path) -> list[Checkpoint]:
    """The checkpoints of the run in a folder, the first at first.

    Raises:
        RunError: they cannot be read.
    """
    try:
        lines = (folder / FILE).read_text(encoding="utf-8").splitlines(keepends=True)
        # A line that a kill cut short is none.
        return [Checkpoint(**json.loads(line)) for line in lines if line.endswith("\n")]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        raise RunError(
            f"the checkpoints of run {folder.name} cannot be read", where=[f"{folder / FILE}: {error}"]
        ) from (error)


def next_number(known: Iterable[Checkpoint]) -> int:
    """The number of the next checkpoint."""
    return max((one.number for one in known), default=0) + 1


def add_checkpoint(folder: Path, one: Checkpoint) -> None:
    """Put a checkpoint on the list; only whoever holds the run's lock may."""
    with os.fdopen(os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
        whole = file.read().rpartition(b"\n")
        file.truncate(len(whole[0]) + len(whole[1]))  # without what a kill cut short
        file.seek(0, os.SEEK_END)
        file.write((json.dumps(one.to_data()) + "\n").encode())
