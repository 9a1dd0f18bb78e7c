"""Trees are walked and removed however deep they are, with few handles, and never through a link."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from toolkit._base.handles import READ_DIR, open_beneath, remove_tree, walk_folders

DEPTH = 3_000


def _dig(folder: Path, depth: int = DEPTH) -> None:
    """A folder in a folder in a folder, deeper than any path is long; a file in the last one."""
    here = os.open(folder, READ_DIR)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", READ_DIR, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("deepest", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


@contextmanager
def _few_handles(most: int) -> Iterator[None]:
    """Let this process open only some more than it has now."""
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = {int(one.name) for one in Path("/proc/self/fd").iterdir()}
    # A number that is free below the highest one would count as well.
    filled = [os.open("/", READ_DIR) for _ in range(max(taken) + 2 - len(taken))]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(*filled, *taken) + 1 + most, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
        for handle in filled:
            os.close(handle)


@pytest.fixture
def top(tmp_path: Path) -> Iterator[int]:
    """The test's folder as a handle; nothing is left in it, for others remove it less patiently."""
    handle = os.open(tmp_path, READ_DIR)
    yield handle
    for one in tmp_path.iterdir():
        remove_tree(handle, one.name)
    os.close(handle)


def test_a_tree_of_any_depth_is_removed_with_a_dozen_handles(tmp_path: Path, top: int) -> None:
    (tmp_path / "tree").mkdir()
    _dig(tmp_path / "tree")
    with _few_handles(12):
        remove_tree(top, "tree")
    assert os.listdir(top) == []


def test_a_tree_of_any_depth_is_walked_with_a_dozen_handles(tmp_path: Path, top: int) -> None:
    _dig(tmp_path)
    with _few_handles(12):
        seen = [(folders, others) for _, folders, others in walk_folders(top)]
    assert seen == [*[(["d"], [])] * DEPTH, ([], ["deepest"])]


def test_a_walk_sees_every_folder_once_and_gives_its_handle(tmp_path: Path, top: int) -> None:
    for path in ("a/b", "a/c/d", "e"):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "file").touch()
    walked = {os.fstat(handle).st_ino: (sorted(folders), others) for handle, folders, others in walk_folders(top)}
    found = {path: walked.pop((tmp_path / path).stat().st_ino) for path in ("", "a", "a/b", "a/c", "a/c/d", "e")}
    assert walked == {}
    assert found["a"] == (["b", "c"], [])
    assert found["a/c/d"] == ([], ["file"])


def test_links_are_removed_and_never_entered(tmp_path: Path, top: int) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (tmp_path / "tree/inner").mkdir(parents=True)
    (tmp_path / "tree/inner/link").symlink_to(outside)
    tree = open_beneath(top, b"tree", READ_DIR)
    assert [others for _, _, others in walk_folders(tree)] == [[], ["link"]]
    os.close(tree)
    remove_tree(top, "tree")
    assert (outside / "kept").exists()
    assert not (tmp_path / "tree").exists()


def test_what_is_already_gone_is_no_error(top: int) -> None:
    remove_tree(top, "nothing")


def test_closed_folders_are_opened_and_removed(tmp_path: Path, top: int) -> None:
    (tmp_path / "tree/inner").mkdir(parents=True)
    (tmp_path / "tree/inner/file").touch()
    (tmp_path / "tree/inner").chmod(0)
    (tmp_path / "tree").chmod(0)
    remove_tree(top, "tree")
    assert not (tmp_path / "tree").exists()


def test_a_path_of_any_length_is_opened_and_a_name_too_long_is_no_shorter_one(tmp_path: Path, top: int) -> None:
    (tmp_path / "tree").mkdir()
    _dig(tmp_path / "tree")
    (tmp_path / "other").symlink_to("tree")
    deep = b"/".join([b"tree", *[b"d"] * DEPTH, b"deepest"])
    for spelled in (deep, deep.replace(b"/", b"//"), b"/" + deep, deep.replace(b"d/", b"./d/")):
        os.close(open_beneath(top, spelled, os.O_RDONLY))
    os.close(open_beneath(top, deep.replace(b"tree", b"other"), os.O_RDONLY, follow_links=True))
    for spelled, number in (
        (deep.replace(b"tree", b"other"), errno.ELOOP),
        (b"tree/" + b"d" * 5_000, errno.ENAMETOOLONG),
        (b"d" * 5_000 + b"/d", errno.ENAMETOOLONG),
        (deep + b"/d", errno.ENOTDIR),
        (deep.replace(b"deepest", b"gone"), errno.ENOENT),
    ):
        with pytest.raises(OSError, match=os.strerror(number)):
            open_beneath(top, spelled, os.O_RDONLY)
