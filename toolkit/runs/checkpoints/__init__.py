"""Moments of a run at which files and conversation are known together, and the way back to one.

The names below are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.checkpoints.checkpoint import Checkpoint as Checkpoint, checkpoints_of as checkpoints_of
    from toolkit.runs.checkpoints.rewinding import Rewound as Rewound, rewind_run as rewind_run

_HOMES = {
    "toolkit.runs.checkpoints.checkpoint": "Checkpoint checkpoints_of",
    "toolkit.runs.checkpoints.rewinding": "Rewound rewind_run",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
