"""Take changes back to the host, all that are chosen or none; every apply can be finished or undone after a kill."""

from toolkit_workspace.applying.apply import Applied
from toolkit_workspace.applying.decide import AppliedChange

__all__ = ["Applied", "AppliedChange"]
