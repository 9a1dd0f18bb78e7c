"""What came into a workspace from the host after it was prepared, so that a rewind takes that out as it came.

A file that the host changed meanwhile is in the workspace and in the record. A rewind to before
that sets both back: with the file alone set back, its old version would pass for a change of the
agent, and applying it would undo what was done on the host. Set back together, the host's version
comes in again with the next update.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from toolkit._base.handles import READ_DIR, open_beneath
from toolkit_workspace.record.record import Record, Stamp
from toolkit_workspace.workspace import Workspace

_FILE = "from-host"
"""A line of JSON for each update that brought something in: its paths."""


def note_from_host(workspace: Workspace, paths: Iterable[bytes]) -> None:
    """Remember what an update brought in or took away, where there is a snapshot to go back to."""
    names, folder = [os.fsdecode(path) for path in paths], workspace.state_dir / "snapshots"
    if names and folder.is_dir():
        line = json.dumps(names) + "\n"
        handle = os.open(folder / _FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)


def came_from_host(folder: Path) -> set[bytes]:
    """Every path that was ever brought in or taken away."""
    try:
        lines = (folder / _FILE).read_text(encoding="utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        return set()
    whole = [line for line in lines if line.endswith("\n")]  # a kill may have cut the last one short
    return {os.fsencode(name) for line in whole for name in json.loads(line)}


def set_rows_back(workspace: Workspace, root: int, then: Record, paths: Iterable[bytes], changed: set[bytes]) -> None:
    """Make the rows of these paths what they were in an earlier record, once the files are.

    Paths in `changed` differed from their rows then already, and still do.
    """
    record = workspace.record
    known = sorted(paths)
    for path in known:
        was = then.get(path)
        with record.lock:
            if was is None:
                record.discard(path)
                _discard_folders(record, then, path)
                continue
            stamp = None if was.kind == "d" or path in changed else _stamp_of(root, path)
            # A folder keeps its old stamp, which no longer fits, so that it is listed when somebody looks.
            record.put(was if stamp is None else was._replace(copy=stamp))
    if known:
        workspace.save()


def _discard_folders(record: Record, then: Record, path: bytes) -> None:
    """Discard the folders above that came with a path."""
    above = path.rpartition(b"/")[0]
    while above and then.get(above) is None and record.get(above) is not None:
        record.discard(above)
        above = above.rpartition(b"/")[0]


def _stamp_of(root: int, path: bytes) -> Stamp | None:
    above, _, name = path.rpartition(b"/")
    try:
        folder = open_beneath(root, above or b".", READ_DIR)
    except FileNotFoundError:
        return None
    try:
        return Stamp.of(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return None
    finally:
        os.close(folder)
