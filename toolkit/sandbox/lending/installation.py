"""One installation on the host that may be lent: recognised by what is in it, never by its name alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Lent:
    """A host folder that is shown read-only instead of being copied."""

    host: Path
    """The folder itself, links resolved."""
    inside: str
    """Where it appears; its own path on the host, as it is written there."""
    what: str
    """What it is, in a few words."""


def lend(folder: Path, what: str) -> list[Lent]:
    """Show a folder at the path it is known by; where that leads through a link, at its real path as well."""
    real = folder.resolve()
    if is_shown_anyway(real) or is_too_much(real):
        return []
    shown = [Lent(real, str(real), what)]
    if str(folder) != str(real) and not is_shown_anyway(folder):
        shown.append(Lent(real, str(folder), what))
    return shown


def is_shown_anyway(path: Path) -> bool:
    """Whether every jail has it: the system's own programs."""
    return path.is_relative_to("/usr")


def is_too_much(path: Path) -> bool:
    """Whether showing it would show a home, or most of the machine."""
    if len(path.parts) < 3 and path != Path("/opt"):
        return True
    try:
        home = Path.home().resolve()
    except RuntimeError:
        return False
    return path == home or path in home.parents


def python_prefix(prefix: Path) -> bool:
    """Whether this is a Python: its program, and its standard library beside it."""
    if not any((prefix / "bin").glob("python3*")):
        return False
    return any((library / "os.py").is_file() for library in (prefix / "lib").glob("python3.*"))


def node_prefix(prefix: Path) -> bool:
    """Whether this is a node: its program, and npm or its headers beside it."""
    has_program = os.access(prefix / "bin" / "node", os.X_OK)
    return has_program and ((prefix / "lib/node_modules/npm").is_dir() or (prefix / "include/node").is_dir())
