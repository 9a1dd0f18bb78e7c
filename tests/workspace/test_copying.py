# ruff: noqa: PTH115, PTH208
"""What a copy looks like, what it may cost, and that it is all or nothing."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workspace.hostile import Place, a_place, can_hide, hide, run_as
from toolkit.workspace import HostMount, Progress, WorkspaceBudgetError, WorkspaceError, WorkspaceSection
from toolkit_workspace.selecting import Walk

pytestmark = pytest.mark.usefixtures("crew")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    (tmp_path / "work").mkdir()
    return place


def _section(project: Path, mount: HostMount | None = None, **options: object) -> WorkspaceSection:
    roots = [project]
    return WorkspaceSection([mount or HostMount(project)], roots, parent=project.parent / "work", **options)  # type: ignore[arg-type]


def _is_clean(project: Path) -> bool:
    return list((project.parent / "work").iterdir()) == []


def test_contents_times_and_executable_bits_arrive(project: Path) -> None:
    sizes = [0, 1, 4095, 4096, 262_144, 262_145, 3_000_000]
    for size in sizes:
        (project / f"f{size}").write_bytes(os.urandom(size))
    (project / "d").mkdir()
    (project / "d/run").write_bytes(b"#!")
    (project / "d/run").chmod(0o750)
    os.utime(project / "d/run", ns=(1_000_000_001, 2_000_000_002))
    os.utime(project / "d", ns=(3_000_000_003, 4_000_000_004))
    with _section(project) as section:
        copy = section.temp_dir / "project"
        for size in sizes:
            assert (copy / f"f{size}").read_bytes() == (project / f"f{size}").read_bytes()
        assert stat.S_IMODE((copy / "d/run").stat().st_mode) == 0o750
        assert (copy / "d/run").stat().st_mtime_ns == 2_000_000_002
        assert (copy / "d").stat().st_mtime_ns == 4_000_000_004


def test_holes_stay_holes_between_data(project: Path) -> None:
    with (project / "sparse").open("wb") as file:
        for at in (0, 10_000_000, 20_000_000):
            file.seek(at)
            file.write(b"data" * 1000)
        file.truncate(30_000_000)
    with _section(project, HostMount(project, max_bytes=100_000)) as section:
        copy = section.temp_dir / "project/sparse"
        assert copy.read_bytes() == (project / "sparse").read_bytes()
        assert copy.stat().st_blocks * 512 < 1_000_000


def test_a_hard_link_becomes_a_file_of_its_own(project: Path) -> None:
    (project / "a").write_bytes(b"same")
    os.link(project / "a", project / "b")
    with _section(project) as section:
        (section.temp_dir / "project/a").write_bytes(b"changed")
        assert (section.temp_dir / "project/b").read_bytes() == b"same"
        assert (project / "a").read_bytes() == b"same"
        assert section.left_out == ()


def test_a_budget_is_decided_before_anything_is_made(project: Path) -> None:
    for number in range(8):
        (project / f"f{number}").write_bytes(b"x" * (1000 + number))
    with pytest.raises(WorkspaceBudgetError) as caught:
        _section(project, HostMount(project, max_bytes=8_000)).prepare()
    assert caught.value.max_bytes == 8_000
    assert caught.value.needed == 8_028
    assert caught.value.largest == (("f7", 1007), ("f6", 1006), ("f5", 1005), ("f4", 1004), ("f3", 1003))
    assert _is_clean(project)
    with _section(project, HostMount(project, max_bytes=8_028)) as section:
        assert len(list((section.temp_dir / "project").iterdir())) == 8


def test_a_file_that_grows_after_the_plan_cannot_pass_the_budget(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit_workspace.copying.copy._TICK_SECONDS", 0.0)
    (project / "last").mkdir()
    (project / "last/log").write_bytes(b"x" * 900)

    def grow(_: Progress) -> None:
        (project / "last/log").write_bytes(b"x" * 1_001)

    with pytest.raises(WorkspaceBudgetError) as caught:
        _section(project, HostMount(project, max_bytes=1_000), progress=grow).prepare()
    assert caught.value.largest == (("last/log", 1_001),)
    assert _is_clean(project)


def test_each_mount_has_its_own_budget(project: Path) -> None:
    (project / "f").write_bytes(b"x" * 100)
    mounts = [HostMount(project, "one", max_bytes=100), HostMount(project, "two", max_bytes=99)]
    with pytest.raises(WorkspaceBudgetError):
        WorkspaceSection(mounts, [project], parent=project.parent / "work").prepare()
    assert _is_clean(project)


def test_an_interrupt_removes_what_was_made(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit_workspace.copying.copy._TICK_SECONDS", 0.0)
    for number in range(300):
        (project / f"d{number}").mkdir()
        (project / f"d{number}/f").write_bytes(b"x" * 20_000)
    calls = []

    def interrupt(progress: Progress) -> None:
        calls.append(progress)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        _section(project, progress=interrupt).prepare()
    assert calls
    assert _is_clean(project)


def test_progress_counts_up(project: Path, monkeypatch: pytest.MonkeyPatch, crew: str) -> None:
    monkeypatch.setattr("toolkit_workspace.copying.copy._TICK_SECONDS", 0.0)
    for number in range(20):
        (project / f"d{number:02}").mkdir()
        (project / f"d{number:02}/f").write_bytes(b"1234")
    calls: list[Progress] = []
    with _section(project, progress=calls.append):
        pass
    counts = [call.files for call in calls]
    assert counts == list(range(21)) if crew == "alone" else counts == sorted(counts)
    assert calls[-1].path == "d19"
    assert calls[-1].bytes == 4 * counts[-1]


def _full_disk(place: Place) -> None:
    place.make()
    (place.project / "large").write_bytes(b"x" * 500_000)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    with pytest.raises(WorkspaceError):
        WorkspaceSection([HostMount(place.project)], [place.top], parent=place.parent).prepare()
    assert list(place.parent.iterdir()) == []


def test_a_copy_that_cannot_be_written_leaves_nothing() -> None:
    with a_place(plain=True) as place:
        run_as(True, lambda: _full_disk(place), always_fork=True)


def _small_disk(place: Place) -> None:
    place.make()
    (place.project / "large").write_bytes(os.urandom(3_000_000))
    assert hide(place.parent, os.geteuid(), size=1 << 20)
    with pytest.raises(WorkspaceError) as caught:
        WorkspaceSection([HostMount(place.project)], [place.top], parent=place.parent).prepare()
    said = str(caught.value)
    assert "No space left" in said
    assert f"{place.parent}: 1.0 MB are free, 3.0 MB are needed" in said
    assert "Nothing was left behind" in said
    assert list(place.parent.iterdir()) == []


@pytest.mark.skipif(not can_hide(), reason="this process may not have mounts of its own")
def test_a_full_disk_is_told_with_where_and_how_much() -> None:
    with a_place(plain=False) as place:
        run_as(False, lambda: _small_disk(place), always_fork=True)


def _few_descriptors(place: Place) -> None:
    place.make()
    here = os.open(place.project, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    before = set(os.listdir("/proc/self/fd"))
    most = max(map(int, before)) + 60
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with WorkspaceSection([HostMount(place.project)], [place.top], parent=place.parent) as section:
        assert section.plan().mounts[0].folders == 400
        assert len(section.fingerprint()) == 64
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_deep_tree_needs_few_descriptors_and_loses_none() -> None:
    with a_place(plain=True) as place:
        run_as(True, lambda: _few_descriptors(place), always_fork=True)


def _strict(place: Place) -> None:
    place.make()
    (place.project / "closed").write_bytes(b"x")
    (place.project / "closed").chmod(0)
    with pytest.raises(WorkspaceError):
        WorkspaceSection([HostMount(place.project)], [place.top], parent=place.parent, strict=True).prepare()
    assert list(place.parent.iterdir()) == []


def test_strict_makes_an_unreadable_file_an_error() -> None:
    with a_place(plain=True) as place:
        run_as(True, lambda: _strict(place))


def test_following_copies_what_an_allowed_root_holds(project: Path) -> None:
    shared = project.parent / "shared"
    (shared / "lib").mkdir(parents=True)
    (shared / "lib/code.py").write_bytes(b"code")
    (shared / "one.txt").write_bytes(b"one")
    (project / "lib").symlink_to(shared / "lib")
    (project / "one").symlink_to("../shared/one.txt")
    (project / "own").symlink_to("one")
    (project / "etc").symlink_to("/etc/hostname")
    mount = HostMount(project, follow_symlinks=True, exclude_glob="*.pyc")
    with WorkspaceSection([mount], [project, shared], parent=project.parent / "work") as section:
        copy = section.temp_dir / "project"
        assert (copy / "lib").is_dir()
        assert not (copy / "lib").is_symlink()
        assert (copy / "lib/code.py").read_bytes() == b"code"
        assert (copy / "one").read_bytes() == b"one"
        assert not (copy / "one").is_symlink()
        assert os.readlink(copy / "own") == "one"
        assert "etc" not in os.listdir(copy)
        assert [(one.path, one.why) for _, one in section.left_out] == [("etc", "link leads out")]


def test_following_ends_in_a_loop_of_links(project: Path) -> None:
    other = project.parent / "other"
    other.mkdir()
    (other / "back").symlink_to(project)
    (other / "self").symlink_to(other)
    (other / "parent").symlink_to(project.parent)
    (other / "f").write_bytes(b"f")
    (project / "there").symlink_to(other)
    mount = HostMount(project, follow_symlinks=True)
    with WorkspaceSection([mount], [project.parent], parent=project.parent / "work") as section:
        copy = section.temp_dir / "project"
        assert (copy / "there/f").read_bytes() == b"f"
        assert {(one.path, one.why) for _, one in section.left_out} >= {("there/back", "link loop")}
        assert len(list(copy.rglob("*"))) < 100


def test_two_links_to_one_folder_are_both_followed(project: Path) -> None:
    other = project.parent / "other"
    other.mkdir()
    (other / "f").write_bytes(b"f")
    (project / "one").symlink_to(other)
    (project / "two").symlink_to(other)
    mount = HostMount(project, follow_symlinks=True)
    with WorkspaceSection([mount], [project.parent], parent=project.parent / "work") as section:
        assert (section.temp_dir / "project/one/f").is_file()
        assert (section.temp_dir / "project/two/f").is_file()


def test_a_mount_that_holds_the_workspace_does_not_copy_it_into_itself(project: Path) -> None:
    (project / "f").write_bytes(b"f")
    with WorkspaceSection([HostMount(project)], [project], parent=project) as section:
        assert os.listdir(section.temp_dir / "project") == ["f"]
        assert {one.why for _, one in section.left_out} == {"the workspace itself"}


def _not_writable(_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO), "file")


def _not_readable(walk: Walk) -> None:
    walk.failed(b"file", OSError(errno.EIO, os.strerror(errno.EIO)))


@pytest.mark.parametrize(
    ("fails", "what"), [(_not_writable, "the workspace cannot be filled"), (_not_readable, "file cannot be read")]
)
def test_a_rest_that_cannot_be_removed_is_told_whatever_went_wrong(
    project: Path, monkeypatch: pytest.MonkeyPatch, fails: Callable[[Walk], None], what: str
) -> None:
    monkeypatch.setattr(Walk, "folders", fails)
    with pytest.raises(WorkspaceError) as removed:
        _section(project).prepare()
    assert (removed.value.what.startswith(what), "was left behind (" in removed.value.fix) == (True, False)

    monkeypatch.setattr("toolkit_workspace.workspace.remove_pair", lambda folder, _: _not_writable(folder))
    with pytest.raises(WorkspaceError) as caught:
        _section(project).prepare()
    assert caught.value.what == removed.value.what
    (rest,) = (path for path in (project.parent / "work").iterdir() if not path.name.startswith("."))
    assert f"{rest} was left behind (Input/output error)" in caught.value.fix
