"""A copy of a mount set that is kept untouched, brought up to date by what changed, and laid below workspaces."""

from toolkit_workspace.pristine.filling import Filled, Wish, filled, planned
from toolkit_workspace.pristine.kept_copy import KeptCopy
from toolkit_workspace.pristine.store import MOST_BYTES, MOST_SECONDS, KeptCopies, TidiedCopy, copies_home
from toolkit_workspace.pristine.whole import finish_whole, make_whole

__all__ = [
    "MOST_BYTES",
    "MOST_SECONDS",
    "Filled",
    "KeptCopies",
    "KeptCopy",
    "TidiedCopy",
    "Wish",
    "copies_home",
    "filled",
    "finish_whole",
    "make_whole",
    "planned",
]
