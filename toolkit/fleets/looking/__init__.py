"""A batch to look at: a row for each task as it stands now, the sums, and why tasks failed. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.fleets.looking.causes import FailureGroup as FailureGroup, failures_of as failures_of
    from toolkit.fleets.looking.rows import BatchView as BatchView, TaskRow as TaskRow
    from toolkit.fleets.looking.table import BatchTable as BatchTable

_HOMES = {
    "toolkit.fleets.looking.causes": "FailureGroup failures_of",
    "toolkit.fleets.looking.rows": "BatchView TaskRow",
    "toolkit.fleets.looking.table": "BatchTable",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
