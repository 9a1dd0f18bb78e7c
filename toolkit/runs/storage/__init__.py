"""A run's folder: written while the run lives, read by any process afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.storage.event_log import (
        EventFile as EventFile,
        EventLog as EventLog,
        last_turn_has_finished as last_turn_has_finished,
    )
    from toolkit.runs.storage.run_folder import (
        FORMAT as FORMAT,
        cannot_store as cannot_store,
        runs_home as runs_home,
    )
    from toolkit.runs.storage.stored_runs import find_run as find_run, latest_first as latest_first
    from toolkit.runs.storage.tidying import (
        KEPT_BYTES as KEPT_BYTES,
        KEPT_SECONDS as KEPT_SECONDS,
        is_half_applied as is_half_applied,
        size_of as size_of,
        tidy_copies as tidy_copies,
    )

_HOMES = {
    "toolkit.runs.storage.event_log": "EventFile EventLog last_turn_has_finished",
    "toolkit.runs.storage.run_folder": "FORMAT cannot_store runs_home",
    "toolkit.runs.storage.stored_runs": "find_run latest_first",
    "toolkit.runs.storage.tidying": "KEPT_BYTES KEPT_SECONDS is_half_applied size_of tidy_copies",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
