"""Turn paths of a workspace into another version of them, through directory handles and no link.

What has to go is removed with all below it, what has to come is made from the top down;
a file is written beside its place and moved over. Folders the agent closed are
opened for us first.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence

from toolkit._base.files import write_new
from toolkit._base.handles import READ_DIR, READ_FILE, open_beneath, remove_tree
from toolkit._base.words import safe_name
from toolkit.errors import WorkspaceError
from toolkit_workspace.changes.scan import Pair
from toolkit_workspace.record.content import ContentGone, Node

_Act = Callable[[int, bytes], None]
"""Does something to a name in an open folder."""


def rewrite(root: int, pairs: Sequence[Pair]) -> None:
    """Turn the old version of every path into the new one.

    Raises:
        WorkspaceError: bytes that are needed are lost; nothing was touched.
    """
    refuse_lost(pairs)
    going = [pair for pair in pairs if pair.old and (pair.new is None or pair.new.kind != pair.old.kind)]
    coming = [pair for pair in pairs if pair.new is not None and pair.new.kind != "s"]
    gone: set[bytes] = set()
    for pair in sorted(going, key=_depth):
        if pair.path.rpartition(b"/")[0] not in gone:  # else it went with its folder
            _in_folder(root, pair.path, remove_tree)
        gone.add(pair.path)
    for pair in sorted(coming, key=_depth):
        _come(root, pair)
    for pair in sorted(coming, key=_depth, reverse=True):
        if pair.new is not None and pair.new.kind == "d":
            _set_mode(root, pair.path, pair.new.permissions)


def refuse_lost(pairs: Sequence[Pair]) -> None:
    """Refuse versions whose bytes are nowhere any more.

    Raises:
        WorkspaceError: there are such; nothing was touched.
    """
    lost = [pair.path for pair in pairs if _needs_bytes(pair) and not _has_bytes(pair.new)]
    if lost:
        raise WorkspaceError(
            f"cannot rewind: the bytes of {len(lost)} files are lost; the workspace was not touched",
            where=[safe_name(path) for path in lost[:10]],
            fix="The host changed these files since, and they were too large to be kept.",
        )


def _needs_bytes(pair: Pair) -> bool:
    return pair.new is not None and pair.new.kind == "f" and not pair.has_same_bytes


def _has_bytes(node: Node | None) -> bool:
    try:
        return node is not None and node.content is not None and len(node.content.head(1)) == min(1, node.size)
    except ContentGone:
        return False


def _depth(pair: Pair) -> int:
    return pair.path.count(b"/")


def _come(root: int, pair: Pair) -> None:
    new = pair.new
    assert new is not None
    if new.kind == "d":
        if pair.old is None or pair.old.kind != "d":
            _in_folder(root, pair.path, lambda folder, name: os.mkdir(name, 0o700, dir_fd=folder))
    elif new.kind == "l":
        _in_folder(root, pair.path, lambda folder, name: _put_link(folder, name, new.target or b""))
    elif new.kind == "f" and pair.has_same_bytes:
        _in_folder(root, pair.path, lambda folder, name: _chmod(folder, name, new.permissions))
    else:
        _in_folder(root, pair.path, lambda folder, name: _put_file(folder, name, new))


def _in_folder(root: int, path: bytes, act: _Act) -> None:
    parent, _, name = path.rpartition(b"/")
    folder = open_beneath(root, parent, READ_DIR)
    try:
        mode = os.fstat(folder).st_mode
        if mode & 0o700 != 0o700:
            os.fchmod(folder, mode & 0o7777 | 0o700)
        act(folder, name)
    finally:
        os.close(folder)


def _put_link(folder: int, name: bytes, target: bytes) -> None:
    temporary = _temporary()
    os.symlink(target, temporary, dir_fd=folder)
    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _put_file(folder: int, name: bytes, node: Node) -> None:
    assert node.content is not None
    temporary = _temporary()
    write_new(folder, temporary, node.content.chunks(), dress=lambda fd: os.fchmod(fd, node.permissions))
    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _chmod(folder: int, name: bytes, permissions: int) -> None:
    fd = os.open(name, READ_FILE, dir_fd=folder)
    try:
        os.fchmod(fd, permissions)
    finally:
        os.close(fd)


def _set_mode(root: int, path: bytes, permissions: int) -> None:
    fd = open_beneath(root, path, READ_DIR)
    try:
        os.fchmod(fd, permissions)
    finally:
        os.close(fd)


def _temporary() -> bytes:
    return f".toolkit-rewind-{secrets.token_hex(6)}".encode()
