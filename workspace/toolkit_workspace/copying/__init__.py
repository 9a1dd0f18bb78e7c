"""Copy what was selected into the workspace."""

from toolkit_workspace.copying.copy import Names, Progress, fill, note_other_names
from toolkit_workspace.copying.transfer import Mover, TooLarge

__all__ = ["Mover", "Names", "Progress", "TooLarge", "fill", "note_other_names"]
