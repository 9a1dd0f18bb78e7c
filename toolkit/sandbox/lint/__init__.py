"""What is wrong with a settings file, and what would happen because of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.sandbox.lint.explain import Problem as Problem
    from toolkit.sandbox.lint.explain import explain_file as explain_file
    from toolkit.sandbox.lint.explain import explain_text as explain_text

_HOMES = {
    "toolkit.sandbox.lint.explain": ("Problem", "explain_file", "explain_text"),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
