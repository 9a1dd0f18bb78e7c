"""Give what an agent changed to whoever packs it for the way back: changed files whole, and what is gone by its name.

The git folders that the copy got come along as they are, for the agent's commits. Nothing special is given: no FIFO,
socket or device, and no setuid, setgid or sticky bit.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from toolkit_workspace.changes.changes import without_aside
from toolkit_workspace.changes.scan import Pair, scan
from toolkit_workspace.record.content import Hosts
from toolkit_workspace.travelling.history import give_tree
from toolkit_workspace.travelling.selected import Sink
from toolkit_workspace.workspace import Workspace

TREE = b"tree"
"""Where the changed files are in what is given."""
AS_GIVEN = -1
"""The mode of what has the one that it came with."""
_LARGE = 1 << 20


@dataclass(frozen=True)
class GivenBack:
    """What was given beside files."""

    gone: tuple[bytes, ...]
    """Paths of the workspace that are no longer there."""
    left: tuple[tuple[bytes, str], ...]
    """Paths that are not as the agent left them, each with the reason."""


def give_back(sink: Sink, workspace: Workspace, gits: Sequence[str]) -> GivenBack:
    """Give what differs from what was prepared.

    Raises:
        WorkspaceError: something cannot be read.
        OSError: the sink cannot take it.
    """
    giving = _Giving(sink)
    with Hosts(workspace.record, workspace.store) as hosts, workspace.opened() as root:
        for pair in without_aside(scan(workspace, root, hosts), workspace.aside):
            giving.pair(pair)
    for git in map(os.fsencode, gits):
        folder = workspace.folder / os.fsdecode(git)
        if folder.is_dir() and folder.resolve() == folder:
            giving.parents(git)
            odd = give_tree(sink, folder, TREE + b"/" + git, set())
            giving.left += [(path.removeprefix(TREE + b"/"), "no plain file in a git folder") for path in odd]
    return GivenBack(tuple(giving.gone), tuple(giving.left))


class _Giving:
    """The differences, path by path."""

    def __init__(self, sink: Sink) -> None:
        self.gone: list[bytes] = []
        self.left: list[tuple[bytes, str]] = []
        self._sink = sink
        self._folders: set[bytes] = set()
        sink.folder_entry(TREE, 0o700)

    def parents(self, path: bytes) -> None:
        """The folders that a path lies in, as far as they were not given."""
        parts = path.split(b"/")[:-1]
        for depth in range(1, len(parts) + 1):
            folder = b"/".join(parts[:depth])
            if folder not in self._folders:
                self._folders.add(folder)
                self._sink.folder_entry(TREE + b"/" + folder, AS_GIVEN)

    def pair(self, pair: Pair) -> None:
        """Give one path that differs."""
        old, new, path = pair.old, pair.new, pair.path
        if new is None:
            self.gone.append(path)
            return
        self.parents(path)
        at = TREE + b"/" + path
        is_as_given = old is not None and old.kind == new.kind and old.permissions == new.permissions
        mode = AS_GIVEN if is_as_given else new.mode & 0o777
        mtime_ns = 0 if new.st is None else new.st.st_mtime_ns
        if new.mode & 0o7000 and new.kind in ("f", "d"):
            self.left.append((path, "setuid, setgid and sticky bits do not come along"))
        if new.kind == "d":
            self._folders.add(path)
            self._sink.folder_entry(at, mode, mtime_ns)
        elif new.kind == "l":
            self._sink.link(at, new.target or b"?", mtime_ns)
        elif new.kind == "s" or new.content is None:
            self.left.append((path, "a special file does not come along"))
        elif new.size > _LARGE:
            self._sink.stream(at, new.content.chunks(), mode, mtime_ns)
        else:
            self._sink.file(at, new.content.read(), mode, mtime_ns)
