"""A large copy is shared with a second process: the result is the same, whatever becomes of that."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from toolkit.workspace import HostMount, Progress, WorkspaceBudgetError, WorkspaceError, WorkspaceSection
from toolkit_workspace.copying import second as _second
from toolkit_workspace.copying.second import Second

FOLDERS, FILES, ENOUGH = 25, 20, 200


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """More files than one process copies alone, odd ones among them."""
    monkeypatch.setattr(_second, "ENOUGH_FILES", ENOUGH)
    top = tmp_path / "project"
    for number in range(FOLDERS):
        folder = top / f"a{number % 7}" / f"b{number}"
        folder.mkdir(parents=True)
        for file in range(FILES):
            (folder / f"f{file:03}").write_bytes(b"%d " % number * file)
        (folder / "large").write_bytes(bytes(300_000))
        os.link(folder / "f001", folder / "other")
        (folder / "link").symlink_to("f002")
        os.utime(folder, ns=(number, number * 1_000_000_007))
    (top / "a0" / b"not\xffutf8".decode(errors="surrogateescape")).write_bytes(b"odd")
    for number in range(200):
        (top / f"many{number:03}").write_bytes(b"many")
    (tmp_path / "work").mkdir()
    return top


def _section(
    project: Path, max_bytes: int | None = None, progress: Callable[[Progress], None] | None = None
) -> WorkspaceSection:
    mount = HostMount(project, max_bytes=max_bytes)
    return WorkspaceSection([mount], [project], parent=project.parent / "work", progress=progress)


def _tree(top: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for folder, _, names in os.walk(top):
        for path in (Path(folder), *(Path(folder, name) for name in names)):
            st = path.lstat()
            content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
            found[str(path.relative_to(top))] = (st.st_mode, st.st_mtime_ns, content)
    del found["."]
    return found


class Watched:
    """How many names the second process got, and the process itself."""

    def __init__(self) -> None:
        self.names = 0
        self.seconds: list[Second] = []


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    seen = Watched()
    start, ask = Second.start, Second.ask

    def counted(self: Second, names: Sequence[str], parent: int, into: int, room: int) -> bool:
        is_asked = ask(self, names, parent, into, room)
        seen.names += len(names) * is_asked
        return is_asked

    def kept() -> Second | None:
        second = start()
        assert second is not None, "needs two processors"
        seen.seconds.append(second)
        return second

    monkeypatch.setattr(Second, "ask", counted)
    monkeypatch.setattr(Second, "start", kept)
    return seen


def _has_ended(second: Second) -> bool:
    return second._process.returncode is not None


def test_the_copy_is_the_same_as_that_of_one_process(
    project: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _section(project) as shared:
        assert 0 < watched.names < FOLDERS * FILES
        assert _has_ended(watched.seconds[0])
        assert not shared.changes()
        text, tree, left = shared.render(), _tree(shared.temp_dir / "project"), shared.left_out
    monkeypatch.setattr(_second, "ENOUGH_FILES", 1 << 30)
    with _section(project) as alone:
        assert (alone.render(), _tree(alone.temp_dir / "project"), alone.left_out) == (text, tree, left)
    assert tree == _tree(project)
    assert len(watched.seconds) == 1


def test_a_second_process_that_is_killed_costs_nothing_but_time(
    project: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    ask = Second.ask

    def fatal(self: Second, *what: object) -> bool:
        nonlocal asked
        asked += 1
        answer = ask(self, *what)  # type: ignore[arg-type]
        if asked == 2:
            os.kill(self._process.pid, signal.SIGKILL)
        return answer

    monkeypatch.setattr(Second, "ask", fatal)
    with _section(project) as section:
        assert asked >= 2
        assert _has_ended(watched.seconds[0])
        assert _tree(section.temp_dir / "project") == _tree(project)
        assert not section.changes()


@pytest.mark.parametrize("program", ["", "/bin/false", "/nowhere/python3", "/bin/python-that-is-none"])
def test_a_copy_needs_no_second_process(project: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(sys, "executable", program)
    with _section(project) as section:
        assert _tree(section.temp_dir / "project") == _tree(project)


def test_something_else_than_python_is_found_out(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python3"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with _section(project) as section:
        assert _tree(section.temp_dir / "project") == _tree(project)


def test_a_budget_is_exact_with_two_processes(project: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit_workspace.copying.copy._TICK_SECONDS", 0.0)
    plan = _section(project).plan()
    needed = plan.mounts[0].needed
    with _section(project, max_bytes=needed) as section:
        assert _tree(section.temp_dir / "project") == _tree(project)
    with _section(project, max_bytes=needed + (1 << 30)) as section:
        assert _tree(section.temp_dir / "project") == _tree(project)
    assert watched.names > 0

    def grow(_: Progress) -> None:
        (project / "a6/b6/large").write_bytes(bytes(300_001))

    with pytest.raises(WorkspaceBudgetError) as caught:
        _section(project, max_bytes=needed, progress=grow).prepare()
    assert caught.value.needed > needed
    assert list((project.parent / "work").iterdir()) == []


def test_scarce_handles_are_not_used_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: Watched) -> None:
    for number in range(150):
        (tmp_path / "project" / f"d{number}").mkdir(parents=True)
        (tmp_path / "project" / f"d{number}/file").write_bytes(b"one")
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(_second, "ENOUGH_FILES", 0)
    monkeypatch.setattr(_second, "_FEWEST_HANDLES", 0)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = [path.name for path in Path("/proc/self/fd").iterdir()]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, used)) + 40, before[1]))
    try:
        with _section(tmp_path / "project") as section:
            assert _tree(section.temp_dir / "project") == _tree(tmp_path / "project")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert watched.names > 0
    assert [path.name for path in Path("/proc/self/fd").iterdir()] == used


def test_an_error_in_the_second_process_leaves_nothing_behind(
    project: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit_workspace.copying.second._HOW", (os.O_RDONLY, os.O_WRONLY, 1 << 18))
    with pytest.raises(WorkspaceError, match="cannot be filled: No such file"):
        _section(project).prepare()
    assert _has_ended(watched.seconds[0])
    assert list((project.parent / "work").iterdir()) == []


_PARENT = """
import os, signal
from toolkit_workspace.copying.second import Second
second = Second.start()
print(second._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_ends_with_its_parent() -> None:
    parent = subprocess.run([sys.executable, "-c", _PARENT], capture_output=True, text=True, check=False, timeout=30)
    status = Path("/proc") / parent.stdout.strip() / "status"
    end = time.monotonic() + 20
    while status.exists() and "State:\tZ" not in status.read_text():
        assert time.monotonic() < end
        time.sleep(0.01)
