"""The two things a watch can do with what it sees: bring the host's changes in, or report the agent's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from toolkit._base.handles import READ_DIR
from toolkit_workspace.mount import HostMount
from toolkit_workspace.record import keep_base
from toolkit_workspace.selecting.roots import AllowedRoots
from toolkit_workspace.selecting.sources import Source, close_sources, open_sources
from toolkit_workspace.watching.look import Look
from toolkit_workspace.watching.sync import Affected, Sync, WatchEvent
from toolkit_workspace.workspace import Workspace


class HostToWorkspace:
    """Brings what changes on the host into the workspace."""

    def __init__(self, mounts: Sequence[HostMount], roots: Sequence[Path], workspace: Workspace) -> None:
        self._workspace = workspace
        self._roots = AllowedRoots(roots)
        self._sources: list[Source] = []
        self._root = self._shelf = -1
        try:
            self._sources = open_sources(mounts, self._roots)
            self._root = workspace.open()
            shelf = workspace.state_dir / "shelf"
            shelf.mkdir(mode=0o700, exist_ok=True)
            self._shelf = os.open(shelf, READ_DIR)
            for left in shelf.iterdir():  # by a watch that was killed
                left.unlink()
            self._syncs = [
                Sync(index, source, self._roots, workspace.record, self._shelf)
                for index, source in enumerate(self._sources)
            ]
        except BaseException:
            self._close()
            raise

    def tops(self) -> list[tuple[Path, bool]]:
        return [(Path(os.fsdecode(source.record.host)), source.record.name is None) for source in self._sources]

    def run(self, affected: dict[int, Affected]) -> list[WatchEvent]:
        events = []
        for number, one in affected.items():
            events += list(self._syncs[number].run(self._root, one, self._workspace.identities))
        for event in events:
            if event.kind == "copied":  # else its base would be lost once either side changes
                keep_base(self._workspace.record, self._workspace.store, self._root, os.fsencode(event.path))
        return events

    def close(self) -> None:
        self._close()
        self._workspace.save()

    def _close(self) -> None:
        close_sources(self._sources)
        self._roots.close()
        for handle in (self._root, self._shelf):
            if handle >= 0:
                os.close(handle)
        self._root = self._shelf = -1


class WorkspaceToEvents:
    """Reports what the agent does in the workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._top = workspace.folder
        self._root = workspace.open()
        self._look = Look(self._root)

    def tops(self) -> list[tuple[Path, bool]]:
        return [(self._top, True)]

    def run(self, affected: dict[int, Affected]) -> list[WatchEvent]:
        return [event for one in affected.values() for event in self._look.run(one)]

    def close(self) -> None:
        os.close(self._root)
