"""A store: records that are created once, by one, and are whole."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toolkit.errors import RunError
from toolkit.fleets.store import FolderStore


def test_of_many_who_create_one_record_one_wins_and_it_holds_what_the_winner_wrote(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda who: store.create("claims/task/1", b"%d" % who * 5000), range(32)))
    assert won.count(True) == 1
    assert store.read("claims/task/1") == b"%d" % won.index(True) * 5000
    assert store.names("claims") == ["claims/task/1"]
    assert [file.name for file in (tmp_path / "claims" / "task").iterdir()] == ["1"]


def test_what_is_not_there_is_none_and_can_be_removed(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "new")
    assert store.read("claims/1") is None
    assert store.names("claims") == []
    store.remove("claims/1")
    assert store.create("claims/1", b"")
    store.remove("claims/1")
    assert store.create("claims/1", b"again")


@pytest.mark.parametrize("name", ["../x", "a/../b", "/etc/passwd", "", "a//b", ".hidden", "a b", "a/" * 8 + "a"])
def test_no_record_is_outside_its_store(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunError, match="cannot be the name of a record"):
        FolderStore(tmp_path).create(name, b"x")


def test_a_store_that_cannot_be_written_says_where_and_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="the store cannot be written: Not a directory") as caught:
        FolderStore(tmp_path / "file").create("claims/1", b"x")
    assert caught.value.where == (str(tmp_path / "file"), "claims/1")
