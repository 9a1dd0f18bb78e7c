"""What is wrong with a settings file, and what would happen because of it."""

from toolkit.sandbox.lint.explain import Problem, explain_file, explain_text

__all__ = ["Problem", "explain_file", "explain_text"]
