"""A watched workspace follows the host, never at the agent's cost, and tells what the agent does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from toolkit.workspace import HostMount, WatchEvent, Watching, WorkspaceError, WorkspaceSection


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    (place / "src").mkdir(parents=True)
    (place / "src/a.txt").write_text("one", encoding="utf-8")
    (place / "src/b.txt").write_text("b", encoding="utf-8")
    (tmp_path / "work").mkdir()
    return place


@asynccontextmanager
async def _watched(
    project: Path, direction: str = "host→workspace", **options: object
) -> AsyncIterator[tuple[WorkspaceSection, Path, Watching]]:
    mount = HostMount(project, **options)  # type: ignore[arg-type]
    with WorkspaceSection([mount], [project], parent=project.parent / "work") as section:
        # A full look only once an hour: what these tests see comes from the watch itself.
        async with section.watch(direction, rescan_seconds=3600) as watching:  # type: ignore[arg-type]
            yield section, section.temp_dir / "project", watching


async def _until(holds: Callable[[], bool]) -> None:
    """Wait for a fact, a minute at most: the machine may have other things to do."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - a fact about files: nobody sets an event for it
            await asyncio.sleep(0.01)


async def _event(watching: Watching, kind: str, path: str) -> WatchEvent:
    async with asyncio.timeout(60):
        async for event in watching:
            if (event.kind, event.path) == (kind, path):
                return event
    raise AssertionError("the events ended")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


async def test_a_host_edit_arrives_and_is_no_change_of_the_agents(project: Path) -> None:
    async with _watched(project) as (section, copy, watching):
        (project / "src/a.txt").write_text("two", encoding="utf-8")
        await _event(watching, "copied", "project/src/a.txt")
        assert _text(copy / "src/a.txt") == "two"
        assert (copy / "src/a.txt").stat().st_mtime_ns == (project / "src/a.txt").stat().st_mtime_ns
        assert list(section.changes()) == []
        (copy / "src/b.txt").write_text("agent", encoding="utf-8")
        assert [change.path for change in section.changes()] == ["project/src/b.txt"]


async def test_new_and_removed_files_folders_and_links_follow(project: Path) -> None:
    async with _watched(project) as (section, copy, watching):
        (project / "new/deep").mkdir(parents=True)
        (project / "new/deep/f.txt").write_text("f", encoding="utf-8")
        (project / "link").symlink_to("new/deep/f.txt")
        await _until(lambda: _text(copy / "link") == "f")
        (project / "src/b.txt").unlink()
        (project / "link").unlink()
        await _event(watching, "removed", "project/src/b.txt")
        await _until(lambda: not (copy / "src/b.txt").exists() and not (copy / "link").is_symlink())
        (project / "new/deep/f.txt").unlink()
        (project / "new/deep").rmdir()
        await _event(watching, "removed", "project/new/deep")  # told once the record knows it too
        assert not (copy / "new/deep").exists()
        assert list(section.changes()) == []


async def test_a_burst_of_thousands_of_files_in_fresh_folders_arrives_whole(project: Path) -> None:
    async with _watched(project) as (_, copy, _watching):
        for number in range(100):
            folder = project / f"burst/{number % 10}/{number}"
            folder.mkdir(parents=True)
            for inner in range(25):
                (folder / f"{inner}.txt").write_text(f"{number}/{inner}", encoding="utf-8")
        await _until(lambda: len(list((copy / "burst").rglob("*.txt"))) == 2_500)
        assert _text(copy / "burst/7/77/24.txt") == "77/24"


async def test_a_folder_moved_in_with_all_its_files_arrives(project: Path) -> None:
    outside = project.parent / "outside"
    (outside / "x/y").mkdir(parents=True)
    (outside / "x/y/z.txt").write_text("z", encoding="utf-8")
    async with _watched(project) as (_, copy, _watching):
        outside.rename(project / "moved")
        await _until(lambda: _text(copy / "moved/x/y/z.txt") == "z")


async def test_a_file_the_agent_changed_is_never_overwritten(project: Path) -> None:
    async with _watched(project) as (_, copy, watching):
        (copy / "src/a.txt").write_text("agent", encoding="utf-8")
        (project / "src/a.txt").write_text("host", encoding="utf-8")
        await _event(watching, "conflict", "project/src/a.txt")
        (copy / "src/b.txt").unlink()
        (project / "src/b.txt").write_text("host", encoding="utf-8")
        await _event(watching, "conflict", "project/src/b.txt")
        (copy / "made.txt").write_text("agent", encoding="utf-8")
        (project / "made.txt").write_text("host", encoding="utf-8")
        await _event(watching, "conflict", "project/made.txt")
        await watching.settle()
        assert _text(copy / "src/a.txt") == "agent"
        assert _text(copy / "made.txt") == "agent"
        assert not (copy / "src/b.txt").exists()


