"""Whoever swaps folders for links while changes are applied reaches nothing outside."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.workspace.copies import make_tree, memory_folder, prepare, tree_of
from toolkit.errors import WorkspaceError
from toolkit.workspace import WorkspaceSection

ROUNDS = 150
_EXCHANGE = 2


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    """Exchange two names as fast as the kernel can, until the block ends; then put them back."""
    renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    stop = threading.Event()
    count = 0

    def swap() -> None:
        nonlocal count
        while not stop.is_set() or count % 2:
            if renameat2(-100, os.fsencode(one), -100, os.fsencode(other), _EXCHANGE) != 0:
                raise OSError(ctypes.get_errno(), "renameat2")
            count += 1

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
    assert count > 10


@pytest.fixture
def scene() -> Iterator[tuple[WorkspaceSection, Path]]:
    with memory_folder() as folder:
        top = Path(folder)
        ws = prepare(make_tree(top / "host", {"docs/a.txt": b"a\n", "docs/b.txt": b"b\n"}))
        (ws.temp_dir / "src/docs/a.txt").write_text("agent\n")
        (ws.temp_dir / "src/docs/new.txt").write_text("agent\n")
        (ws.temp_dir / "src/docs/b.txt").unlink()
        yield ws, make_tree(top / "outside", {"a.txt": b"a\n", "b.txt": b"b\n"})


def test_a_host_folder_swapped_for_a_link_never_leads_a_write_outside(scene: tuple[WorkspaceSection, Path]) -> None:
    ws, outside = scene
    host = ws.temp_dir.parent / "host"
    (host / "link").symlink_to(outside)
    before = tree_of(outside)
    with swapping(host / "docs", host / "link"):
        for _ in range(ROUNDS):
            with suppress(WorkspaceError):
                ws.apply()
            with suppress(WorkspaceError):
                ws.undo_apply()
            assert tree_of(outside) == before
    assert tree_of(outside) == before


def test_a_workspace_folder_swapped_for_a_link_never_brings_foreign_bytes(scene: tuple[WorkspaceSection, Path]) -> None:
    ws, outside = scene
    (outside / "a.txt").write_bytes(b"SECRET\n")
    host, src = ws.temp_dir.parent / "host", ws.temp_dir / "src"
    (src / "link").symlink_to(outside)
    with swapping(src / "docs", src / "link"):
        for _ in range(ROUNDS):
            with suppress(WorkspaceError):
                assert b"SECRET" not in ws.changes().patch()
            with suppress(WorkspaceError):
                ws.apply(paths=["src/docs/a.txt"])
            assert all(b"SECRET" not in data for _, data in tree_of(host).values())
