"""The ready-made files against trees and neighbours that want it out of its root."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.ready._client import names_in, refused, said
from toolkit import Toolbox
from toolkit._base import handles as _handles
from toolkit_servers.ready.files import files

SECRET = "the-secret-of-the-host"


@pytest.fixture(params=["openat2", "steps"])
def outside(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the host beside the root, with a secret in it; with the kernel's help and without."""
    if request.param == "steps":
        monkeypatch.setattr(_handles, "HAS_OPENAT2", False)
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text(SECRET)
    (tmp_path / "root").mkdir()
    return folder


@pytest.fixture
def root(outside: Path) -> Path:
    return outside.parent / "root"


@pytest.fixture
def box(root: Path) -> Toolbox:
    return files(root)


def _untouched(outside: Path) -> bool:
    return {entry.name: entry.read_text() for entry in outside.iterdir()} == {"secret": SECRET}


WAYS_OUT = [
    "../outside/secret",
    "a/../../outside/secret",
    "/etc/passwd",
    "//etc/passwd",
    "absolute",
    "relative",
    "folder/secret",
    "chain",
    "inner/up/outside/secret",
    "magic/etc/passwd",
    "loop",
    "dangling",
    "~/.bashrc",
    "",
    ".",
    "x" * 300,
    "y/" * 3_000 + "z",
]


@pytest.fixture
def traps(root: Path, outside: Path) -> None:
    (root / "absolute").symlink_to(outside / "secret")
    (root / "relative").symlink_to("../outside/secret")
    (root / "folder").symlink_to(outside)
    (root / "chain").symlink_to("relative")
    (root / "inner").mkdir()
    (root / "inner" / "up").symlink_to("../..")
    (root / "magic").symlink_to("/proc/self/root")
    (root / "loop").symlink_to("loop")
    (root / "dangling").symlink_to("../outside/new")
    (root / "a").mkdir()


@pytest.mark.usefixtures("traps")
@pytest.mark.parametrize("path", WAYS_OUT)
async def test_no_path_leads_out(box: Toolbox, outside: Path, path: str) -> None:
    attempts: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": path}),
        ("read_media", {"path": path}),
        ("edit_file", {"path": path, "edits": [{"old": "secret", "new": "x"}]}),
        ("write_file", {"path": path, "content": "x"}),
        ("move", {"source": "a", "destination": path}),
    ]
    for tool, arguments in attempts:
        reply = await box.call(tool, arguments)
        assert SECRET not in reply.text
        assert "root:x:" not in reply.text
        if tool in ("read_file", "read_media", "edit_file"):
            assert reply.is_error, (tool, reply.text)
        assert _untouched(outside)
    several = await said(box, "read_files", paths=[path])
    assert SECRET not in several


@pytest.mark.usefixtures("traps")
@pytest.mark.parametrize("path", ["folder", "inner/up", "inner/up/outside", "magic", "..", "loop"])
async def test_no_folder_outside_is_listed_or_searched(box: Toolbox, outside: Path, path: str) -> None:
    attempts: list[tuple[str, dict[str, Any]]] = [
        ("list_directory", {"path": path}),
        ("tree", {"path": path}),
        ("glob", {"path": path, "pattern": "*"}),
        ("grep", {"path": path, "pattern": "secret"}),
        ("make_directory", {"path": f"{path}/new"}),
        ("remove", {"path": f"{path}/secret"}),
    ]
    for tool, arguments in attempts:
        await refused(box, tool, **arguments)
    assert _untouched(outside)


@pytest.mark.usefixtures("traps")
async def test_a_search_from_the_root_follows_no_link(box: Toolbox) -> None:
    assert await said(box, "grep", pattern="secret") == "No matches."
    assert "secret" not in await said(box, "glob", pattern="*")
    assert "secret" not in await said(box, "tree", depth=50)


@pytest.mark.usefixtures("traps")
async def test_a_link_within_the_root_may_be_read_but_not_written_through(box: Toolbox, root: Path) -> None:
    (root / "a" / "f").write_text("text")
    (root / "b").symlink_to("a/f")
    (root / "c").symlink_to("a")
    assert await said(box, "read_file", path="b") == "text"
    assert await said(box, "read_file", path="c/f") == "text"
    assert "is a link to a/f" in await refused(box, "write_file", path="b", content="x")
    assert (root / "a" / "f").read_text() == "text"


