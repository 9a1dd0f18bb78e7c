"""A workspace that holds only what was written, over a copy that is kept for all of its kind."""

from toolkit_workspace.overlay.moved import moved_from
from toolkit_workspace.overlay.union import is_in, links_in_both
from toolkit_workspace.overlay.whole import copy_tree, copy_whole

__all__ = ["copy_tree", "copy_whole", "is_in", "links_in_both", "moved_from"]
