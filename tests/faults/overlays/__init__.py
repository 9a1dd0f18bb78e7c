"""What is done to a workspace over a kept copy, and what has to be true afterwards.

operations.py   the operations: what plain copies have, and what only overlays have
judges.py       what has to be true afterwards, of the kept copy as well
"""

from tests.faults.overlays.judges import JUDGES
from tests.faults.overlays.operations import OPERATIONS

__all__ = ["JUDGES", "OPERATIONS"]
