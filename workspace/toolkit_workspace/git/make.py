"""Make the git folder of a copy: HEAD, refs, index and what is under way, over objects that are lent.

The history is not copied. The new git folder borrows the host's objects; inside a jail
these stand read-only below `STORES`. What the agent commits goes into its own. The
host's repository is only read.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from toolkit._base.handles import CREATE_FILE, PATH_HANDLE, READ_DIR, open_beneath
from toolkit.errors import WorkspaceError
from toolkit_workspace.git.folder import GitFolder, too_large
from toolkit_workspace.git.program import git
from toolkit_workspace.git.refs import read_refs
from toolkit_workspace.git.repository import LARGEST_HEAD, Repository
from toolkit_workspace.git.settings import clean_settings, ignored_everywhere
from toolkit_workspace.overlay import is_in

STORES = "/run/toolkit/git"
"""Where object stores of the host appear inside a jail."""
_LARGEST_NOTE = 1 << 20
_LARGEST_NOTES = 1 << 26
_LARGEST_INDEX = 1 << 29
_BLOCK = 4096  # what a file takes at least
_PIECE = 1 << 20
_ALTERNATES = "alternates"
# What git keeps about a merge, rebase, pick or bisect that is under way.
_UNDER_WAY = """
MERGE_HEAD MERGE_MSG MERGE_MODE AUTO_MERGE CHERRY_PICK_HEAD REVERT_HEAD REBASE_HEAD ORIG_HEAD SQUASH_MSG
BISECT_LOG BISECT_START BISECT_TERMS BISECT_NAMES BISECT_EXPECTED_REV BISECT_ANCESTORS_OK logs/refs/stash
info/sparse-checkout
"""
_UNDER_WAY_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer")


@dataclass(frozen=True, slots=True)
class GitInside:
    """A git folder that was made for a copy, and what has to be shown for it to work."""

    at: str
    """Its place, relative to the workspace."""
    lent: tuple[tuple[str, str], ...]
    """Host paths to show read-only, each with its place inside."""
    remarks: tuple[str, ...] = ()
    """What works differently than on the host."""


def make_git(
    repository: Repository,
    copy: Path,
    at: str,
    *,
    first_store: int,
    nothing: Path,
    hidden: Iterable[str] | None,
    below: Path | None = None,
) -> GitInside:
    """Make `copy/.git` for a work tree that was copied there.

    Args:
        repository: The one it was copied from.
        copy: The copied work tree; it has no `.git` yet.
        at: The place of `copy/.git`, relative to the workspace.
        first_store: The number of its first object store inside.
        nothing: An empty file, to be shown where the host's own stores name further ones.
        hidden: Folders of the work tree that are shown from the host, if the copy lacks anything that the
            host has: then git is told which tracked files are not there on purpose. None if it is whole.
        below: The kept copy that shows through the copied work tree, if one does.

    Raises:
        WorkspaceError: the repository cannot be read, or the folder not written.
    """
    place = copy / ".git"
    made = plan_git(repository, at, first_store=first_store)
    try:
        for folder in ("", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags", "info"):
            (place / folder).mkdir(mode=0o755)
        _copy_state(repository, place)
        (place / "config").write_text(clean_settings(repository), encoding="utf-8", errors="surrogateescape")
        (place / "info" / "exclude").write_bytes(ignored_everywhere(repository))
        if hidden is not None:
            mark_absent(repository, place, [*hidden], lambda name: is_in(copy, below, name))
        _write_alternates(place, [str(store) for store in repository.objects])
    except OSError as error:
        raise WorkspaceError(
            f"the copy of the repository {str(repository.top)!r} gets no git folder: {error.strerror}",
            where=[str(error.filename or place)],
            fix="Copy without git: --git none, HostMount(…, git='none')",
        ) from error
    return by_itself(made, nothing)


def by_itself(made: GitInside, nothing: Path) -> GitInside:
    """The same where the host's own stores name no further ones: an empty file is shown in place of each list."""
    borrowing = [inside for host, inside in made.lent if (Path(host) / "info" / "alternates").exists()]
    return replace(made, lent=(*made.lent, *((str(nothing), f"{inside}/info/alternates") for inside in borrowing)))


def plan_git(repository: Repository, at: str, *, first_store: int) -> GitInside:
    """What `make_git` would give, by looking only: without what hides further stores."""
    stores = [f"{STORES}/{number}" for number, _ in enumerate(repository.objects, first_store)]
    return GitInside(at, tuple(zip(map(str, repository.objects), stores, strict=True)), tuple(_remarks(repository)))


def point_inside(workspace: int, made: GitInside) -> None:
    """Let a git folder borrow from where the object stores appear in a jail. Before that it works on the host.

    Somebody may have worked in the open workspace: a git folder that is gone, or leads elsewhere, is left alone.
    """
    stores = [inside for _, inside in made.lent if not inside.endswith("/alternates")]
    try:
        info = open_beneath(workspace, os.fsencode(f"{made.at}/objects/info"), READ_DIR)
    except OSError:
        return
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_ALTERNATES, dir_fd=info)
        with os.fdopen(os.open(_ALTERNATES, CREATE_FILE, 0o644, dir_fd=info), "wb") as file:
            file.write(_lines(stores))
    finally:
        os.close(info)


def _write_alternates(place: Path, stores: Iterable[str]) -> None:
    (place / "objects" / "info" / _ALTERNATES).write_bytes(_lines(stores))


