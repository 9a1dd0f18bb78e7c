"""Bring in once what changed on the host, for a workspace that somebody goes on with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from toolkit._base.handles import READ_FILE, open_beneath
from toolkit_workspace.changes import settle
from toolkit_workspace.mount import HostMount
from toolkit_workspace.watching.from_host import HostToWorkspace
from toolkit_workspace.watching.merging import same_bytes
from toolkit_workspace.watching.watch import Affected, WatchEvent
from toolkit_workspace.workspace import Workspace


class _AllButGit(Affected):
    """Everything but what lies in git folders: half of the host's and half of the agent's would be no repository."""

    def covers(self, path: bytes) -> bool:
        return b".git" not in path.split(b"/")

    def leads_to(self, path: bytes) -> bool:
        return self.covers(path)


def bring_in(
    mounts: Sequence[HostMount], roots: Sequence[Path], workspace: Workspace, *, besides: Iterable[Path] = ()
) -> tuple[WatchEvent, ...]:
    """Look at everything on the host and bring in what changed; texts that both changed are merged, or a conflict.

    Folders of the host in `besides` stay where they are, unless they were copied before. A file that is the same
    on both sides by now is no conflict.
    """
    settle(workspace)
    folders = list(besides)
    watched = [replace(one, lend=(*one.lend, *_new_in(one, folders, workspace))) for one in mounts]
    work = HostToWorkspace(watched, roots, workspace, merges=True)
    try:
        events = work.run(dict.fromkeys(range(len(work.tops())), _AllButGit()))
    finally:
        work.close()
    return tuple(one for one in events if one.kind != "conflict" or not _is_settled(one.path, mounts, workspace))


def _new_in(mount: HostMount, folders: Iterable[Path], workspace: Workspace) -> list[str]:
    """Those of the folders that lie in a mount and were neither copied nor lent, relative to it."""
    top = Path(mount.host_path).resolve()
    inside = [str(folder.relative_to(top)) for folder in folders if top in folder.parents]
    before = "" if mount.landing == "." else f"{mount.landing}/"
    return [
        name for name in inside if name not in mount.lend and workspace.record.get(os.fsencode(before + name)) is None
    ]


def _is_settled(path: str, mounts: Sequence[HostMount], workspace: Workspace) -> bool:
    """Whether host and workspace hold the same bytes at a path."""
    for mount in mounts:
        if mount.landing == "." or Path(path).is_relative_to(mount.landing):
            host = Path(mount.host_path).resolve() / Path(path).relative_to(mount.landing)
            try:
                with workspace.opened() as root:
                    copy = open_beneath(root, os.fsencode(path), READ_FILE)
                    with os.fdopen(copy, "rb") as ours, os.fdopen(os.open(host, READ_FILE), "rb") as theirs:
                        return same_bytes(ours, theirs)
            except OSError:
                return False
    return False
