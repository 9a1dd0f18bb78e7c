"""Compare the stamps of a mount with the record, a part of it in a second process where there are many.

A stat costs a system call and little else, so two processes take about half the time. The second one only saves time:
where it cannot be started, or ends in any other way than well, its part is done here.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from toolkit.errors import WorkspaceError
from toolkit_workspace.pristine import stamps as _stamps
from toolkit_workspace.pristine.stamps import Stamps, differing
from toolkit_workspace.record.record import FRESH_NS, Record, Rows
from toolkit_workspace.selecting import Source

ENOUGH_FILES = 10_000
"""Only with more files a second process is worth its start."""
_THEIR_PART = 0.4
"""Less than half: it has to start, and to read the stamps once more."""
_SECONDS = 600


class Comparer:
    """The stamps of one mount, and perhaps a second process that looks at the last of them; close it."""

    def __init__(self, file: Path, number: int, folders: list[Stamps], newest: int, top: int) -> None:
        self._folders, self._newest, self._top = folders, newest, top
        self._start = len(folders)
        self._process: subprocess.Popen[bytes] | None = None
        if sum(len(one[4]) for one in folders) // 8 >= ENOUGH_FILES and _can_start():
            start = round(len(folders) * (1 - _THEIR_PART))
            words = [_stamps.__file__, str(top), str(file), str(number), str(start)]
            with contextlib.suppress(OSError):
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[top],
                    process_group=0,
                )
                self._start = start

    def differing(self) -> list[bytes]:
        """The folders of the mount, relative to it, in which something may be different."""
        found = differing(self._top, self._folders[: self._start], self._newest)
        if self._process is not None:
            theirs = self._answer()
            if theirs is None:
                theirs = differing(self._top, self._folders[self._start :], self._newest)
            found += [self._start + position for position in theirs]
        return [self._folders[position][0] for position in found]

    def _answer(self) -> list[int] | None:
        """What the second process says; None where it does not say."""
        assert self._process is not None
        assert self._process.stdout is not None
        data = self._process.stdout.read()
        try:
            found = marshal.loads(data) if self._process.wait(_SECONDS) == 0 else None
        except (EOFError, ValueError, TypeError, subprocess.TimeoutExpired):
            return None
        return found if isinstance(found, list) else None

    def close(self) -> None:
        """End the second process, whatever it is doing."""
        if self._process is not None:
            assert self._process.stdout is not None
            self._process.kill()
            self._process.stdout.close()
            self._process.wait(_SECONDS)


def _can_start() -> bool:
    return len(os.sched_getaffinity(0)) > 1 and "python" in Path(sys.executable or "").name


def start_comparers(file: Path, sources: Sequence[Source]) -> list[Comparer]:
    """One for each mount of a kept copy.

    Raises:
        WorkspaceError: the stamps cannot be read.
    """
    try:
        newest, mounts = marshal.loads(file.read_bytes())
        pairs = list(enumerate(zip(mounts, sources, strict=True)))
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise WorkspaceError("the stamps of a kept copy cannot be read", where=[f"{file}: {error}"]) from error
    return [Comparer(file, number, folders, newest, source.handle) for number, (folders, source) in pairs]


def write_stamps(file: Path, record: Record) -> None:
    """Write down the stamps of all folders and what is in them, for `start_comparers`; one list a mount."""
    own = _own_stamps(record)
    mounts = [_stamps_below(record, mount.at, own) if mount.name is None else [] for mount in record.mounts]
    file.write_bytes(marshal.dumps((record.created_ns - FRESH_NS, mounts)))


def _stamps_below(record: Record, at: bytes, own: dict[bytes, tuple[int, int]]) -> list[Stamps]:
    below = at + b"/" if at else b""
    paths = [path for path in record.folders if path == at or path.startswith(below)]
    if at not in record.folders:
        paths.append(at)
    # A folder with nothing in it has no rows of its own, and still something may have come into it.
    known = {*paths}
    paths += [path for path in own if path.startswith(below) and path not in known]
    return [_stamps_of(path, at, record.folders.get(path, Rows()), own) for path in paths]


def _own_stamps(record: Record) -> dict[bytes, tuple[int, int]]:
    """The host's stamps of all folders that have a row."""
    own: dict[bytes, tuple[int, int]] = {}
    for path, rows in record.folders.items():
        if not rows.has_folders:
            continue
        listed = zip(rows.names, rows.kinds, rows.column("host_ctime_ns"), rows.column("host_inode"), strict=True)
        prefix = path + b"/" if path else b""
        own |= {prefix + os.fsencode(name): (ctime, inode) for name, kind, ctime, inode in listed if kind == "d"}
    return own


def _stamps_of(path: bytes, at: bytes, rows: Rows, own: dict[bytes, tuple[int, int]]) -> Stamps:
    host_path = path[len(at) :].lstrip(b"/")
    ctime_ns, inode = own.get(path, (0, 0))
    return (
        host_path,
        ctime_ns,
        inode,
        rows.names_bytes,
        rows.column_bytes("host_ctime_ns"),
        rows.column_bytes("host_inode"),
    )
