"""What setups made, kept by what it depends on and shown read-only to later runs.

The names below are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.layers.harvest import (
        MOST_PLACES as MOST_PLACES,
        gather as gather,
        listed as listed,
        look as look,
        open_to_readers as open_to_readers,
    )
    from toolkit.runs.layers.inputs import digest_beneath as digest_beneath
    from toolkit.runs.layers.key import LayerKey as LayerKey, key_of as key_of
    from toolkit.runs.layers.layer import OUTPUT as OUTPUT, Layer as Layer
    from toolkit.runs.layers.store import LIMIT as LIMIT, Layers as Layers, most_bytes as most_bytes
    from toolkit.runs.layers.wanted import SetupPlan as SetupPlan, plan_setup as plan_setup

_HOMES = {
    "toolkit.runs.layers.harvest": "MOST_PLACES gather listed look open_to_readers",
    "toolkit.runs.layers.inputs": "digest_beneath",
    "toolkit.runs.layers.key": "LayerKey key_of",
    "toolkit.runs.layers.layer": "OUTPUT Layer",
    "toolkit.runs.layers.store": "LIMIT Layers most_bytes",
    "toolkit.runs.layers.wanted": "SetupPlan plan_setup",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
