"""What was touched in a workspace since it was recorded."""

from toolkit_workspace.looking.above import touched_above
from toolkit_workspace.looking.copied import touched_in
from toolkit_workspace.looking.touched import Touched

__all__ = ["Touched", "touched_above", "touched_in"]
