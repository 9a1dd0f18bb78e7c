"""A store by its address: a folder, or anything of fsspec's that creates a file for one only."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fleets.exercise import exercise
from tests.workspace.hostile import a_place, run_as
from toolkit.errors import RunError
from toolkit.fleets.store import FolderStore, Store, check_store, open_shared, open_store
from toolkit.fleets.store.fsspec_store import FsspecStore, without_user


@pytest.fixture
def in_memory() -> Store:
    return open_store(f"memory://{secrets.token_hex(4)}/fleet")


def test_a_path_and_a_file_address_are_folders(tmp_path: Path) -> None:
    for address in (str(tmp_path / "s"), f"file://{tmp_path}/s"):
        store = open_store(address)
        assert isinstance(store, FolderStore)
        assert store.folder == tmp_path / "s"
        check_store(store)


def test_a_store_in_memory_does_all_that_a_store_does(in_memory: Store) -> None:
    exercise(in_memory)
    with pytest.raises(RunError, match="cannot be the name of a record"):
        in_memory.create("../out", b"x")


def test_a_create_whose_answer_was_lost_is_known_again(in_memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client library sends the request again, and hears that the record is there."""
    assert isinstance(in_memory, FsspecStore)
    real = in_memory._fs.pipe_file

    def lossy(path: str, data: bytes, mode: str) -> None:
        real(path, data, mode=mode)
        real(path, data, mode=mode)

    monkeypatch.setattr(in_memory._fs, "pipe_file", lossy)
    assert in_memory.create("claims/1", b"mine")
    assert not in_memory.create("claims/1", b"mine")


def test_a_store_that_replaces_records_is_found_out(in_memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(in_memory, FsspecStore)
    real = in_memory._fs.pipe_file
    monkeypatch.setattr(in_memory._fs, "pipe_file", lambda path, data, mode: real(path, data, mode="overwrite"))
    with pytest.raises(RunError, match="two machines could do one task"):
        check_store(in_memory)


def test_a_folder_without_rights_is_named() -> None:
    with a_place(plain=True) as place:

        def check() -> None:
            folder = place.project / "s"
            folder.mkdir(mode=0o500, parents=True)
            with pytest.raises(RunError, match="the store cannot be written: Permission denied") as caught:
                check_store(open_store(str(folder)))
            assert caught.value.where[0] == str(folder)

        run_as(True, check)  # root may write everywhere


def test_a_store_without_rights_is_named_with_its_address(in_memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(in_memory, FsspecStore)

    def forbidden(*_: Any, **__: Any) -> None:
        raise PermissionError("Forbidden")

    monkeypatch.setattr(in_memory._fs, "pipe_file", forbidden)
    with pytest.raises(RunError, match="the store cannot be written: Forbidden") as caught:
        check_store(in_memory)
    assert caught.value.where[0] == in_memory.address
    assert "credentials" in caught.value.fix


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("", "is no address of a store"),
        ("simplecache::s3://bucket/x", "is no address of a store"),
        ("http://host/x", "does not create a file for one only"),
        ("sftp://host/x", "does not create a file for one only"),
    ],
)
def test_an_address_that_cannot_be_a_store_is_refused(address: str, why: str) -> None:
    with pytest.raises(RunError, match=why):
        open_store(address)


def test_a_store_in_memory_is_none_for_other_machines(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no worker can reach it"):
        open_shared("memory://x")
    assert isinstance(open_shared(str(tmp_path)), FolderStore)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adlfs", None)
    with pytest.raises(RunError, match="needs a package that is not installed"):
        open_store("abfs://container/x")


def test_no_password_of_an_address_is_told() -> None:
    assert without_user("s3://user:word@bucket/x failed") == "s3://bucket/x failed"
