"""A git folder of its own for the copy of a repository, over the host's objects."""

from toolkit_workspace.git.make import GitInside, by_itself, make_git, mark_absent, plan_git, point_inside, write_refs
from toolkit_workspace.git.origin import Origin, origin_of
from toolkit_workspace.git.repository import Repository, find_around, find_repository

__all__ = [
    "GitInside",
    "Origin",
    "Repository",
    "by_itself",
    "find_around",
    "find_repository",
    "make_git",
    "mark_absent",
    "origin_of",
    "plan_git",
    "point_inside",
    "write_refs",
]
