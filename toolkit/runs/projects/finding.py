"""Which project file belongs to a folder: the nearest one, from there up to the top of its repository."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from toolkit._base.files import is_there
from toolkit._base.handles import READ_FILE
from toolkit._base.words import safe_line, safe_name
from toolkit.runs.projects.errors import ProjectFileError

OWN = "toolkit.toml"
PYPROJECT = "pyproject.toml"
TABLE = ("tool", "toolkit")
"""Where the keys are in a pyproject.toml."""
_MOST_READ = 4 * 1024 * 1024


def find_file(folder: Path | str = ".") -> Path | None:
    """The project file that holds for a folder; None if there is none.

    Raises:
        ProjectFileError: a folder has two, or whether it has one cannot be told.
    """
    try:
        return next((file for above in _folders(Path(folder).resolve()) if (file := _file_of(above))), None)
    except OSError as error:
        raise ProjectFileError(
            f"whether there is a project file cannot be told: {error.strerror}",
            file=Path(folder, OWN),
            where=[safe_name(str(error.filename or folder))],
            fix="To do without one: --no-config",
        ) from None


def _file_of(folder: Path) -> Path | None:
    own, shared = folder / OWN, folder / PYPROJECT
    found = [file for file, is_one in ((own, is_there(own)), (shared, _has_table(shared))) if is_one]
    if len(found) > 1:
        raise ProjectFileError(
            f"there are two project files: {OWN}, and [tool.toolkit] in {PYPROJECT}",
            file=own,
            where=[safe_name(str(folder))],
            fix=f"Keep one of them, or choose: --config {OWN}",
        )
    return found[0] if found else None


def _folders(folder: Path) -> Iterator[Path]:
    """The folder and those above it up to the top of its repository; alone where it is in none."""
    above = [folder, *folder.parents]
    top = next((number for number, one in enumerate(above) if is_there(one / ".git")), 0)
    yield from above[: top + 1]


def _has_table(file: Path) -> bool:
    """Whether a pyproject.toml has a table for us."""
    data = _bytes(file)
    if b"toolkit" not in data:
        return False
    import tomllib

    try:
        said = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ProjectFileError(
            f"whether {PYPROJECT} has a table [tool.toolkit] cannot be told: {safe_line(str(error), 100)}",
            file=file,
            where=[safe_name(str(file))],
            fix="Correct it, or do without a project file: --no-config",
        ) from None
    tool = said.get(TABLE[0])
    return isinstance(tool, dict) and TABLE[1] in tool


def _bytes(file: Path) -> bytes:
    """The bytes of a file, also behind a link: whether it may be obeyed is judged when it is read."""
    try:
        handle = os.open(file, READ_FILE & ~os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    with os.fdopen(handle, "rb") as opened:
        return opened.read(_MOST_READ) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
