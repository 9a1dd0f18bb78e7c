"""Reasons to look twice at a change, one file for each kind: who obeys it, what it hides, what it stands for."""

from toolkit_workspace.marking.names import marks_for_spelling
from toolkit_workspace.marking.obeyed import OBEYED, Obeyed, marks_for_use
from toolkit_workspace.marking.planted import IN_A_REPOSITORY, Entries, PlantedRepositories
from toolkit_workspace.marking.scripts import marks_for_scripts
from toolkit_workspace.marking.shadows import shadowed_module
from toolkit_workspace.marking.texts import marks_for_text

__all__ = [
    "IN_A_REPOSITORY",
    "OBEYED",
    "Entries",
    "Obeyed",
    "PlantedRepositories",
    "marks_for_scripts",
    "marks_for_spelling",
    "marks_for_text",
    "marks_for_use",
    "shadowed_module",
]
