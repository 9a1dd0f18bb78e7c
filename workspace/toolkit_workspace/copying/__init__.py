"""Copy what was selected into the workspace."""

from toolkit_workspace.copying.copy import Progress, fill
from toolkit_workspace.copying.transfer import Mover, TooLarge

__all__ = ["Mover", "Progress", "TooLarge", "fill"]
