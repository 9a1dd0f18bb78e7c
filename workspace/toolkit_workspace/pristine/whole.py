"""Turn a workspace that lies over a kept copy into a plain copy of its own, for what needs all files in its folder.

Everything is made beside it first, and then put in its place in one step; what is left to do after a kill is done by
whoever opens the workspace next.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path

from toolkit._base.files import exchange, is_there
from toolkit._base.handles import READ_DIR, open_beneath, remove_folder
from toolkit_workspace.looking import touched_above
from toolkit_workspace.overlay import copy_whole
from toolkit_workspace.record import Record, Stamp
from toolkit_workspace.record.content import ContentGone, Hosts
from toolkit_workspace.record.trouble import is_gone, leads_away
from toolkit_workspace.workspace import Workspace

_WHOLE, _RECORD = "whole", "record.whole"


def make_whole(workspace: Workspace) -> bool:
    """Give a workspace all its files; False where it has them. Nobody may work in it.

    Raises:
        OSError: something cannot be read or written, and the workspace is as it was.
    """
    finish_whole(workspace)
    if workspace.below is None:
        return False
    whole = workspace.state_dir / _WHOLE
    if is_there(whole):
        remove_folder(whole)
    whole.mkdir(mode=0o700)
    try:
        record = _record_of(workspace, whole)
        record.save(workspace.state_dir / _RECORD, durable=True)
    except BaseException:
        with contextlib.suppress(OSError):
            if not is_there(workspace.state_dir / _RECORD):  # else it is complete, and the next one finishes it
                remove_folder(whole)
        raise
    finish_whole(workspace)
    workspace.start_keeping_bases()
    return True


def _record_of(workspace: Workspace, whole: Path) -> Record:
    """Copy all files, and record the copies of what nobody touched."""
    with workspace.opened() as root:
        touched = touched_above(workspace.record, root, workspace.lower[0])
    copy_whole(workspace.lower[0], workspace.folder, whole)
    record = Record.load(workspace.record_file)
    record.above = None
    top = os.open(whole, READ_DIR)
    try:
        for path in list(record.folders):
            try:
                _restamp(workspace, record, path, top, touched)
            except OSError as error:
                if not is_gone(error) and not leads_away(error):  # removed, or a file or a link now
                    raise
        record.seal(top)
    finally:
        os.close(top)
    return record


def _restamp(workspace: Workspace, record: Record, path: bytes, top: int, touched: Collection[bytes]) -> None:
    rows = record.folders[path]
    folder = open_beneath(top, path or b".", READ_DIR)
    try:
        for position, name in enumerate(rows.names):
            whole = path + b"/" + os.fsencode(name) if path else os.fsencode(name)
            if whole not in touched:
                rows.change(position, copy=Stamp.of(os.stat(name, dir_fd=folder, follow_symlinks=False)))
                continue
            row = record.row(whole, rows, position)
            if row.kind == "f" and row.base < 0:
                _keep(workspace, record, whole, position)
    finally:
        os.close(folder)


def _keep(workspace: Workspace, record: Record, path: bytes, position: int) -> None:
    """Keep what a file was that somebody has changed since: the copy that has it is let go of."""
    row = workspace.record.get(path)
    if row is None:
        return
    with Hosts(workspace.record, workspace.store) as hosts, contextlib.suppress(ContentGone):
        base = hosts.base(row)
        if base is not None:
            rows = record.folders[path.rpartition(b"/")[0]]
            rows.change(position, base=workspace.store.append(base.chunks()))


def finish_whole(workspace: Workspace) -> None:
    """Put what is complete into its place; nothing where nothing is.

    Raises:
        OSError: that cannot be done.
    """
    whole, new = workspace.state_dir / _WHOLE, workspace.state_dir / _RECORD
    if not is_there(new):
        return
    stamp = Record.load(new).root_stamp
    if workspace.folder.stat().st_ino != stamp[1]:
        _exchange(workspace.folder, whole)
    # The kept copy stays in use: it has the bytes of what snapshots and journals speak of.
    workspace.lay_over(None)
    for earlier in workspace.state_dir.glob("appl*/record"):
        record = Record.load(earlier)
        record.root_stamp, record.above = stamp, None
        record.save(earlier, durable=True)
    new.rename(workspace.record_file)
    workspace.forget_record()
    for rest in (whole, workspace.work):
        if is_there(rest):
            remove_folder(rest)


def _exchange(one: Path, other: Path) -> None:
    folders = [os.open(path.parent, READ_DIR) for path in (one, other)]
    try:
        exchange(folders[0], one.name, folders[1], other.name)
    finally:
        for folder in folders:
            os.close(folder)
