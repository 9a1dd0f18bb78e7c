"""A store by its address: a folder, or anything of fsspec's that creates a file for one only."""

from __future__ import annotations

import os
import pickle
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import RunError
from toolkit.fleets.store import FolderStore, Store, check_store, open_store
from toolkit.fleets.store.fsspec_store import FsspecStore, without_user


@pytest.fixture
def in_memory() -> Store:
    return open_store(f"memory://{secrets.token_hex(4)}/fleet")


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """A real S3 API on loopback, where a server for one is installed (moto), and s3fs."""
    pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "test"}
    names |= {"AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    server = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)])
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in names.items():
                patch.setenv(name, value)
            yield _bucket(f"http://127.0.0.1:{port}", server)
    finally:
        server.terminate()
        server.wait(10)


def _bucket(endpoint: str, server: subprocess.Popen[bytes]) -> str:
    boto3 = import_module("boto3")
    until = time.monotonic() + 60
    while True:
        try:
            boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket="fleet")
        except Exception:
            if server.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.1)  # the server says nothing when it is ready
        else:
            return "s3://fleet/batches"


def test_a_path_and_a_file_address_are_folders(tmp_path: Path) -> None:
    for address in (str(tmp_path / "s"), f"file://{tmp_path}/s"):
        store = open_store(address)
        assert isinstance(store, FolderStore)
        assert store.folder == tmp_path / "s"
        check_store(store)


def _exercise(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda who: store.create("claims/task/1", b"%d" % who * 5000), range(16)))
    assert won.count(True) == 1
    assert store.read("claims/task/1") == b"%d" % won.index(True) * 5000
    assert store.read("claims/task/2") is None
    assert store.names("claims") == ["claims/task/1"]
    assert store.names("nothing") == []
    store.create("claims/other", b"")
    assert store.names("claims") == ["claims/other", "claims/task/1"]
    assert store.read("claims/other") == b""
    store.remove("claims/task/1")
    store.remove("claims/task/1")
    assert store.create("claims/task/1", b"again")
    check_store(store)
    assert store.names("probes") == []


def test_a_store_in_memory_does_all_that_a_store_does(in_memory: Store) -> None:
    _exercise(in_memory)
    with pytest.raises(RunError, match="cannot be the name of a record"):
        in_memory.create("../out", b"x")


def test_a_store_on_s3_does_all_that_a_store_does(s3: str) -> None:
    store = open_store(s3)
    _exercise(store)
    assert pickle.loads(pickle.dumps(store)).read("claims/task/1") == b"again"
    with pytest.raises(RunError, match="the store cannot be written") as caught:
        open_store("s3://no-such-bucket/x").create("claims/1", b"x")
    assert caught.value.where == ("s3://no-such-bucket/x", "claims/1")


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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_rights_is_named(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir(mode=0o500)
    with pytest.raises(RunError, match="the store cannot be written: Permission denied"):
        check_store(open_store(str(tmp_path / "s")))


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


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adlfs", None)
    with pytest.raises(RunError, match="needs a package that is not installed"):
        open_store("abfs://container/x")


def test_no_password_of_an_address_is_told() -> None:
    assert without_user("s3://user:word@bucket/x failed") == "s3://bucket/x failed"
