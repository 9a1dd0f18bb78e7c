"""The ready-made files, writing: whole or not at all, and never what was not asked for."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.ready._client import names_in, refused, said
from toolkit import Toolbox
from toolkit.errors import TargetError
from toolkit_servers.ready.files import files, save


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    return files(tmp_path)


async def test_a_file_is_written_with_the_folders_above_it(box: Toolbox, tmp_path: Path) -> None:
    assert await said(box, "write_file", path="a/b/c.txt", content="one\ntwo\n") == "Wrote a/b/c.txt: 2 lines, 8 B."
    assert (tmp_path / "a/b/c.txt").read_text() == "one\ntwo\n"
    assert "Replaced" in await said(box, "write_file", path="a/b/c.txt", content="")
    assert (tmp_path / "a/b/c.txt").read_bytes() == b""


async def test_writing_keeps_the_mode_and_leaves_nothing_beside_the_file(box: Toolbox, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("old")
    script.chmod(0o751)
    await said(box, "write_file", path="run.sh", content="new")
    await said(box, "edit_file", path="run.sh", edits=[{"old": "new", "new": "newer"}])
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    assert names_in(tmp_path) == ["run.sh"]


async def test_a_write_that_fails_leaves_the_old_file_and_no_trace(
    box: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept").write_text("old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "disk is full" in await refused(box, "write_file", path="kept", content="new")
    assert (tmp_path / "kept").read_text() == "old"
    assert names_in(tmp_path) == ["kept"]


async def test_a_reader_sees_the_old_text_or_the_new_one_and_nothing_between(box: Toolbox, tmp_path: Path) -> None:
    versions = [letter * 200_000 for letter in "ab"]
    (tmp_path / "f").write_text(versions[0])
    stop, seen = threading.Event(), set[str]()

    def watch() -> None:
        while not stop.is_set():
            seen.add((tmp_path / "f").read_text())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for number in range(60):
            await said(box, "write_file", path="f", content=versions[number % 2])
    finally:
        stop.set()
        watcher.join(60)
    assert seen <= set(versions)


async def test_a_hard_link_to_a_file_elsewhere_is_parted_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("precious")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "inside").hardlink_to(tmp_path / "outside")
    await said(files(tmp_path / "root"), "write_file", path="inside", content="mine")
    assert (tmp_path / "outside").read_text() == "precious"


async def test_a_file_marked_read_only_is_not_overwritten(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    (tmp_path / "f").chmod(0o444)
    assert "read-only" in await refused(box, "write_file", path="f", content="new")
    assert "read-only" in await refused(box, "edit_file", path="f", edits=[{"old": "old", "new": "new"}])
    assert (tmp_path / "f").read_text() == "old"


async def test_an_edit_shows_the_difference_and_a_dry_run_changes_nothing(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("a = 1\nb = 2\n")
    edits = [{"old": "a = 1", "new": "a = 10"}, {"old": "b = 2\n", "new": ""}]
    difference = "--- a/f.py\n+++ b/f.py\n@@ -1,2 +1 @@\n-a = 1\n-b = 2\n+a = 10"
    assert await said(box, "edit_file", path="f.py", edits=edits, dry_run=True) == f"Would edit f.py.\n{difference}"
    assert (tmp_path / "f.py").read_text() == "a = 1\nb = 2\n"
    assert await said(box, "edit_file", path="f.py", edits=edits) == f"Edited f.py.\n{difference}"
    assert (tmp_path / "f.py").read_text() == "a = 10\n"


async def test_either_all_edits_are_made_or_none(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one two")
    text = await refused(box, "edit_file", path="f", edits=[{"old": "one", "new": "1"}, {"old": "three", "new": "3"}])
    assert text.startswith("edit 2: the old text is not in f; nothing was changed")
    assert (tmp_path / "f").read_text() == "one two"


async def test_an_edit_that_fits_twice_is_refused_unless_every_place_is_meant(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x\ny\nx\n")
    assert "2 times (lines 1, 3)" in await refused(box, "edit_file", path="f", edits=[{"old": "x", "new": "z"}])
    await said(box, "edit_file", path="f", edits=[{"old": "x", "new": "z", "every": True}])
    assert (tmp_path / "f").read_text() == "z\ny\nz\n"


async def test_an_edit_that_misses_by_spaces_is_shown_the_real_lines(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("if x:\n\treturn  1\n")
    text = await refused(box, "edit_file", path="f", edits=[{"old": "if x:\n    return 1", "new": ""}])
    assert text.endswith("Lines 1 to 2 differ from it in spaces only; they are:\nif x:\n\treturn  1")
    assert "read the file again" in await refused(box, "edit_file", path="f", edits=[{"old": "\n\n\n", "new": ""}])


async def test_an_edit_keeps_line_ends_and_bytes_that_are_no_text(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"one\r\ntwo\r\ncaf\xe9\r\n")
    await said(box, "edit_file", path="f", edits=[{"old": "one\ntwo\n", "new": "1\n2\n"}])
    assert (tmp_path / "f").read_bytes() == b"1\r\n2\r\ncaf\xe9\r\n"


async def test_binary_and_very_large_files_are_not_edited(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(b"a\0b")
    (tmp_path / "large").write_text("line\n" * 1_000_000)
    assert "binary" in await refused(box, "edit_file", path="bin", edits=[{"old": "a", "new": "b"}])
    assert "can be edited" in await refused(box, "edit_file", path="large", edits=[{"old": "line", "new": "b"}])


@pytest.mark.parametrize(
    ("compat", "edit"), [(None, {"old": "a", "new": "b"}), ("reference", {"oldText": "a", "newText": "b"})]
)
async def test_the_tool_for_a_binary_file_is_called_as_it_is_there(
    compat: Any, edit: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "bin").write_bytes(b"a\0b")
    box = files(tmp_path, compat=compat)
    said_of_it = await refused(box, "edit_file", path="bin", edits=[edit])
    assert re.findall(r"read_media\w*", said_of_it) == [name for name in box.tools if name.startswith("read_media")]


async def test_an_edit_of_a_file_that_changed_meanwhile_is_refused(
    box: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "f"
    target.write_text("one")
    really = save.save_file

    def save_late(*arguments: object, **options: object) -> bool:
        target.write_text("someone else's")
        return really(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(save, "save_file", save_late)
    assert "changed by someone else" in await refused(box, "edit_file", path="f", edits=[{"old": "one", "new": "1"}])
    assert target.read_text() == "someone else's"


async def test_edits_at_the_same_time_are_all_kept(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"<{number}>\n" for number in range(30)))
    await asyncio.gather(
        *(said(box, "edit_file", path="f", edits=[{"old": f"<{n}>", "new": f"[{n}]"}]) for n in range(30))
    )
    assert (tmp_path / "f").read_text() == "".join(f"[{number}]\n" for number in range(30))


@pytest.mark.parametrize("has_renameat2", [True, False])
async def test_moving_never_overwrites(
    has_renameat2: bool, box: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_renameat2:  # an older system cannot promise it in one step
        monkeypatch.setattr("toolkit._base.files._renameat2", None)
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    (tmp_path / "d").mkdir()
    for taken in ("b", "d"):
        assert "exists already" in await refused(box, "move", source="a", destination=taken)
    assert await said(box, "move", source="a", destination="d/a2") == "Moved a to d/a2."
    assert (tmp_path / "d" / "a2").read_text() == "a"
    assert await said(box, "move", source="d", destination="e") == "Moved d to e."
    assert "into itself" in await refused(box, "move", source="e", destination="e/inside")
    assert "does not exist" in await refused(box, "move", source="nothing", destination="x")
    assert "does not exist" in await refused(box, "move", source="b", destination="no/such/folder")


async def test_a_folder_with_something_in_it_is_removed_only_when_that_is_said(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "d" / "sub").mkdir(parents=True)
    (tmp_path / "d" / "f").write_text("x")
    assert "2 entries" in await refused(box, "remove", path="d")
    assert (tmp_path / "d" / "f").exists()
    await said(box, "remove", path="d/f")
    await said(box, "remove", path="d", recursive=True)
    assert names_in(tmp_path) == []
    assert "does not exist" in await refused(box, "remove", path="d")


async def test_removing_a_link_leaves_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("x")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    await said(files(tmp_path / "root"), "remove", path="link", recursive=True)
    assert (tmp_path / "outside" / "f").exists()
    assert not (tmp_path / "root" / "link").is_symlink()


async def test_a_folder_is_made_once_and_again_without_complaint(box: Toolbox, tmp_path: Path) -> None:
    assert await said(box, "make_directory", path="a/b") == "Made a/b/."
    assert await said(box, "make_directory", path="a/b") == "a/b/ is there already."
    (tmp_path / "file").touch()
    assert "not a folder" in await refused(box, "make_directory", path="file")
    assert "not a folder" in await refused(box, "make_directory", path="file/x")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_file", {"path": ".", "content": "x"}),
        ("remove", {"path": ".", "recursive": True}),
        ("remove", {"path": "a/..", "recursive": True}),
        ("move", {"source": ".", "destination": "x"}),
        ("move", {"source": "a", "destination": "."}),
    ],
)
async def test_the_root_itself_stays(box: Toolbox, tmp_path: Path, tool: str, arguments: dict[str, Any]) -> None:
    (tmp_path / "a").mkdir()
    assert "root" in await refused(box, tool, **arguments)
    assert (tmp_path / "a").is_dir()


async def test_a_read_only_box_has_no_tool_that_writes(tmp_path: Path) -> None:
    box = files(tmp_path, read_only=True)
    assert all(tool.options.read_only for tool in box)
    assert len(box) == 8
    assert "no tool" in await refused(box, "write_file", path="x", content="x")
    assert names_in(tmp_path) == []


async def test_every_tool_says_whether_it_destroys(box: Toolbox) -> None:
    hints = {entry["name"]: entry.get("annotations", {}) for entry in box.listing()}
    destructive = {name for name, hint in hints.items() if hint.get("destructiveHint")}
    assert destructive == {"write_file", "edit_file", "move", "remove"}


def test_a_root_that_is_no_folder_is_an_error_with_a_fix(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(TargetError) as caught:
            files(wrong)
        assert caught.value.target == "files"
        assert caught.value.fix


async def test_a_root_that_was_removed_is_said_to_be_gone(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    box = files(tmp_path / "root")
    (tmp_path / "root").rmdir()
    assert "removed" in await refused(box, "write_file", path="x", content="x")
    assert "removed" in await refused(box, "read_file", path="x")
