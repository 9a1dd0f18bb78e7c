"""What is wrong with a project file: which file, which line, which key, and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolkit.errors import RunError


class ProjectFileError(RunError):
    """A project file that cannot be obeyed; nothing was started."""

    exit_code = 2

    def __init__(
        self,
        what: str,
        *,
        file: Path,
        line: int | None = None,
        key: str | None = None,
        where: Sequence[str] = (),
        fix: str = "",
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.file = file
        self.line = line
        self.key = key
        """The key in question, with dots between its parts."""


class NotAcceptedError(ProjectFileError):
    """A project file that its user has not accepted as it is now."""
