"""The ready-made notes: kept, found again, shared between processes, never lost to a damaged file."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.ready._client import refused, said
from toolkit import Toolbox
from toolkit.errors import TargetError
from toolkit_servers.ready.notes import notes


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "memory" / "notes.db"


@pytest.fixture
def box(database: Path) -> Toolbox:
    return notes(database)


async def test_a_note_outlives_the_toolbox(database: Path) -> None:
    text = await said(notes(database), "add_note", text="Deploys run on Fridays", title="Deploys", tags=["Ops"])
    assert text == "Kept as note 1."
    found = await said(notes(database), "find_notes", query="friday")
    assert found.splitlines()[0].endswith(": Deploys  (ops)")
    assert "Deploys run on Fridays" in found


async def test_the_best_match_comes_first_and_all_words_win_over_some(box: Toolbox) -> None:
    await said(box, "add_note", text="the build is slow on Mondays")
    await said(box, "add_note", text="clang builds it faster", title="slow build")
    await said(box, "add_note", text="unrelated")
    lines = (await said(box, "find_notes", query="slow build")).splitlines()
    assert [line.partition(",")[0] for line in lines if line.startswith("note")] == ["note 2", "note 1"]
    assert "note 3" in await said(box, "find_notes", query="unrelated and some words nobody wrote")


@pytest.mark.parametrize(
    ("query", "hit"),
    [("C++", True), ('"needs C++"', True), ('"C++ needs"', False), ("本語", True), ("++", True), ("NEAR(", False)],
)
async def test_signs_phrases_and_parts_of_words_are_found(box: Toolbox, query: str, hit: bool) -> None:
    await said(box, "add_note", text="it needs C++ 日本語")
    assert ("note 1" in await said(box, "find_notes", query=query)) is hit


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(st.sampled_from("ab\"'*():^-+{}[]~ \t%_\\NEARORANDT,.é\0"), max_size=20) | st.text(max_size=20))
def test_no_query_is_a_syntax_error(box: Toolbox, query: str) -> None:
    reply = asyncio.run(box.call("find_notes", {"query": query}))
    assert not reply.is_error or reply.text.startswith("find_notes was not called"), reply.text


async def test_a_changed_note_is_found_by_its_new_words_only(box: Toolbox) -> None:
    await said(box, "add_note", text="apples", title="fruit", tags=["a", "b"])
    await said(box, "update_note", note=1, text="pears")
    assert "nothing found" in await said(box, "find_notes", query="apples")
    assert "note 1" in await said(box, "find_notes", query="pears")
    assert (await said(box, "read_note", note=1)).endswith(": fruit  (a, b)\n\npears")
    await said(box, "update_note", note=1, title="", tags=["c"])
    assert (await said(box, "read_note", note=1)).endswith(":  (c)\n\npears")


async def test_a_removed_note_is_gone_and_its_number_is_not_used_again(box: Toolbox) -> None:
    await said(box, "add_note", text="one", tags=["t"])
    await said(box, "remove_note", note=1)
    assert "no note 1" in await refused(box, "read_note", note=1)
    assert "nothing found" in await said(box, "find_notes", query="one")
    assert await said(box, "add_note", text="two") == "Kept as note 2."
    assert "t (" not in await said(box, "list_notes")


async def test_notes_are_listed_by_tag_the_latest_first(box: Toolbox) -> None:
    for number in range(5):
        await said(box, "add_note", text=f"text {number}", tags=["even" if number % 2 == 0 else "odd", "all"])
    await said(box, "update_note", note=1, text="changed")
    lines = (await said(box, "list_notes", tag="EVEN", limit=2)).splitlines()
    assert [line.partition(",")[0] for line in lines if line.startswith("note")] == ["note 1", "note 5"]
    assert lines[-1] == "[2 of 3 notes; tags: all (5), even (3), odd (2)]"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("add_note", {"text": "  "}),
        ("add_note", {"text": "x" * 100_001}),
        ("add_note", {"text": "x", "tags": ["two words"]}),
        ("add_note", {"text": "x", "tags": ["t"] * 21}),
        ("read_note", {"note": 0}),
        ("read_note", {"note": 2**70}),
        ("read_note", {"note": 5}),
        ("update_note", {"note": 5, "text": "x"}),
        ("remove_note", {"note": 5}),
        ("find_notes", {"query": ""}),
        ("list_notes", {"limit": 0}),
    ],
)
async def test_a_wrong_call_is_refused_and_keeps_nothing(box: Toolbox, tool: str, arguments: dict[str, Any]) -> None:
    await refused(box, tool, **arguments)
    assert "nothing found" in await said(box, "list_notes")


async def test_the_longest_note_is_read_whole(box: Toolbox) -> None:
    text = "".join(f"{number:05} word\n" for number in range(9_000))
    await said(box, "add_note", text=text)
    assert (await said(box, "read_note", note=1)).endswith(text)


WRITER = """
import asyncio, sys
from pathlib import Path
from toolkit_servers.ready.notes import notes

