"""A first project file for the project at hand, made by looking at it: its language, tests, tools and secrets."""

from toolkit.runs.projects.suggesting.suggestion import Suggestion, suggest, write_suggestion

__all__ = ["Suggestion", "suggest", "write_suggestion"]
