"""A batch works in the background: whoever works on the same machine goes first."""

from __future__ import annotations

import contextlib
import os

NICENESS = 10


def step_back() -> None:
    """Lower the priority of this process for the processor and the disk, and of all that it starts from now on.

    The kernel derives the priority for the disk from it. A process that has stepped back further stays there.
    """
    with contextlib.suppress(OSError):
        if os.getpriority(os.PRIO_PROCESS, 0) < NICENESS:
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