async def main():
    box = notes(Path(sys.argv[1]))
    for number in range(25):
        reply = await box.call("add_note", {"text": f"{sys.argv[2]} {number}", "tags": [sys.argv[2]]})
        assert not reply.is_error, reply.text
        reply = await box.call("find_notes", {"query": sys.argv[2]})
        assert not reply.is_error and "note" in reply.text, reply.text

asyncio.run(main())
"""


def test_several_processes_may_write_at_once_from_the_first_moment_on(database: Path) -> None:
    names = ["ada", "bob", "cleo", "dan"]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(database), name], stderr=subprocess.PIPE) for name in names
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors.decode()
    text = asyncio.run(said(notes(database), "list_notes", limit=1))
    assert "1 of 100 notes" in text
    assert all(f"{name} (25)" in text for name in names)
    with closing(sqlite3.connect(database)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_threads_share_a_box(box: Toolbox) -> None:
    await asyncio.gather(*(said(box, "add_note", text=f"text {number}") for number in range(20)))
    assert "of 20 notes" in await said(box, "list_notes", limit=1)


@pytest.mark.parametrize("damage", [b"hello", b"SQLite format 3\0" + b"x" * 5_000, b"\0" * 4_096])
def test_a_damaged_file_is_refused_and_left_as_it_is(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "notes.db"
    file.write_bytes(damage)
    with pytest.raises(TargetError) as caught:
        notes(file)
    assert caught.value.where == (str(file),)
    assert "left as it is" in caught.value.fix
    assert file.read_bytes() == damage


def test_a_page_damaged_in_the_middle_is_found_when_the_notes_are_opened(database: Path) -> None:
    box = notes(database)
    for number in range(30):
        asyncio.run(said(box, "add_note", text=f"{number} " * 1_000))
    with closing(sqlite3.connect(database)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(database.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 20_000] = b"\xff" * 20_000
    database.write_bytes(data)
    with pytest.raises(TargetError, match=r"damaged|malformed"):
        notes(database)
    assert database.read_bytes() == data


def test_a_file_damaged_or_removed_under_way_is_said_and_not_made_anew(box: Toolbox, database: Path) -> None:
    asyncio.run(said(box, "add_note", text="one"))
    for extra in database.parent.iterdir():
        extra.unlink()
    assert "gone" in asyncio.run(refused(box, "add_note", text="two"))
    assert not database.exists()
    database.write_bytes(b"something else entirely, and long enough to be looked at" * 20)
    assert "damaged" in asyncio.run(refused(box, "find_notes", query="one"))


def test_another_programs_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE note (id)")
        db.commit()
    before = file.read_bytes()
    with pytest.raises(TargetError, match="another program"):
        notes(file)
    assert file.read_bytes() == before


async def test_a_database_of_a_newer_toolkit_is_refused(box: Toolbox, database: Path) -> None:
    await said(box, "add_note", text="x")
    with closing(sqlite3.connect(database)) as db:
        db.execute("PRAGMA user_version = 2")
    with pytest.raises(TargetError, match="newer"):
        notes(database)


async def test_a_program_that_holds_the_file_is_named_not_waited_for_without_end(
    box: Toolbox, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit_servers.ready._notes_database._BUSY_SECONDS", 0.05)
    await said(box, "list_notes")
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        assert "in use by another program" in await refused(box, "add_note", text="x")
        assert "nothing found" in await said(box, "find_notes", query="x")  # readers are not kept waiting
        db.execute("ROLLBACK")
    await said(box, "add_note", text="x")


def test_nothing_is_made_until_a_tool_is_called(database: Path) -> None:
    box = notes(database)
    assert [entry["name"] for entry in box.listing()] == list(box.tools)
    assert not database.parent.exists()
    asyncio.run(said(box, "list_notes"))
    assert database.is_file()


async def test_an_empty_file_is_filled_at_the_first_call(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    file.touch()
    box = notes(file)
    assert file.stat().st_size == 0
    assert await said(box, "add_note", text="x") == "Kept as note 1."


def test_a_place_where_no_file_can_be_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TargetError, match="Not a directory"):
        notes(tmp_path / "file" / "notes.db")


async def test_a_place_that_was_taken_meanwhile_is_told_the_model(tmp_path: Path) -> None:
    box = notes(tmp_path / "memory" / "notes.db")
    (tmp_path / "memory").touch()
    assert "the notes cannot be used: " in await refused(box, "add_note", text="x")


def test_without_a_name_the_notes_lie_in_the_users_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLKIT_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    asyncio.run(said(notes(), "list_notes"))
    assert (tmp_path / "toolkit" / "notes.db").is_file()
    monkeypatch.setenv("TOOLKIT_HOME", str(tmp_path / "own"))
    asyncio.run(said(notes(), "list_notes"))
    assert (tmp_path / "own" / "notes.db").is_file()
