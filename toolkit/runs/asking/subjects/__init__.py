"""What a decision is about that holds for more than one call."""

from toolkit.runs.asking.subjects.git_setup import git_setup
from toolkit.runs.asking.subjects.subject import speaks_of_git, subject_of, what_is_remembered

__all__ = ["git_setup", "speaks_of_git", "subject_of", "what_is_remembered"]
