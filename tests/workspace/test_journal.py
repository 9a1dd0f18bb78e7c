"""What is written down about an apply before the host is touched: private, whole, and read back as it was."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from toolkit_workspace.applying.journal import Journal
from toolkit_workspace.applying.steps import HostVersion
from toolkit_workspace.record.content import Node, node_of
from toolkit_workspace.record.keeping import ByteStore


def test_the_journal_is_for_its_user_alone(tmp_path: Path) -> None:
    Journal.begin(tmp_path / "journal", [], [])
    assert (tmp_path / "journal").stat().st_mode & 0o7777 == 0o700


def test_a_version_is_read_back_with_owner_and_attributes(tmp_path: Path) -> None:
    store = ByteStore(tmp_path / "bytes")
    for version in (
        HostVersion("d", 0o750, owner=(1001, 2002)),
        HostVersion("l", 0o777, target=b"to\xff", owner=(3, 4), attributes=(("user.a", b"\0\xff"),)),
        HostVersion("l", 0o777, target=b"x"),
    ):
        assert HostVersion.from_json(version.to_json(), store) == version


def test_folders_are_alike_whatever_their_mode_and_other_kinds_are_not() -> None:
    folder = HostVersion("d", 0o755)
    assert folder.is_like(HostVersion("d", 0o700))
    assert not folder.is_like(HostVersion("l", 0o755, target=b"x"))
    assert not folder.is_like(None)
    assert HostVersion("l", 0o777, target=b"x").is_like(HostVersion("l", 0o777, target=b"x"))
    assert not HostVersion("l", 0o777, target=b"x").is_like(HostVersion("l", 0o777, target=b"y"))
    file = HostVersion("f", 0o100644, sha256="a")
    assert file.is_like(HostVersion("f", 0o644, sha256="a"))
    assert not file.is_like(HostVersion("f", 0o600, sha256="a"))
    others_may_run = HostVersion("f", 0o645, sha256="a")
    assert not file.is_like(others_may_run)
    assert not others_may_run.is_like(file)
    assert not file.is_like(HostVersion("f", 0o644, sha256="b"))


def _node(path: Path) -> Node:
    target = os.fsencode(path.readlink()) if path.is_symlink() else None
    return node_of(path.lstat(), target, partial(os.open, path.parent, os.O_RDONLY), os.fsencode(path.name))


@pytest.fixture
def made(tmp_path: Path) -> HostVersion:
    """A file of three bytes, as a journal holds it."""
    content, digest = ByteStore(tmp_path / "bytes").keep(b"abc")
    return HostVersion("f", 0o644, content=content, sha256=digest)


def test_a_file_is_made_where_its_very_bytes_are_and_nowhere_else(tmp_path: Path, made: HostVersion) -> None:
    file, folder, link = tmp_path / "file", tmp_path / "folder", tmp_path / "link"
    file.write_bytes(b"abc")
    folder.mkdir()
    link.symlink_to("file")
    assert made.is_made_in(_node(file)) is True
    assert made.is_made_in(_node(folder)) is False
    assert made.is_made_in(_node(link)) is False
    file.write_bytes(b"abd")
    assert made.is_made_in(_node(file)) is False


def test_a_file_that_changes_again_before_it_is_read_is_not_the_one_that_was_made(
    tmp_path: Path, made: HostVersion
) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    seen = _node(tmp_path / "file")
    (tmp_path / "file").unlink()
    assert made.is_made_in(seen) is False


def test_a_link_is_made_where_one_leads_to_the_same_place(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("x")
    assert HostVersion("l", 0o777, target=b"x").is_made_in(_node(tmp_path / "link"))
    assert not HostVersion("l", 0o777, target=b"y").is_made_in(_node(tmp_path / "link"))
    (tmp_path / "folder").mkdir()
    assert HostVersion("d", 0o755).is_made_in(_node(tmp_path / "folder"))
    assert not HostVersion("l", 0o777).is_made_in(_node(tmp_path / "folder"))
