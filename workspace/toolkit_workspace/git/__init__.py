"""A git folder of its own for the copy of a repository, over the host's objects."""

from toolkit_workspace.git.make import GitInside, make_git, plan_git, point_inside
from toolkit_workspace.git.repository import Repository, find_repository

__all__ = ["GitInside", "Repository", "find_repository", "make_git", "plan_git", "point_inside"]
