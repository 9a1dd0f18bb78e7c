"""The names of batches in a store: each belongs to one batch, so that two callers on two machines do not share one.

names/NAME      the batch of that name, what holds for the whole of it, and where it was begun
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping
from typing import Any

from toolkit.errors import RunError
from toolkit.fleets.store import Store, read_said


def take_name(store: Store, name: str, uid: str, facts: Mapping[str, Any] | None = None) -> None:
    """Have a name for a batch, for good; `facts` are for whoever goes on with it elsewhere.

    Raises:
        RunError: another batch has it: somebody else began it, on this machine or another.
        StoreError: the store cannot be reached.
    """
    place = f"names/{name}"
    said = {"uid": uid, "machine": platform.node(), "began": time.time(), **(facts or {})}
    if store.create(place, json.dumps(said).encode()):
        return
    found = read_said(store, place) or {}
    if found.get("uid") != uid:
        raise RunError(
            f"the store has a batch '{name}' already, begun on {found.get('machine') or 'another machine'}",
            where=[place],
            fix="Go on with it: --resume, on a machine with no other batch of this name; or begin another: --name",
        )


def read_name(store: Store, name: str) -> dict[str, Any] | None:
    """What the store says of the batch of a name, which may be anything; None for none. Raises as `take_name`."""
    return read_said(store, f"names/{name}")
