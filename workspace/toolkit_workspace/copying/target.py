"""The workspace side of a walk: folders are made when something comes into them, and finished when nothing more does.

A folder's mtime can be set, and its entry recorded, only after the last file has come into it. A second
process may still be busy with some when the walk has gone on: then the folder is finished by whoever hears
of the last one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from toolkit._base.handles import DirStack, make_folders, open_folder
from toolkit_workspace.record import Record, Row, Stamp, join
from toolkit_workspace.selecting.walk import Folder


@dataclass(slots=True, eq=False)
class Place:
    """One folder on the way from the mount down to where the walk stands."""

    host_path: bytes
    stat: os.stat_result
    source: int = -1
    """The host folder, while files are still to come from it."""
    into: int = -1
    """The workspace folder, while files are still to come into it."""
    awaited: int = 0
    """How many requests for files in it are unanswered."""

    def expect(self, source: int, into: int) -> tuple[int, int]:
        """Stay open for one more answer; the handles that are good until then.

        Raises:
            OSError: there are no handles left.
        """
        if self.into < 0:
            self.source = os.dup(source)
            try:
                self.into = os.dup(into)
            except OSError:
                os.close(self.source)
                self.source = -1
                raise
        self.awaited += 1
        return self.source, self.into

    def unexpect(self) -> None:
        """The answer will not come after all."""
        self.awaited -= 1
        if not self.awaited:
            self.close()

    def close(self) -> None:
        """Nothing more is awaited."""
        if self.into >= 0:
            os.close(self.source)
            os.close(self.into)
            self.source = self.into = -1


class Target:
    """The open workspace folders that belong to one mount's walk."""

    def __init__(self, workspace: int, mount: int, at: bytes, record: Record) -> None:
        self._mount, self._at = mount, at
        self._record = record
        self._stack = DirStack(make_folders(workspace, at))
        self._places: list[Place] = []
        self._left: set[Place] = set()
        self._made = 1  # the mount itself
        self.made_folders = 0
        """How many folders were made, the mount itself not counted."""

    @property
    def handle(self) -> int:
        return self._stack.top

    @property
    def place(self) -> Place:
        """Where the walk stands."""
        return self._places[-1]

    def path(self, place: Place) -> bytes:
        """A place relative to the workspace."""
        return join(self._at, place.host_path) if self._at and place.host_path else self._at or place.host_path

    def enter(self, folder: Folder) -> None:
        """Stand where the walk stands; nothing is made yet."""
        while len(self._places) > folder.depth:
            self._leave()
        self._places.append(Place(folder.path, folder.stat))

    def make(self) -> None:
        """Make the folders from the mount down to here, as far as they are missing."""
        while self._made < len(self._places):
            place = self._places[self._made]
            name = place.host_path.rpartition(b"/")[2]
            os.mkdir(name, (place.stat.st_mode & 0o777) | 0o700, dir_fd=self._stack.top)
            handle = open_folder(self._stack.top, name)
            made = os.fstat(handle)
            self._stack.push(handle, (made.st_dev, made.st_ino))
            self._made += 1
            self.made_folders += 1

    def answered(self, place: Place) -> None:
        """One request for files in `place` has been answered, and they are recorded."""
        place.awaited -= 1
        if not place.awaited:
            if place in self._left:
                self._finish(place, place.into)
                self._left.discard(place)
            place.close()

    def leave_all(self) -> None:
        while self._places:
            self._leave()

    def close(self) -> None:
        self._stack.close()
        for place in (*self._places, *self._left):
            place.close()

    def _leave(self) -> None:
        place = self._places.pop()
        if self._made <= len(self._places):
            return
        if place.awaited:
            self._left.add(place)
        else:
            self._finish(place, self._stack.top)
        if self._places:
            self._stack.pop()
            self._made -= 1

    def _finish(self, place: Place, handle: int) -> None:
        """Nothing more comes into this folder: its mtime can be set and its entry recorded."""
        path = self.path(place)
        if not path:
            return  # the workspace folder itself has no entry
        os.utime(handle, ns=(place.stat.st_atime_ns, place.stat.st_mtime_ns))
        made = os.fstat(handle)
        stamps = Stamp.of(made), Stamp.of(place.stat)
        self._record.add(Row(path, place.host_path, None, "d", self._mount, made.st_mode, *stamps))
