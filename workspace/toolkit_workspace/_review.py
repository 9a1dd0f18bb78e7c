"""What a section can do with its workspace once it is prepared: tell, take back, remember, rewind.

While the agent starts to work, a thread keeps the bytes of small files beside the
workspace, for the day the host changes; whatever needs them waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from toolkit.errors import WorkspaceError
from toolkit_workspace.applying.apply import Applied, apply_changes, resume, undo
from toolkit_workspace.changes.changes import Changes, changes_of
from toolkit_workspace.moments.snapshot import Snapshot, Snapshots
from toolkit_workspace.record.keeping import keep_bases
from toolkit_workspace.record.prepared import Prepared


class Review:
    """The way back from one prepared workspace."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        self._snapshots = Snapshots(prepared)
        self._stop = threading.Event()
        self._keeper: threading.Thread | None = None

    def start_keeping(self) -> None:
        """Keep base bytes in the background from now on."""
        keeper = threading.Thread(target=self._keep, name="toolkit-workspace-bases", daemon=True)
        try:
            keeper.start()
        except RuntimeError:  # there may be no thread to be had
            self._keep()
        else:
            self._keeper = keeper

    def _keep(self) -> None:
        # A workspace that is removed meanwhile, or a full disk: what was not kept is a conflict later, no more.
        with suppress(OSError, WorkspaceError), self.prepared.opened() as root:
            keep_bases(self.prepared.manifest, self.prepared.store, root, stop=self._stop.is_set)
            if not self._stop.is_set():
                self.prepared.save()

    def finish_keeping(self) -> None:
        """Wait until all bytes are kept."""
        if self._keeper is not None:
            self._keeper.join()
            self._keeper = None

    def stop_keeping(self) -> None:
        """Keep no more; at most the file at hand is finished."""
        self._stop.set()
        self.finish_keeping()

    def changes(self) -> Changes:
        return changes_of(self.prepared)

    def apply(
        self,
        *,
        paths: Iterable[str | Path] | None,
        mounts: Iterable[str] | None,
        dry_run: bool,
        conflict_markers: bool,
    ) -> Applied:
        self.finish_keeping()
        return apply_changes(
            self.prepared, paths=paths, mounts=mounts, dry_run=dry_run, conflict_markers=conflict_markers
        )

    def resume(self) -> bool:
        self.finish_keeping()
        return resume(self.prepared)

    def undo(self) -> bool:
        self.finish_keeping()
        return undo(self.prepared)

    def snapshot(self, label: str) -> Snapshot:
        self.finish_keeping()
        return self._snapshots.take(label)

    def rewind(self, snapshot: Snapshot | str) -> Snapshot:
        self.finish_keeping()
        return self._snapshots.rewind(snapshot)

    def diff(self, a: Snapshot | str | None, b: Snapshot | str | None) -> Changes:
        return self._snapshots.diff(a, b)
