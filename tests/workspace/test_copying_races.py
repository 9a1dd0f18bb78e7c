"""A tree that changes under the copy: hundreds of copies against a process that swaps and writes without rest."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import toolkit._base.handles as handles
from tests.workspace.hostile import SECRET, Place, a_place
from toolkit.workspace import HostMount, WorkspaceBudgetError, WorkspaceError, WorkspaceSection

pytestmark = pytest.mark.usefixtures("crew")

_EXCHANGE = 2


def _swap(one: Path, other: Path) -> Callable[[], None]:
    """Exchange two names in one step, as renameat2 does."""
    rename = ctypes.CDLL(None, use_errno=True).renameat2
    arguments = (-100, os.fsencode(one), -100, os.fsencode(other), _EXCHANGE)

    def swap() -> None:
        if rename(*arguments):
            os._exit(3)

    return swap


@contextmanager
def _meanwhile(work: Callable[[], None]) -> Iterator[Callable[[], int]]:
    """Run `work` over and over in another process; gives how often it ran so far, in thousands and more."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    child = os.fork()
    if child == 0:
        while True:
            for _ in range(100):
                work()
            os.write(writing, b".")
    rounds = 0

    def count() -> int:
        nonlocal rounds
        with suppress(BlockingIOError):
            rounds += len(os.read(reading, 1 << 16))
        return rounds * 100

    try:
        yield count
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


@pytest.fixture
def place() -> Iterator[Place]:
    with a_place(plain=False) as made:
        made.make()
        yield made


def _copies(place: Place, times: int, **options: int) -> Iterator[WorkspaceSection]:
    for _ in range(times):
        section = WorkspaceSection(
            [HostMount(place.project, max_bytes=options.get("max_bytes"))],
            [place.project],
            parent=place.parent,
            keep_bases=False,
        )
        with section:
            yield section


def _holds_secret(top: Path) -> bool:
    return any(path.is_file() and path.read_bytes() == SECRET for path in top.rglob("*"))


@pytest.mark.parametrize("with_openat2", [True, False])
def test_a_folder_swapped_with_a_link_out_never_leaks(
    place: Place, monkeypatch: pytest.MonkeyPatch, with_openat2: bool
) -> None:
    monkeypatch.setattr(handles, "HAS_OPENAT2", with_openat2 and handles.HAS_OPENAT2)
    (place.project / "folder").mkdir()
    (place.project / "folder/inner.txt").write_bytes(b"mine")
    (place.project / "z").symlink_to("../outside/folder")
    with _meanwhile(_swap(place.project / "folder", place.project / "z")) as swapped:
        for section in _copies(place, 250):
            assert not _holds_secret(section.temp_dir)
        assert swapped() > 250


def test_a_swapped_parent_never_leaks_what_is_mounted_below_it(place: Place) -> None:
    (place.project / "folder").mkdir()
    (place.project / "folder/inner.txt").write_bytes(b"mine")
    (place.project / "z").symlink_to("../outside/folder")
    section = WorkspaceSection(
        [HostMount(place.project / "folder")], [place.project], parent=place.parent, keep_bases=False
    )
    refused = 0
    with _meanwhile(_swap(place.project / "folder", place.project / "z")) as swapped:
        for _ in range(300):
            try:
                with section:
                    assert not _holds_secret(section.temp_dir)
            except WorkspaceError:
                refused += 1
        assert swapped() > 300
    assert refused < 300
    assert list(place.parent.iterdir()) == []


def test_a_file_swapped_with_a_fifo_never_hangs(place: Place) -> None:
    (place.project / "file").write_bytes(b"mine")
    os.mkfifo(place.project / "fifo")
    with _meanwhile(_swap(place.project / "file", place.project / "fifo")) as swapped:
        for section in _copies(place, 250):
            for path in section.temp_dir.rglob("*"):
                assert path.is_dir() or path.read_bytes() in (b"mine", b"plain")
        assert swapped() > 250


def test_a_file_swapped_with_a_link_out_never_leaks(place: Place) -> None:
    (place.project / "file").write_bytes(b"mine")
    (place.project / "link").symlink_to("../outside/secret.txt")
    with _meanwhile(_swap(place.project / "file", place.project / "link")) as swapped:
        for section in _copies(place, 250):
            assert not _holds_secret(section.temp_dir)
        assert swapped() > 250


def test_a_growing_file_never_passes_the_budget(place: Place) -> None:
    log = place.project / "log"
    log.write_bytes(b"")

    def grow() -> None:
        with log.open("ab") as file:
            file.write(b"x" * 50)
        if log.stat().st_size > 40_000:
            os.truncate(log, 0)

    over = 0
    with _meanwhile(grow):
        for _ in range(300):
            try:
                for section in _copies(place, 1, max_bytes=20_000):
                    assert sum(path.stat().st_size for path in section.temp_dir.rglob("*") if path.is_file()) <= 20_000
            except WorkspaceBudgetError:
                over += 1
                assert list(place.parent.iterdir()) == []
    assert 0 < over < 300


def test_files_that_vanish_and_come_are_no_error(place: Place) -> None:
    names = [place.project / f"f{number}" for number in range(20)]

    def churn() -> None:
        for name in names:
            name.write_bytes(b"y")
        for name in names:
            name.unlink()

    with _meanwhile(churn):
        for section in _copies(place, 200):
            assert (section.temp_dir / "project/plain.txt").is_file()
