"""Tell what an agent added, changed and removed in its workspace, by looking again at folders."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from toolkit._base.handles import READ_DIR, open_beneath
from toolkit_workspace.record import join
from toolkit_workspace.record.trouble import is_gone, leads_away
from toolkit_workspace.watching.watch import Affected, WatchEvent
from toolkit_workspace.workspace import Workspace

_Seen = tuple[int, int, bool]
"""ctime, inode, and whether it is a folder."""


class WorkspaceToEvents:
    """Reports what the agent does in the workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._top = workspace.folder
        self._root = workspace.open()
        self._looks = _Looks(self._root)

    def tops(self) -> list[tuple[Path, bool]]:
        return [(self._top, True)]

    def run(self, affected: dict[int, Affected]) -> list[WatchEvent]:
        return [event for one in affected.values() for event in self._looks.differences(one)]

    def close(self) -> None:
        os.close(self._root)


class _Looks:
    """Remembers how the folders of a workspace looked, and what is different the next time."""

    def __init__(self, workspace: int) -> None:
        self._workspace = workspace
        self._known: dict[bytes, dict[str, _Seen]] = {}
        for _ in self._folders([b""], deep=True):
            pass

    def differences(self, affected: Affected) -> Iterator[WatchEvent]:
        """The differences in the affected folders since they were last looked at."""
        yield from self._folders(sorted(affected.trees), deep=True)
        yield from self._folders(sorted(affected.folders - affected.trees), deep=False)

    def _folders(self, folders: list[bytes], *, deep: bool) -> Iterator[WatchEvent]:
        todo = [(folder, deep) for folder in reversed(folders)]
        while todo:
            folder, all_below = todo.pop()
            try:
                handle = open_beneath(self._workspace, folder or b".", READ_DIR)
            except OSError as error:
                if not (is_gone(error) or leads_away(error) or error.errno == errno.EACCES):
                    raise
                continue  # gone: the folder above it tells; or closed by the agent
            try:
                now = _listed(handle)
            finally:
                os.close(handle)
            before = self._known.get(folder, {})
            self._known[folder] = now
            for name in sorted({*before, *now}):
                path = join(folder, os.fsencode(name))
                yield from self._compared(path, before.get(name), now.get(name))
                seen, was = now.get(name), before.get(name)
                if seen is not None and seen[2] and (all_below or was is None or was[1:] != seen[1:]):
                    todo.append((path, True))

    def _compared(self, path: bytes, before: _Seen | None, now: _Seen | None) -> Iterator[WatchEvent]:
        if before is not None and (now is None or before[2] != now[2]):
            yield from self._gone(path, before)
            before = None
        if now is not None and before is None:
            yield WatchEvent("added", os.fsdecode(path))
        elif now is not None and before is not None and not now[2] and now != before:
            yield WatchEvent("modified", os.fsdecode(path))

    def _gone(self, path: bytes, before: _Seen) -> Iterator[WatchEvent]:
        todo = [(path, before)]
        while todo:
            path, seen = todo.pop()
            inner = self._known.pop(path, {}) if seen[2] else {}
            todo.extend((join(path, os.fsencode(name)), below) for name, below in sorted(inner.items()))
            yield WatchEvent("deleted", os.fsdecode(path))


def _listed(folder: int) -> dict[str, _Seen]:
    found = {}
    for name in os.listdir(folder):
        try:
            st = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        found[name] = (st.st_ctime_ns, st.st_ino, stat.S_ISDIR(st.st_mode))
    return found
