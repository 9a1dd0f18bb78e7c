"""A set of tasks that is worked off once, whatever happens to whoever works on it: tasks, journal, working off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.batches.background import step_back as step_back
    from toolkit.runs.batches.journal import (
        Batch as Batch,
        find_batch as find_batch,
        list_batches as list_batches,
    )
    from toolkit.runs.batches.order import (
        Wish as Wish,
        in_order as in_order,
        priority_of as priority_of,
        read_wishes as read_wishes,
    )
    from toolkit.runs.batches.rate_log import keep_decision as keep_decision
    from toolkit.runs.batches.standing import (
        MOST_LOSSES as MOST_LOSSES,
        Standing as Standing,
        end_of as end_of,
        lost_end as lost_end,
    )
    from toolkit.runs.batches.tasks import (
        Task as Task,
        check_tasks as check_tasks,
        read_tasks as read_tasks,
        tasks_digest as tasks_digest,
    )
    from toolkit.runs.batches.working import (
        going_on as going_on,
        left_of as left_of,
        ungrouped as ungrouped,
        work_off as work_off,
    )
    from toolkit.runs.many.purse import Purse as Purse

_HOMES = {
    "toolkit.runs.batches.journal": "Batch find_batch list_batches",
    "toolkit.runs.batches.background": "step_back",
    "toolkit.runs.batches.order": "Wish in_order priority_of read_wishes",
    "toolkit.runs.batches.rate_log": "keep_decision",
    "toolkit.runs.batches.standing": "MOST_LOSSES Standing end_of lost_end",
    "toolkit.runs.batches.tasks": "Task check_tasks read_tasks tasks_digest",
    "toolkit.runs.batches.working": "going_on left_of ungrouped work_off",
    "toolkit.runs.many.purse": "Purse",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
