"""Walk the folders of a workspace with few handles: what is too deep for them is reached from the top again."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field

from toolkit._base.handles import READ_DIR, open_beneath
from toolkit_workspace.looking.touched import GONE, Touched, open_readable
from toolkit_workspace.record.record import Record
from toolkit_workspace.record.trouble import unreadable

_MOST_LEVELS = 12  # folders held open at once


@dataclass(slots=True)
class Looking(ABC):
    """One look at a workspace. Its kinds differ in what they look at in a folder, and what they know of it before."""

    record: Record
    touched: dict[bytes, Touched] = field(default_factory=dict)
    _later: deque[tuple[bytes, bool]] = field(default_factory=deque)
    """Folders still to look at, from the top."""

    @abstractmethod
    def entries(self, fd: int, path: bytes, prefix: bytes, known: bool) -> list[tuple[str, bool]]:
        """Look at what is directly in a folder; the folders below to look at, and what is `known` of each."""

    def all_below(self, root: int, known: bool) -> dict[bytes, Touched]:
        """Everything that is new, gone or touched, by path."""
        self._later.append((b"", known))
        while self._later:
            path, known = self._later.popleft()
            try:
                fd = open_beneath(root, path, READ_DIR)
            except OSError as error:
                if error.errno in GONE:
                    continue
                raise
            self._folder(fd, path, known, 0)
        return self.touched

    def gone(self, path: bytes) -> None:
        """Note a path, and what was recorded below it, as no longer there."""
        todo = [path]
        while todo:
            here = todo.pop()
            self.touched[here] = Touched(True, None)
            if here in self.record.folders:
                todo += [here + b"/" + os.fsencode(name) for name in self.record.folders[here].names]

    def _folder(self, fd: int, path: bytes, known: bool, level: int) -> None:
        """Look at one open folder and all below it; closes it."""
        prefix = path + b"/" if path else b""
        try:
            try:
                inner = self.entries(fd, path, prefix, known)
            except PermissionError:  # readable but not searchable
                os.fchmod(fd, 0o700)
                inner = self.entries(fd, path, prefix, known)
            for name, inner_known in inner:
                self._descend(fd, prefix + os.fsencode(name), name, inner_known, level)
        except OSError as error:  # what could not be looked at is not unchanged
            below = os.fsencode(error.filename) if isinstance(error.filename, str) else b""
            raise unreadable(prefix + below or b".", error) from error
        finally:
            os.close(fd)

    def _descend(self, fd: int, path: bytes, name: str, known: bool, level: int) -> None:
        if level >= _MOST_LEVELS:
            self._later.append((path, known))
            return
        try:
            inner = open_readable(fd, name)
        except OSError as error:
            if error.errno == errno.EMFILE and level:
                self._later.append((path, known))
            elif error.errno not in GONE:
                raise
            return
        self._folder(inner, path, known, level + 1)
