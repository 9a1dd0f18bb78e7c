"""Bring together what the host and the agent did to one file, where nobody works in the workspace now.

Both versions are merged over the bytes that were recorded. Where that leaves no conflict, the
merged text takes the place of the agent's file, and the host's version is what it is compared with
from then on: what is left of the agent's work is a change like any other. Else nothing is touched.
"""

from __future__ import annotations

import os
import secrets
import stat
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

from toolkit._base.files import exchange, write_new
from toolkit._base.handles import READ_FILE
from toolkit_workspace.applying.merge import Conflict, merged_bytes
from toolkit_workspace.record import ByteStore, Row, Stamp
from toolkit_workspace.record.content import Content, ContentGone

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class MergedIn:
    """A file that was merged."""

    row: Row
    """What it is compared with from now on: the host's version."""
    is_news: bool
    """Whether the agent's file is another one now."""


def merge_into_place(
    into: int, name: str, shelf: int, shelved: str, host: os.stat_result, row: Row, store: ByteStore
) -> MergedIn | None:
    """Merge the host's version, which is on the shelf, into the agent's file; None where that cannot be.

    `host` is the stat of the host's file, `row` what both came from.
    """
    now = os.stat(name, dir_fd=into, follow_symlinks=False)
    if row.kind != "f" or row.base < 0 or not stat.S_ISREG(now.st_mode):
        return None
    base = store.content(row.base, row.copy.size)
    theirs = Content(partial(os.open, shelved, READ_FILE, dir_fd=shelf), host.st_size)
    ours = Content(partial(os.open, name, READ_FILE, dir_fd=into), now.st_size, stamp=Stamp.of(now))
    try:
        data, conflicts = merged_bytes(base, theirs, ours)
        was, brought = ours.read(), theirs.read()
    except (Conflict, ContentGone, OSError):
        return None
    copied = (host.st_mode & 0o777) | 0o600
    has_own_mode = bool((now.st_mode ^ row.mode) & 0o777)
    mode = now.st_mode & 0o777 if has_own_mode else copied
    if conflicts:
        return None
    is_news = data != was or mode != now.st_mode & 0o777
    if is_news and not _replaced(into, name, shelf, data, mode, now):
        return None
    # A stamp that no file has: what is there is looked at, and compared with the host's bytes.
    stamp = Stamp(len(brought), 0, 0, 0)
    start = store.append([brought])
    mode = stat.S_IFMT(row.mode) | copied
    return MergedIn(row._replace(mode=mode, copy=stamp, host=Stamp.of(host), base=start, host_is_base=True), is_news)


def _replaced(into: int, name: str, shelf: int, data: bytes, mode: int, now: os.stat_result) -> bool:
    """Whether these bytes stand in the place of a file that was looked at; what somebody else put there stays."""
    fresh = secrets.token_hex(8)
    write_new(shelf, fresh.encode(), [data], dress=lambda fd: os.fchmod(fd, mode))
    try:
        exchange(shelf, fresh, into, name)
        out = os.stat(fresh, dir_fd=shelf, follow_symlinks=False)
        same = ("st_ino", "st_size", "st_mtime_ns", "st_mode")
        if [getattr(out, field) for field in same] != [getattr(now, field) for field in same]:
            exchange(shelf, fresh, into, name)
            return False
        return True
    finally:
        os.unlink(fresh, dir_fd=shelf)


def same_bytes(one: BinaryIO, other: BinaryIO) -> bool:
    """Whether two files hold the same from here on."""
    while (part := one.read(_CHUNK)) == other.read(_CHUNK):
        if not part:
            return True
    return False