async def test_what_the_host_removes_stays_if_the_agent_changed_it(project: Path) -> None:
    async with _watched(project) as (_, copy, watching):
        (copy / "src/a.txt").write_text("agent", encoding="utf-8")
        (copy / "src/own.txt").write_text("agent", encoding="utf-8")
        for name in ("a.txt", "b.txt"):
            (project / "src" / name).unlink()
        (project / "src").rmdir()
        await _event(watching, "conflict", "project/src/a.txt")
        await watching.settle()
        assert sorted(path.name for path in (copy / "src").iterdir()) == ["a.txt", "own.txt"]


async def test_a_folder_the_agent_removed_does_not_come_back(project: Path) -> None:
    async with _watched(project) as (_, copy, watching):
        for path in (copy / "src").iterdir():
            path.unlink()
        (copy / "src").rmdir()
        (project / "src/a.txt").write_text("host", encoding="utf-8")
        await _event(watching, "conflict", "project/src/a.txt")
        await watching.settle()
        assert not (copy / "src").exists()


async def test_rules_and_safety_hold_for_what_comes_later(project: Path) -> None:
    (project.parent / "secret").write_text("secret", encoding="utf-8")
    async with _watched(project, gitignore=True, exclude_glob="*.pyc") as (_, copy, watching):
        (project / "x.pyc").write_text("no", encoding="utf-8")
        (project / "out").symlink_to("../secret")
        os.mkfifo(project / "fifo")
        (project / "yes.txt").write_text("yes", encoding="utf-8")
        await _event(watching, "copied", "project/yes.txt")
        (project / ".gitignore").write_text("b.txt\n", encoding="utf-8")
        await _event(watching, "removed", "project/src/b.txt")
        await watching.settle()
        assert sorted(path.name for path in copy.iterdir()) == [".gitignore", "src", "yes.txt"]


async def test_the_budget_holds_for_what_comes_later(project: Path) -> None:
    async with _watched(project, max_bytes=100) as (_, copy, watching):
        (project / "large").write_bytes(b"x" * 97)
        await _event(watching, "over budget", "project/large")
        (project / "large").write_bytes(b"x" * 96)
        await _event(watching, "copied", "project/large")
        assert (copy / "large").stat().st_size == 96


async def test_a_name_that_is_not_utf8_arrives_and_the_watch_lives_on(project: Path) -> None:
    odd = os.fsdecode(b"caf\xe9")
    async with _watched(project) as (_, copy, _watching):
        (project / odd).write_text("odd", encoding="utf-8")
        await _until(lambda: _text(copy / odd) == "odd")
        (project / "after.txt").write_text("after", encoding="utf-8")
        await _until(lambda: _text(copy / "after.txt") == "after")


async def test_a_single_file_is_kept_in_step(project: Path) -> None:
    with WorkspaceSection([HostMount(project / "src/a.txt")], [project]) as section:
        async with section.watch(rescan_seconds=3600) as watching:
            (project / "src/a.txt").write_text("two", encoding="utf-8")
            await _event(watching, "copied", "a.txt")
            assert _text(section.temp_dir / "a.txt") == "two"
            (project / "src/a.txt").unlink()
            await _event(watching, "removed", "a.txt")


async def test_the_slow_look_catches_what_no_event_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def deaf(*_: object, **__: object) -> AsyncIterator[set[tuple[int, str]]]:
        await asyncio.Event().wait()
        yield set()

    monkeypatch.setattr("watchfiles.awatch", deaf)
    monkeypatch.setattr("toolkit_workspace.watching.watch._AGAIN_SECONDS", ())
    with WorkspaceSection([HostMount(project)], [project]) as section:
        async with section.watch(rescan_seconds=0.3) as watching:
            await watching.settle()
            (project / "late.txt").write_text("late", encoding="utf-8")
            await _event(watching, "copied", "project/late.txt")


async def test_the_agents_work_is_told_live(project: Path) -> None:
    async with _watched(project, "workspace→events") as (_, copy, watching):
        (copy / "src/a.txt").write_text("agent", encoding="utf-8")
        await _event(watching, "modified", "project/src/a.txt")
        (copy / "new/deep").mkdir(parents=True)
        (copy / "new/deep/f.txt").write_text("f", encoding="utf-8")
        await _event(watching, "added", "project/new/deep/f.txt")
        (copy / "out").symlink_to("/etc")
        await _event(watching, "added", "project/out")
        (copy / "src/b.txt").unlink()
        await _event(watching, "deleted", "project/src/b.txt")
        (copy / "new").rename(copy.parent / "gone")
        await _event(watching, "deleted", "project/new/deep/f.txt")
        assert _text(project / "src/a.txt") == "one"


async def test_the_events_end_with_the_watch(project: Path) -> None:
    async with _watched(project) as (_, _copy, watching):
        pass
    assert [event async for event in watching] == []


async def test_a_direction_that_does_not_exist_is_an_error(project: Path) -> None:
    with WorkspaceSection([HostMount(project)], [project]) as section, pytest.raises(WorkspaceError):
        section.watch("sideways")  # type: ignore[arg-type]