def _lines(stores: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(store) + b"\n" for store in stores)


def _copy_state(repository: Repository, place: Path) -> None:
    """Everything of the host's git folder but settings and objects."""
    with GitFolder(repository.git_dir) as folder, GitFolder(repository.common_dir) as common:
        (place / "HEAD").write_bytes(folder.read("HEAD", LARGEST_HEAD) or b"")
        _write_refs(repository, folder, common, place)
        _copy_notes(folder, common, place)
        _copy_index(folder, place)


def _write_refs(repository: Repository, folder: GitFolder, common: GitFolder, place: Path) -> None:
    """All refs packed in one file; those that stand for another one as files."""
    named, symbolic = read_refs(folder, common, 64 if repository.object_format == "sha256" else 40)
    write_refs(named, symbolic, place)


def write_refs(named: Mapping[str, str], symbolic: Mapping[str, str], place: Path) -> None:
    """Write refs into a new git folder."""
    for ref, target in symbolic.items():
        (place / ref).parent.mkdir(parents=True, exist_ok=True)
        (place / ref).write_bytes(b"ref: " + os.fsencode(target) + b"\n")
    rows = sorted((os.fsencode(ref), name.encode()) for ref, name in named.items())
    text = b"".join([b"# pack-refs with: sorted \n", *(name + b" " + ref + b"\n" for ref, name in rows)])
    (place / "packed-refs").write_bytes(text)


def _copy_notes(folder: GitFolder, common: GitFolder, place: Path) -> None:
    """What is under way, where a shallow history ends, and attributes."""
    sources = [(folder, name) for name in _UNDER_WAY.split()]
    sources += [(common, name) for name in ("shallow", "info/attributes", "logs/refs/stash")]
    for below in _UNDER_WAY_FOLDERS:
        sources += [(folder, f"{below}/{name}") for name in folder.names(below)[1]]
    left = _LARGEST_NOTES
    for source, name in sources:
        file = source.open(name)
        if file is None:
            continue
        with file:
            if name == "shallow":
                _copy(file, source.path / name, place / name, _LARGEST_INDEX)
            elif os.fstat(file.fileno()).st_size <= _LARGEST_NOTE:
                data = file.read(_LARGEST_NOTE)
                left -= len(data) + _BLOCK
                if left < 0:
                    raise too_large((source.path / name).parent, _LARGEST_NOTES)
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(data)


def _copy_index(folder: GitFolder, place: Path) -> None:
    """The index as it stands, with its time: git looks again at what is younger than its index."""
    names = ["index", *(name for name in folder.names(".")[1] if name.startswith("sharedindex."))]
    left = _LARGEST_INDEX
    for name in names:
        file = folder.open(name)
        if file is None:
            continue
        with file:
            left -= _copy(file, folder.path / name, place / name, left)
            found = os.fstat(file.fileno())
        os.utime(place / name, ns=(found.st_atime_ns, found.st_mtime_ns))


def _copy(file: BinaryIO, source: Path, to: Path, most: int) -> int:
    """Copy a file, which may still grow, and say what of `most` bytes that took."""
    left = most
    if os.fstat(file.fileno()).st_size + _BLOCK > left:
        raise too_large(source, most)
    with to.open("xb") as copy:
        while left > _BLOCK and (data := file.read(min(left, _PIECE))):
            copy.write(data)
            left -= len(data)
    return most - left + _BLOCK


def mark_absent(repository: Repository, place: Path, shown: Sequence[str], is_copied: Callable[[str], bool]) -> None:
    """Tell a copy's git folder which tracked files were left out of the copy: they are not to be taken for deleted.

    `is_copied` is asked of paths relative to the work tree; `shown` are folders of it that are shown from the host.
    """
    if not (place / "index").exists():
        return
    copy = place.parent
    listed = os.fsdecode(git(place, "ls-files", "-z", work_tree=copy)).split("\0")
    prefixes = tuple(f"{folder}/" for folder in shown)
    missing = [one for one in listed if one and not one.startswith(prefixes) and not is_copied(one)]
    absent = list(_there(repository.top, missing))
    if absent:
        times = (place / "index").stat()
        given = os.fsencode("\0".join(absent))
        git(place, "update-index", "-z", "--skip-worktree", "--stdin", work_tree=copy, given=given)
        os.utime(place / "index", ns=(times.st_atime_ns, times.st_mtime_ns))


def _there(top: Path, names: Iterable[str]) -> Iterator[str]:
    """Those that the host has below its work tree. An index may name any path: none is followed out of it."""
    root = os.open(top, PATH_HANDLE | os.O_DIRECTORY)
    try:
        for name in names:
            folder, _, last = name.rpartition("/")
            with contextlib.suppress(OSError):
                parent = open_beneath(root, os.fsencode(folder), PATH_HANDLE | os.O_DIRECTORY)
                try:
                    os.stat(last, dir_fd=parent, follow_symlinks=False)
                    yield name
                finally:
                    os.close(parent)
    finally:
        os.close(root)


def _remarks(repository: Repository) -> Iterable[str]:
    if repository.setting("extensions.partialclone"):
        yield "a partial clone: files of the history that were never fetched cannot be shown"
    if any(name.startswith("filter.") for name, _ in repository.config if name.endswith((".clean", ".process"))):
        yield "no filters (git-lfs and the like): a file they apply to is committed as it is"
