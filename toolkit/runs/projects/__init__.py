"""What a team writes down once for its runs: found, read, checked, accepted, and put together with what is given.

The names below are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.projects.errors import NotAcceptedError as NotAcceptedError, ProjectFileError as ProjectFileError
    from toolkit.runs.projects.finding import find_file as find_file
    from toolkit.runs.projects.places import lend_to as lend_to, with_wishes as with_wishes
    from toolkit.runs.projects.project_file import ProjectFile as ProjectFile

_HOMES = {
    "toolkit.runs.projects.errors": "NotAcceptedError ProjectFileError",
    "toolkit.runs.projects.finding": "find_file",
    "toolkit.runs.projects.places": "lend_to with_wishes",
    "toolkit.runs.projects.project_file": "ProjectFile",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
