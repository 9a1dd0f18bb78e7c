"""New files that Python imports instead of a module of its standard library."""

from __future__ import annotations

import sys
from collections.abc import Collection

# Nothing imports these two by accident, and many projects have a test.py.
_NAMES = frozenset(sys.stdlib_module_names) - {"test", "this"}


def shadowed_module(path: str, names_beside: Collection[str]) -> str | None:
    """The module of the standard library that a new file stands before; None if it stands before none.

    `names_beside` are the names in its folder: a file in a package is a part of that package.
    """
    parts = path.split("/")
    name = parts[-1]
    if name == "__init__.py":
        return parts[-2] if len(parts) > 1 and parts[-2] in _NAMES else None
    stem, dot, suffix = name.partition(".")
    if not dot or stem not in _NAMES or not (suffix in ("py", "pyc") or suffix.endswith("so")):
        return None
    return None if "__init__.py" in names_beside else stem
