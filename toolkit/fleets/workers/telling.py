"""What a machine knows of runs that were done on it: asked by whoever goes on with a batch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from toolkit.errors import ToolkitError
from toolkit.fleets.workers.books import UNHEARD, kept_account
from toolkit.fleets.workers.kept import is_cut_off
from toolkit.runs import StoredRun
from toolkit.runs.batches import end_of
from toolkit.runs.outcome import as_line
from toolkit.runs.storage import runs_home


@dataclass(frozen=True, slots=True)
class Told:
    """One run that is stored on a machine."""

    run: str
    state: str
    """`running`, `finished` or `crashed`; so is one that was cut off as its worker shut down."""
    end: dict[str, Any]
    """What the journal would keep of it: all that is known until now."""
    result: dict[str, Any]
    used: dict[str, Any] | None = None
    """Its account, as far as it was kept beside it."""


def tell_of(run: str) -> Told | None:
    """What this machine knows of a run; None where it has none of that id that began, or cannot read it."""
    stored = StoredRun(runs_home() / run)
    if not stored.folder.is_dir() or (stored.folder / UNHEARD).exists():
        return None
    try:
        state = stored.state
        result = stored.so_far() if state == "running" else stored.result()
        state = "crashed" if is_cut_off(result) else state
        return Told(run, state, end_of(result), json.loads(as_line(result.to_data())), kept_account(stored.folder))
    except ToolkitError:
        return None


def tell_all(runs: Sequence[str]) -> list[dict[str, Any]]:
    """What this machine knows of several runs, as plain values."""
    return [asdict(told) for run in runs if (told := tell_of(run)) is not None]
