"""Which project file belongs to a folder: the nearest one, from there up to the top of its repository."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from toolkit._base.files import is_there
from toolkit._base.words import safe_name
from toolkit.runs.projects.errors import ProjectFileError

OWN = "toolkit.toml"
PYPROJECT = "pyproject.toml"
TABLE = ("tool", "toolkit")
"""Where the keys are in a pyproject.toml."""
_MOST_READ = 4 * 1024 * 1024


def find_file(folder: Path | str = ".") -> Path | None:
    """The project file that holds for a folder; None if there is none.

    Raises:
        ProjectFileError: a folder has two, or a pyproject.toml that may have the table is no TOML.
    """
    for above in _folders(Path(folder).resolve()):
        own, shared = above / OWN, above / PYPROJECT
        found = [file for file, is_one in ((own, is_there(own)), (shared, _has_table(shared))) if is_one]
        if len(found) > 1:
            raise ProjectFileError(
                f"there are two project files: {OWN}, and [tool.toolkit] in {PYPROJECT}",
                file=own,
                where=[safe_name(str(above))],
                fix=f"Keep one of them, or choose: --config {OWN}",
            )
        if found:
            return found[0]
    return None


def _folders(folder: Path) -> Iterator[Path]:
    """The folder and those above it up to the top of its repository; alone where it is in none."""
    above = [folder, *folder.parents]
    top = next((number for number, one in enumerate(above) if is_there(one / ".git")), 0)
    yield from above[: top + 1]


def _has_table(file: Path) -> bool:
    """Whether a pyproject.toml has a table for us."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_READ).decode("utf-8")
        if "toolkit" not in text:
            return False
        data = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ProjectFileError(
            f"whether {PYPROJECT} has a table [tool.toolkit] cannot be told: {safe_name(str(why))}",
            file=file,
            where=[safe_name(str(file))],
            fix="Correct it, or do without a project file: --no-config",
        ) from None
    tool = data.get(TABLE[0])
    return isinstance(tool, dict) and TABLE[1] in tool
