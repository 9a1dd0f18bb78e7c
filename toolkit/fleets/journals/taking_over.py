"""A batch of this machine, made from what a store knows of one that was begun elsewhere."""

from __future__ import annotations

import re

from toolkit.errors import RunError
from toolkit.fleets.claims import read_name
from toolkit.fleets.store import open_shared
from toolkit.runs.batches import Batch, Task, tasks_digest

_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}-[0-9a-f]{8}")
_MOST_LOSSES = 1000


def take_over(address: str, name: str, tasks: list[Task]) -> Batch | None:
    """The batch of a name in a store, as one of this machine, with nothing in its journal yet: `attend` fills it.

    None where the store has none. Whether its caller still lives is looked at later.

    Raises:
        RunError: it has other tasks, or was begun by a version that left nothing to go on from.
        StoreError: the store cannot be read.
    """
    said = read_name(open_shared(address), name)
    if said is None:
        return None
    uid, losses = said.get("uid"), said.get("most_losses")
    if not isinstance(uid, str) or not _UID.fullmatch(uid) or not isinstance(losses, int) or "tasks" not in said:
        raise RunError(
            f"the batch '{name}' cannot be gone on with from the store", where=[address], fix="Go on where it was begun"
        )
    if said["tasks"] != tasks_digest(tasks):
        raise RunError(
            f"the tasks are not those of the batch '{name}' in the store",
            where=[address],
            fix="Give the same file, or begin another batch with --name",
        )
    return Batch.begin(name, tasks, most_losses=min(max(1, losses), _MOST_LOSSES), uid=uid)
