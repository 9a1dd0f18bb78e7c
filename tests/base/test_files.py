"""A file is there whole or not at all, and nothing is replaced that was not meant to be."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolkit._base.files import exchange, rename_new, replacing, umask, write_all, write_json, write_new, write_whole

OLD, NEW = b"old" * 400_000, b"new" * 500_000


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """The temporary folder, open."""
    handle = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield handle
    os.close(handle)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_writer_killed_in_the_middle_leaves_the_old_file_and_a_hidden_new_one(tmp_path: Path) -> None:
    file = tmp_path / "data.json"
    file.write_bytes(OLD)
    program = (
        "import sys, time; from pathlib import Path; from toolkit._base.files import replacing\n"
        "with replacing(Path(sys.argv[1])) as out:\n"
        "    out.write(b'half'); out.flush(); print('written', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(file)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        writer.kill()

    assert file.read_bytes() == OLD
    left = [name for name in names(tmp_path) if name != "data.json"]
    assert len(left) == 1
    assert left[0].startswith(".data.json.")
    assert left[0].endswith(".new")


def test_a_reader_sees_the_old_file_or_the_new_one_and_never_a_part(tmp_path: Path) -> None:
    file = tmp_path / "data"
    write_whole(file, OLD)
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            write_whole(file, NEW)
            write_whole(file, OLD)

    writer = threading.Thread(target=write)
    writer.start()
    seen = {file.read_bytes() for _ in range(300)}
    done.set()
    writer.join(60)
    assert seen <= {OLD, NEW}
    assert names(tmp_path) == ["data"]


def test_an_error_while_writing_leaves_the_old_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "data"
    write_whole(file, "old")
    with pytest.raises(KeyError), replacing(file) as out:
        raise KeyError(out.write(b"half"))
    with pytest.raises(TypeError):
        write_json(file, {"not": object()})
    assert file.read_text(encoding="utf-8") == "old"
    assert names(tmp_path) == ["data"]


def test_a_file_is_its_owners_alone_unless_said_otherwise(tmp_path: Path) -> None:
    write_json(tmp_path / "data", [1])
    write_whole(tmp_path / "program", "#!/bin/sh\n", mode=0o700)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "program").stat().st_mode & 0o777 == 0o700


def test_replacing_a_link_leaves_what_it_points_to_alone(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine", encoding="utf-8")
    (tmp_path / "link").symlink_to("target")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "target").read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("kind", ["file", "folder", "link to nowhere"])
def test_a_rename_to_a_new_name_never_replaces_what_is_there(tmp_path: Path, folder: int, kind: str) -> None:
    (tmp_path / "fresh").write_text("fresh", encoding="utf-8")
    there = tmp_path / "there"
    if kind == "file":
        there.write_text("there", encoding="utf-8")
    elif kind == "folder":
        there.mkdir()
    else:
        there.symlink_to("nowhere")

    before = os.lstat(there).st_ino
    with pytest.raises(FileExistsError):
        rename_new(folder, "fresh", folder, "there")
    assert os.lstat(there).st_ino == before
    rename_new(folder, "fresh", folder, "elsewhere")
    assert names(tmp_path) == ["elsewhere", "there"]


def test_two_names_change_places_in_one_step(tmp_path: Path, folder: int) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    exchange(folder, "file", folder, "folder")
    assert (tmp_path / "file").is_dir()
    assert (tmp_path / "folder").read_text(encoding="utf-8") == "x"
    with pytest.raises(FileNotFoundError):
        exchange(folder, "file", folder, "nobody")


def test_a_new_file_that_cannot_be_finished_is_taken_away_again(tmp_path: Path, folder: int) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise OSError("the source is gone")

    def refuse(handle: int) -> None:
        raise PermissionError

    with pytest.raises(OSError, match="the source is gone"):
        write_new(folder, "copy", pieces())
    with pytest.raises(PermissionError):
        write_new(folder, "copy", [b"whole"], dress=refuse)
    assert names(tmp_path) == []


def test_a_new_file_is_never_written_into_one_that_is_there_or_through_a_link(tmp_path: Path, folder: int) -> None:
    (tmp_path / "there").write_text("mine", encoding="utf-8")
    (tmp_path / "link").symlink_to("outside")
    for name in ("there", "link"):
        with pytest.raises(FileExistsError):
            write_new(folder, name, [b"theirs"])
    assert (tmp_path / "there").read_text(encoding="utf-8") == "mine"
    assert names(tmp_path) == ["link", "there"]


def test_every_byte_is_written_also_where_one_call_takes_only_a_part() -> None:
    reading, writing = os.pipe()
    got = bytearray()

    def read() -> None:
        while piece := os.read(reading, 4096):
            got.extend(piece)

    reader = threading.Thread(target=read)
    reader.start()
    write_all(writing, [OLD, b"", NEW])
    os.close(writing)
    reader.join(60)
    os.close(reading)
    assert got == OLD + NEW


def test_the_umask_is_told_without_being_set() -> None:
    program = "import os; os.umask(0o027); from toolkit._base.files import umask; print(umask(), os.umask(0))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [str(0o027), str(0o027)]
    assert 0 <= umask() <= 0o777
