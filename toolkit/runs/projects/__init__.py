"""What a team writes down once for its runs: found, read, checked, accepted, and put together with what is given."""

from toolkit.runs.projects.errors import NotAcceptedError, ProjectFileError
from toolkit.runs.projects.places import lend_to, with_wishes
from toolkit.runs.projects.project_file import ProjectFile

__all__ = ["NotAcceptedError", "ProjectFile", "ProjectFileError", "lend_to", "with_wishes"]
