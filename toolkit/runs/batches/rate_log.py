"""What was decided about the rate of a batch, kept beside its journal: `rate.jsonl`, one decision a line.

It is for people who look at the batch. Nothing depends on it, so it is not synced, and half a line is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FILE = "rate.jsonl"
_MOST_BYTES = 8 * 1024 * 1024


def keep_decision(folder: Path, decision: Mapping[str, Any]) -> None:
    """Add a decision, as long as there is room; a full disk does not stop the batch."""
    file = folder / _FILE
    try:
        with file.open("ab") as out:
            if out.tell() < _MOST_BYTES:
                out.write(json.dumps(dict(decision), ensure_ascii=True).encode() + b"\n")
    except OSError:
        return


def kept_decisions(folder: Path) -> list[dict[str, Any]]:
    """The decisions, oldest first."""
    try:
        text = (folder / _FILE).read_bytes()
    except OSError:
        return []
    found = []
    for line in text.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict):
            found.append(said)
    return found
