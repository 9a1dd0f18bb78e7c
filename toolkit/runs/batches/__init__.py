"""A set of tasks that is worked off once, whatever happens to whoever works on it: tasks, journal, working off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.batches.journal import Batch as Batch, find_batch as find_batch, list_batches as list_batches
    from toolkit.runs.batches.tasks import Task as Task, read_tasks as read_tasks
    from toolkit.runs.batches.working import work_off as work_off

_HOMES = {
    "toolkit.runs.batches.journal": "Batch find_batch list_batches",
    "toolkit.runs.batches.tasks": "Task read_tasks",
    "toolkit.runs.batches.working": "work_off",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
