"""What can be done with a prepared workspace: see what changed, take it back, remember it, follow it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.errors import WorkspaceError
from toolkit_workspace.mount import HostMount, without_places
from toolkit_workspace.record.trouble import in_words
from toolkit_workspace.selecting import fingerprint_of
from toolkit_workspace.workspace import Workspace

if TYPE_CHECKING:  # each is loaded by who asks for it: a run that starts needs none of them
    from toolkit_workspace.applying import Applied
    from toolkit_workspace.changes import Changes
    from toolkit_workspace.moments import Snapshot
    from toolkit_workspace.moments.snapshot import Snapshots
    from toolkit_workspace.watching import Direction, WatchEvent, Watching, Work


class Reviewed(ABC):
    """The methods of a section that need it to be prepared."""

    mounts: tuple[HostMount, ...]
    allowed_host_roots: tuple[Path, ...]
    _snapshots: Snapshots | None = None
    _over: Mapping[str, Path]
    """What belongs to no mount and is shown over places of the workspace."""

    @abstractmethod
    def _prepared(self) -> Workspace:
        """The workspace, once there is one."""

    @abstractmethod
    def make_whole(self) -> bool:
        """Turn an overlay into a plain copy."""

    @property
    def _copied_mounts(self) -> tuple[HostMount, ...]:
        """The mounts, without what something else is shown over."""
        return tuple(without_places(mount, self._over) for mount in self.mounts)

    def ignored(self, paths: Iterable[str]) -> set[str]:
        """Those of these new folders of the workspace that the host's own ignore rules name.

        Raises:
            WorkspaceError: the rules cannot be read.
        """
        from toolkit_workspace.changes import ignored_folders

        with in_words("the ignore rules cannot be read"):
            return ignored_folders(self._prepared(), paths)

    def update_from_host(self, *, besides: Iterable[Path] = ()) -> tuple[WatchEvent, ...]:
        """Bring in once what changed on the host since: `copied`, `removed`, and `merged` or `conflict` for both.

        A conflict stays as the agent has it, and so do the git folders and what is lent. Folders of the host in
        `besides` are not brought in unless they were copied before.

        Raises:
            WorkspaceSecurityError: a mount lies in no allowed root any more, or a link leads out of it.
            WorkspaceError: a mount is gone, or something cannot be read or written.
        """
        from toolkit_workspace.watching import bring_in

        self.make_whole()
        with in_words("the host's changes cannot be brought in", at=self._prepared().folder):
            return bring_in(self._copied_mounts, self.allowed_host_roots, self._with_bases(), besides=besides)

    def fingerprint(self) -> str:
        """A hash of all names, contents, links and executable bits that are in the workspace now."""
        with in_words("the workspace cannot be read"), self._prepared().whole() as root:
            return fingerprint_of(root)

    def changes(self) -> Changes:
        """What differs from what was prepared, or from what was applied last; nothing is run to find out.

        Raises:
            WorkspaceError: the workspace or its record cannot be read.
        """
        from toolkit_workspace.changes import changes_of

        return changes_of(self._prepared())

    def apply(
        self,
        *,
        paths: Iterable[str | os.PathLike[str]] | None = None,
        mounts: Iterable[str] | None = None,
        dry_run: bool = False,
        conflict_markers: bool = False,
    ) -> Applied:
        """Take the changes back to the host: all that are chosen, or none.

        `paths` are files or folders in the workspace, or the same on the host or relative to their mount;
        `mounts` are the mounts' places in it. What lies in a `.git` folder comes along only when a path says
        so. With `conflict_markers`, texts that do not merge are written with both versions in them.
        `dry_run` decides everything and writes nothing.

        Raises:
            WorkspaceConflictError: the host changed in a way that does not merge; nothing was touched.
            WorkspaceSecurityError: a link leads out, or a mount's folder is no longer the same.
            WorkspaceError: an earlier apply or a rewind was interrupted, or a path or mount matches nothing.
        """
        from toolkit_workspace.applying.apply import apply_changes

        self._refuse_half_rewound()
        chosen = None if paths is None else [os.fspath(path) for path in paths]
        with in_words("the changes cannot be applied", at=self._prepared().state_dir):
            return apply_changes(
                self._with_bases(), paths=chosen, mounts=mounts, dry_run=dry_run, conflict_markers=conflict_markers
            )

    def resume_apply(self) -> bool:
        """Apply all that an interrupted apply, or an interrupted undo, left out; False when there is none."""
        from toolkit_workspace.applying.apply import resume

        with in_words("the apply cannot be finished", at=self._prepared().state_dir):
            return resume(self._with_bases())

    def undo_apply(self) -> bool:
        """Take back an interrupted apply, or else the last finished one; False when there is none.

        Raises:
            WorkspaceConflictError: a file was changed on the host since; nothing was taken back.
        """
        from toolkit_workspace.applying.apply import undo

        with in_words("the apply cannot be taken back", at=self._prepared().state_dir):
            return undo(self._with_bases())

    def snapshot(self, label: str, *, most_bytes: int | None = None) -> Snapshot:
        """Remember how the workspace looks now; only what changed is stored.

        Raises:
            WorkspaceError: something cannot be read or stored, or what changed is more than `most_bytes`.
        """
        with in_words("no snapshot can be taken", at=self._with_bases().state_dir):
            return self._moments().take(label, most_bytes=most_bytes)

    def rewind(
        self,
        snapshot: Snapshot | str,
        *,
        until_now: Snapshot | None = None,
        and_then: Callable[[], None] = lambda: None,
    ) -> Snapshot:
        """Make the workspace look as in a snapshot (or the latest of that label).

        What it looked like until now is the returned snapshot, so that a rewind can be rewound; `until_now` is that
        one where it was just taken. The rewind is finished once `and_then` has returned: one that is interrupted
        before is `unfinished_rewind`, and is finished by doing it again. What came from the host since is taken out
        as it came in, and comes in again with the next update.
        """
        self.make_whole()
        with in_words("the workspace cannot be rewound", at=self._with_bases().state_dir):
            return self._moments().rewind(snapshot, until_now=until_now, and_then=and_then)

    def numbered_snapshot(self, number: int) -> Snapshot:
        """The snapshot of this number.

        Raises:
            WorkspaceError: there is none, or it cannot be read.
        """
        return self._moments().numbered(number)

    @property
    def unfinished_rewind(self) -> Snapshot | None:
        """Where a rewind was to go that was interrupted; None where there is no such rewind."""
        with in_words("nobody can say whether a rewind was interrupted", at=self._prepared().state_dir):
            return self._moments().unfinished

    def diff(self, a: Snapshot | str | None = None, b: Snapshot | str | None = None) -> Changes:
        """What changed from `a` (what was prepared if not given) to `b` (now if not given)."""
        with in_words("the workspace cannot be read"):
            return self._moments().diff(a, b)

    def _refuse_half_rewound(self) -> None:
        goal = self.unfinished_rewind
        if goal is not None:
            raise WorkspaceError(
                "a rewind of the workspace was interrupted: its files are neither here nor there",
                where=[str(self._prepared().folder)],
                fix=f"Do it again: rewind({goal.label!r}), or 'toolkit runs rewind RUN --to NUMBER'",
            )

    def _with_bases(self) -> Workspace:
        """The workspace once all base bytes are kept."""
        workspace = self._prepared()
        workspace.finish_keeping_bases()
        return workspace

    def _moments(self) -> Snapshots:
        from toolkit_workspace.moments.snapshot import Snapshots

        workspace = self._prepared()
        if self._snapshots is None or not workspace.is_held:
            self._snapshots = Snapshots(workspace)
        return self._snapshots

    def watch(self, direction: Direction = "host→workspace", *, rescan_seconds: float = 10.0) -> Watching:
        """Keep the workspace in step with the host, or report what the agent does, until the context ends.

        `async with section.watch() as watching: async for event in watching: …`. A file the agent has
        changed is never overwritten: that is a conflict event. `rescan_seconds` is how often everything is
        looked at, besides what the system reports. What links out of a mount were followed to is not watched.

        Raises:
            WorkspaceError: the workspace is not prepared, or there is no such direction.
        """
        from toolkit_workspace.watching import HostToWorkspace, Watching, WorkspaceToEvents

        self.make_whole()
        workspace = self._prepared()
        arrow = direction.replace("->", "→")
        if arrow == "host→workspace":
            workspace.finish_keeping_bases()
            make: Callable[[], Work] = partial(HostToWorkspace, self._copied_mounts, self.allowed_host_roots, workspace)
        elif arrow == "workspace→events":
            make = partial(WorkspaceToEvents, workspace)
        else:
            raise WorkspaceError(
                f"there is no direction {direction!r}", fix="Write 'host→workspace' or 'workspace→events'."
            )
        return Watching(make, rescan_seconds=rescan_seconds)
