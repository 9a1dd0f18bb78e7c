"""Both stores keep the SDK's contract for session stores."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk.testing import run_session_store_conformance

from toolkit.runs import FileSessionStore, SqliteSessionStore

KEY: Any = {"project_key": "p", "session_id": "s"}


@pytest.fixture(params=["files", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    numbers = itertools.count()
    if request.param == "files":
        return lambda: FileSessionStore(tmp_path / str(next(numbers)))
    return lambda: SqliteSessionStore(tmp_path / f"{next(numbers)}.db")


async def test_the_sdks_own_conformance_suite_passes(make_store: Callable[[], Any]) -> None:
    await run_session_store_conformance(make_store)


async def test_an_entry_with_an_id_is_kept_once_and_one_without_every_time(make_store: Callable[[], Any]) -> None:
    store = make_store()
    await store.append(KEY, [{"type": "user", "uuid": "1"}, {"type": "tag"}])
    await store.append(KEY, [{"type": "user", "uuid": "1"}, {"type": "tag"}, {"type": "user", "uuid": "2"}])
    loaded = await store.load(KEY)
    assert [(entry["type"], entry.get("uuid")) for entry in loaded] == [
        ("user", "1"),
        ("tag", None),
        ("tag", None),
        ("user", "2"),
    ]


async def test_parallel_appends_lose_nothing(make_store: Callable[[], Any]) -> None:
    store = make_store()
    await asyncio.gather(*(store.append(KEY, [{"type": "user", "uuid": str(n)}]) for n in range(30)))
    assert len(await store.load(KEY)) == 30


async def test_many_who_open_a_new_database_at_once_all_get_it(tmp_path: Path) -> None:
    for number in range(20):
        stores = [SqliteSessionStore(tmp_path / f"{number}.db") for _ in range(8)]
        await asyncio.gather(*(store.append(KEY, [{"type": "user"}]) for store in stores))
        assert len(await stores[0].load(KEY) or []) == 8


async def test_a_database_that_was_removed_is_made_again(tmp_path: Path) -> None:
    store = SqliteSessionStore(tmp_path / "db")
    await store.append(KEY, [{"type": "user"}])
    (tmp_path / "db").unlink()
    assert await store.load(KEY) is None


def _damage(folder: Path) -> None:
    [file] = folder.rglob("*.jsonl")
    with file.open("ab") as out:
        out.write(b'{"type": "user", "uu')


async def test_a_line_cut_short_by_a_kill_is_dropped_and_the_rest_kept(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    await store.append(KEY, [{"type": "user", "uuid": "1"}])
    _damage(tmp_path)
    assert [entry["uuid"] for entry in await store.load(KEY) or []] == ["1"]
    await store.append(KEY, [{"type": "user", "uuid": "2"}])
    assert len(await store.load(KEY) or []) == 2


def empty_what_holds(text: bytes, folder: Path) -> None:
    for path in folder.rglob("*.jsonl"):
        if text in path.read_bytes():
            path.write_bytes(b"")


async def test_a_writer_killed_before_its_first_line_breaks_no_other_session(tmp_path: Path) -> None:
    store = FileSessionStore(tmp_path)
    await store.append({"project_key": "p", "session_id": "good"}, [{"type": "user", "uuid": "1"}])
    await store.append({"project_key": "p", "session_id": "bad"}, [{"type": "user", "uuid": "1"}])
    empty_what_holds(b"bad", tmp_path)
    assert [listed["session_id"] for listed in await store.list_sessions("p")] == ["good"]
    assert await store.list_subkeys({"project_key": "p", "session_id": "bad"}) == []
    await store.append({"project_key": "p", "session_id": "bad"}, [{"type": "user", "uuid": "2"}])
    assert await store.load({"project_key": "p", "session_id": "bad"}) == [{"type": "user", "uuid": "2"}]


async def test_two_writers_of_one_transcript_know_of_each_other(tmp_path: Path) -> None:
    one, two = FileSessionStore(tmp_path), FileSessionStore(tmp_path)
    for store, ids in ((one, "a"), (two, "ab"), (one, "bc"), (two, "cd")):
        await store.append(KEY, [{"type": "user", "uuid": id} for id in ids])
    assert [entry["uuid"] for entry in await one.load(KEY) or []] == ["a", "b", "c", "d"]
