"""A workspace that was copied to another place, with all that is kept about it: to another disk, or another machine.

None of its files is the one that was recorded, so what was touched is decided anew, by contents: those that are as
they were get the stamps they have here. Files whose bytes were not kept, large ones, count as they did when the
workspace was let go, as long as size and time are those of then. The mounts are what lies at their paths here; what
was there is known by kept bytes only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolkit._base.handles import READ_DIR, open_beneath
from toolkit.errors import WorkspaceError
from toolkit_workspace.changes.scan import settle
from toolkit_workspace.record import MountRecord, Record, Row, Stamp, join
from toolkit_workspace.shown import NOTHING
from toolkit_workspace.workspace import Workspace


def is_copied(workspace: Workspace) -> bool:
    """Whether what is kept about a workspace lies in another folder than it was made in.

    Where only the workspace's own folder is another one, it was replaced, and that is not settled.
    """
    made = workspace.read_facts().get("made")
    return made is not None and made != identity_of(workspace.state_dir)


def identity_of(folder: Path) -> list[int]:
    """What tells a folder from its copies."""
    st = folder.lstat()
    return [st.st_dev, st.st_ino]


def settle_here(workspace: Workspace) -> None:
    """Let a workspace that was copied be at home where it is; only its owner may.

    Raises:
        WorkspaceError: it, or its record, cannot be read.
    """
    below = workspace.below
    if below is not None and not below.is_dir():
        raise WorkspaceError(
            "the workspace lies over a copy of its mounts that is not here",
            where=[f"{workspace.folder} lies over {below}"],
            fix="Copy that as well, or make it whole where it was: WorkspaceSection.open(…).make_whole()",
        )
    record, facts = workspace.record, workspace.read_facts()
    st = workspace.folder.stat()
    record.root_stamp = (0, st.st_ino)
    record.mounts = tuple(_at_home(mount) for mount in record.mounts)
    _forget_hosts(record)
    settle(workspace)
    with workspace.opened() as root:
        for row, now in _unkept(record, root, set(facts["touched"])) if facts.get("touched") is not None else ():
            record.put(row._replace(copy=Stamp.of(now)))
    workspace.save(durable=True)
    workspace.write_facts(shown=_shown(facts.get("shown", {}), workspace), made=identity_of(workspace.state_dir))


def touched_unkept(workspace: Workspace) -> list[str]:
    """The files that were touched, of those whose bytes are not kept: a copy of the workspace could not tell."""
    record, found = workspace.record, []
    with workspace.opened() as root, record.lock:
        for folder, rows in record.folders.items():
            files = rows.files_without_base()
            handle = _opened(root, folder) if files else None
            for _, name, _, identity in files:
                st = None if handle is None else _stat(name, handle)
                if st is None or (st.st_ctime_ns, st.st_ino) != identity:
                    found.append(os.fsdecode(join(folder, os.fsencode(name))))
            if handle is not None:
                os.close(handle)
    return found


def _at_home(mount: MountRecord) -> MountRecord:
    try:
        dev, inode = identity_of(Path(os.fsdecode(mount.host)))
    except OSError:
        return mount
    return replace(mount, dev=dev, inode=inode)


def _forget_hosts(record: Record) -> None:
    """No file of a host is known any more: its bytes decide."""
    for rows in record.folders.values():
        for position, kind in enumerate(rows.kinds):
            if kind == "f":
                rows.change(position, host_is_base=False, host=Stamp(rows.row(position).host.size, 0, 0, 0))


def _unkept(record: Record, root: int, touched: set[str]) -> Iterator[tuple[Row, os.stat_result]]:
    """The files that are as they were, as far as can be told of those whose bytes are not kept."""
    for folder in list(record.folders):
        files = record.folders[folder].files_without_base()
        handle = _opened(root, folder) if files else None
        if handle is None:
            continue
        for _, name, _, _ in files:
            path = join(folder, os.fsencode(name))
            row, st = record.get(path), _stat(name, handle)
            if row is None or st is None or os.fsdecode(path) in touched:
                continue
            if (st.st_size, st.st_mtime_ns, st.st_mode) == (row.copy.size, row.copy.mtime_ns, row.mode):
                yield row, st
        os.close(handle)


def _opened(root: int, folder: bytes) -> int | None:
    try:
        return open_beneath(root, folder, READ_DIR)
    except OSError:
        return None


def _stat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


def _shown(shown: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
    """What is shown for git, with the empty file that lies here."""
    nothing = str(workspace.state_dir / NOTHING)
    git = [
        {**one, "lent": [[nothing if Path(host).name == NOTHING else host, inside] for host, inside in one["lent"]]}
        for one in shown.get("git", ())
    ]
    return {**shown, "git": git}