@pytest.fixture
def specials(root: Path) -> Iterator[list[str]]:
    os.mkfifo(root / "fifo")
    made = ["fifo", "socket"]
    with contextlib.suppress(PermissionError):
        os.mknod(root / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))  # zeros without end
        made.append("device")
    here = os.open(root, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{here}/socket")  # a socket's address is short
        yield made
    os.close(here)


async def test_fifos_sockets_and_devices_are_never_opened(box: Toolbox, specials: list[str]) -> None:
    with anyio.fail_after(60):
        for name in specials:
            for tool in ("read_file", "read_media"):
                assert "never opened" in await refused(box, tool, path=name)
            assert "never opened" in await refused(box, "write_file", path=name, content="x")
            assert "never opened" in await refused(box, "edit_file", path=name, edits=[{"old": "a", "new": "b"}])
            assert "never opened" in await refused(box, "grep", path=name, pattern="x")
        assert await said(box, "grep", pattern="x") == "No matches."
        assert "fifo (FIFO)" in await said(box, "list_directory")


async def test_names_cannot_fake_lines_or_terminal_codes(box: Toolbox, root: Path) -> None:
    (root / "a\nb").write_text("x")
    (root / "\x1b[31mred").write_text("x")
    (root / os.fsdecode(b"caf\xe9")).write_text("x")
    for text in [
        await said(box, "list_directory", details=True),
        await said(box, "tree"),
        await said(box, "glob", pattern="*"),
        await said(box, "grep", pattern="x"),
    ]:
        assert "\x1b" not in text
        assert '"a\\nb"' in text or '"a\\x0ab"' in text
        assert "caf\\xe9" in text
    assert await said(box, "read_file", path="a\nb") == "x"


async def test_a_very_deep_tree_is_walked_and_removed(box: Toolbox, root: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    for _ in range(1_100):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    with os.fdopen(os.open("needle", os.O_CREAT | os.O_WRONLY, dir_fd=here), "w") as file:
        file.write("found")
    os.close(here)
    try:
        assert (await said(box, "grep", pattern="found")).endswith("/needle:1:found")
        await said(box, "remove", path="d", recursive=True)
        assert names_in(root) == []
    finally:  # too deep for pytest's own cleaning up
        top = os.open(root, os.O_RDONLY)
        _handles.remove_tree(top, "d")
        os.close(top)


class Swapper:
    """Exchange two names as fast as possible until told to stop."""

    def __init__(self, one: Path, other: Path) -> None:
        rename = ctypes.CDLL(None).renameat2
        names = os.fsencode(one), os.fsencode(other)
        self._stop = threading.Event()
        self.swaps = 0

        def swap() -> None:
            while not self._stop.is_set():
                self.swaps += rename(-100, names[0], -100, names[1], 2) == 0

        self._thread = threading.Thread(target=swap)

    def __enter__(self) -> Swapper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)


async def test_a_folder_swapped_for_a_link_lets_nothing_in_or_out(box: Toolbox, root: Path, outside: Path) -> None:
    (root / "d").mkdir()
    (root / "d" / "secret").write_text("inside")
    (root / "link").symlink_to(outside)
    results = set[bool]()
    with Swapper(root / "d", root / "link") as swapper:
        for number in range(150):
            attempts: list[tuple[str, dict[str, Any]]] = [
                ("read_file", {"path": "d/secret"}),
                ("grep", {"pattern": "."}),
                ("write_file", {"path": "d/new", "content": "x"}),
                ("edit_file", {"path": "d/secret", "edits": [{"old": "in", "new": "in"}]}),
                ("move", {"source": "d/new", "destination": f"d/moved{number}"}),
                ("remove", {"path": f"d/moved{number}"}),
                ("list_directory", {"path": "d"}),
            ]
            for tool, arguments in attempts:
                reply = await box.call(tool, arguments)
                assert SECRET not in reply.text
                results.add(reply.is_error)
    assert swapper.swaps > 100
    assert results == {True, False}  # the race was really on
    assert _untouched(outside)


async def test_a_file_swapped_for_a_link_or_a_fifo_is_neither_followed_nor_waited_for(
    box: Toolbox, root: Path, outside: Path
) -> None:
    (root / "f").write_text("inside")
    (root / "link").symlink_to(outside / "secret")
    os.mkfifo(root / "fifo")
    attempts: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": "f"}),
        ("grep", {"pattern": "inside|secret"}),
        ("edit_file", {"path": "f", "edits": [{"old": "inside", "new": "inside!"}], "dry_run": True}),
    ]
    with anyio.fail_after(60):
        for other in ("link", "fifo"):
            with Swapper(root / "f", root / other):
                for _ in range(200):
                    for tool, arguments in attempts:
                        assert SECRET not in (await box.call(tool, arguments)).text
            (root / "f").unlink()
            (root / other).unlink()
            (root / "f").write_text("inside")
            (root / "fifo").unlink(missing_ok=True)
            os.mkfifo(root / "fifo")
    assert _untouched(outside)


async def test_removing_a_tree_that_is_swapped_removes_nothing_outside(box: Toolbox, root: Path, outside: Path) -> None:
    with Swapper(root / "x" / "d", root / "x" / "link") as swapper:
        for _ in range(150):
            (root / "x" / "d").mkdir(parents=True)
            (root / "x" / "d" / "f").touch()
            (root / "x" / "link").symlink_to(outside)
            for _ in range(10_000):  # a swap between listing and removing fails one try; how many in a row is luck
                await box.call("remove", {"path": "x", "recursive": True})
                if not (root / "x").exists():
                    break
    assert swapper.swaps > 0
    assert _untouched(outside)
