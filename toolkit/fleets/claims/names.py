"""The names of batches in a store: each belongs to one batch, so that two callers on two machines do not share one.

names/NAME      the batch of that name, and where its journal is
"""

from __future__ import annotations

import json
import platform
import time

from toolkit.errors import RunError
from toolkit.fleets.store import Store, read_said


def take_name(store: Store, name: str, uid: str) -> None:
    """Have a name for a batch, for good.

    Raises:
        RunError: another batch has it: somebody else began it, on this machine or another.
        StoreError: the store cannot be reached.
    """
    place = f"names/{name}"
    said = {"uid": uid, "machine": platform.node(), "began": time.time()}
    if store.create(place, json.dumps(said).encode()):
        return
    found = read_said(store, place) or {}
    if found.get("uid") != uid:
        raise RunError(
            f"the store has a batch '{name}' already, begun on {found.get('machine') or 'another machine'}",
            where=[place],
            fix="Go on with it there: --resume; or begin another, with --name",
        )
