"""Moments of a run at which files and conversation are known together, and the way back to one."""

from toolkit.runs.checkpoints.checkpoint import Checkpoint, checkpoints_of
from toolkit.runs.checkpoints.rewinding import Rewound, rewind_run

__all__ = ["Checkpoint", "Rewound", "checkpoints_of", "rewind_run"]
