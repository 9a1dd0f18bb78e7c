"""The record of what was prepared: exact, small, and never trusted further than it can be read."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from tests.workspace.copies import make_tree, prepare
from toolkit.errors import WorkspaceError
from toolkit_workspace.record import MountRecord, Record, Row, Stamp


def test_a_record_read_from_disk_is_the_one_that_was_written(tmp_path: Path) -> None:
    files: dict[str | bytes, bytes | str] = {
        b"\xff\xfe": b"x",
        "new\nline": b"y",
        "a/b/c": b"z",
        "link": "a",
        "empty/": b"",
    }
    written = Record.load(prepare(make_tree(tmp_path / "host", files)).state_dir / "record")
    written.save(tmp_path / "record")
    read = Record.load(tmp_path / "record")
    assert list(read) == list(written)
    assert (read.mounts, read.root_stamp, read.created_ns) == (written.mounts, written.root_stamp, written.created_ns)
    assert {row.path for row in read} >= {
        b"src/\xff\xfe",
        b"src/new\nline",
        b"src/a/b/c",
        b"src/link",
        b"src/empty",
    }


@pytest.mark.parametrize("length", [0, 10, 40, 200, -1, -70])
def test_a_record_that_was_cut_short_is_refused(tmp_path: Path, length: int) -> None:
    section = prepare(make_tree(tmp_path / "host", {"a": b"a", "b/c": b"c"}))
    whole = (section.state_dir / "record").read_bytes()
    (tmp_path / "record").write_bytes(whole[:length])
    with pytest.raises(WorkspaceError):
        Record.load(tmp_path / "record")


def row(path: bytes, inode: int = 4) -> Row:
    return Row(path, path[2:], None, "f", 0, 0o100644, Stamp(1, 2, 3, inode), Stamp(1, 2, 3, 4))


def test_entries_are_replaced_and_forgotten_with_all_below_them() -> None:
    record = Record([MountRecord(b"/host", b"m", 1, 2)])
    for path in (b"m/a", b"m/d/x", b"m/d/e/y", b"m/dd"):
        record.put(row(path))
    record.put(row(b"m/a", inode=99))
    record.discard(b"m/d")
    assert sorted(one.path for one in record) == [b"m/a", b"m/dd"]
    assert record.get(b"m/a") == row(b"m/a", inode=99)
    assert record.get(b"m/d/x") is None
    assert record.get(b"m/missing") is None


def test_a_record_of_many_files_stays_small() -> None:
    tracemalloc.start()
    try:
        record = Record([MountRecord(b"/host", b"src", 1, 2)])
        for folder in range(500):
            names = [f"some_file_name_{number}.py" for number in range(20)]
            path = b"package/module%d" % folder
            record.add_files(0, b"src/" + path, path, names, [(0o100644, (1, 2, 3, 4), (1, 2, 3, 4))] * 20)
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(record) == 10_000
    assert size < 150 * 10_000
