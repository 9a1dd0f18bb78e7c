"""A repository's history as files: a git folder that is whole by itself, made from what is read of the host's.

Settings are cleaned as for any copy, and tracked files that were left out are marked, so that nobody takes them for
deleted. The object stores it has and borrows from become one.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from toolkit._base.handles import READ_DIR, READ_FILE, walk_folders
from toolkit_workspace.git import Repository, make_git, mark_absent
from toolkit_workspace.record import join
from toolkit_workspace.selecting import Source, Tally
from toolkit_workspace.shown import repositories_of
from toolkit_workspace.travelling.selected import Selected, Sink, mount_name

_PIECE = 1 << 20
_SMALL = 1 << 20
_NOT_SENT = (b"alternates", b"http-alternates")
_UNFINISHED = (b"tmp_", b"incoming", b".tmp-")


def give_histories(sink: Sink, sources: list[Source], selected: Selected) -> None:
    """Give a git folder for each repository of the mounts whose git is lent.

    Raises:
        WorkspaceError: a repository cannot be read.
        OSError: the sink cannot take it.
    """
    for number, (source, tally) in enumerate(zip(sources, selected.tallies, strict=True)):
        if source.mount.git != "lend":
            continue
        for below, repository in repositories_of(source, tally.repositories).items():
            top = join(mount_name(number), os.fsencode(below)) if below else mount_name(number)
            _give(sink, source, tally, repository, top, below, selected)


def _give(
    sink: Sink, source: Source, tally: Tally, repository: Repository, top: bytes, below: str, selected: Selected
) -> None:
    at = source.record.at
    with tempfile.TemporaryDirectory(prefix="toolkit-git-") as scratch:
        copy = Path(scratch, "copy")
        copy.mkdir()
        make_git(repository, copy, ".git", first_store=0, nothing=Path(scratch, "nothing"), hidden=None)
        if tally.left.counts:
            prefix = f"{below}/" if below else ""
            lent = [name.removeprefix(prefix) for name in source.mount.lend if name.startswith(prefix)]
            place = join(at, os.fsencode(below)) if below else at
            mark_absent(
                repository,
                copy / ".git",
                lent,
                lambda name: selected.record.get(join(place, os.fsencode(name))) is not None,
            )
        given: set[bytes] = set()
        give_tree(sink, copy / ".git", join(top, b".git"), given)
        for store in repository.objects:
            give_tree(sink, store.resolve(), join(top, b".git/objects"), given)


def give_tree(sink: Sink, folder: Path, at: bytes, given: set[bytes]) -> list[bytes]:
    """Give what lies in a folder, a real path, but for what was given before; the paths of what is no plain file."""
    top = os.open(folder, READ_DIR)
    odd: list[bytes] = []
    try:
        for handle, _, others in walk_folders(top):
            below = os.fsencode(os.path.relpath(Path(f"/proc/self/fd/{handle}").readlink(), folder))
            path = at if below == b"." else join(at, below)
            if any(part.startswith(_UNFINISHED) for part in below.split(b"/")):
                continue
            if path not in given:
                given.add(path)
                sink.folder_entry(path, 0o755)
            for name in map(os.fsencode, sorted(others)):
                file = join(path, name)
                if name in _NOT_SENT or name.startswith(_UNFINISHED) or name.endswith(b".lock") or file in given:
                    continue
                given.add(file)
                if not _give_file(sink, handle, name, file):
                    odd.append(file)
    finally:
        os.close(top)
    return odd


def _give_file(sink: Sink, folder: int, name: bytes, path: bytes) -> bool:
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return False
    handle = os.open(name, READ_FILE, dir_fd=folder)
    try:
        st = os.fstat(handle)
        if not stat.S_ISREG(st.st_mode):
            return False
        if st.st_size > _SMALL:
            sink.stream(path, _pieces(handle), 0o644, st.st_mtime_ns, deflate=not name.endswith(b".pack"))
        else:
            sink.file(path, b"".join(_pieces(handle)), 0o644, st.st_mtime_ns)
    finally:
        os.close(handle)
    return True


def _pieces(handle: int) -> Iterator[bytes]:
    while piece := os.read(handle, _PIECE):
        yield piece
