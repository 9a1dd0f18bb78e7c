"""The next workspace of the same mounts costs what changed, and is exactly what a new copy would be."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.workspace.overlays import as_agent, do_something, make_host, needs_overlay, section_of, tree_hash
from toolkit._base.layered import support
from toolkit.errors import WorkspaceBudgetError
from toolkit.workspace import HostMount, WorkspaceSection
from toolkit_workspace.pristine import KeptCopies
from toolkit_workspace.record.record import FRESH_NS

pytestmark = needs_overlay


@pytest.fixture(params=["alone", "with a second process"])
def crew(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether a second process looks at a part of the host, as it does for large trees."""
    if request.param != "alone":
        monkeypatch.setattr("toolkit_workspace.pristine.comparing.ENOUGH_FILES", 0)
    return str(request.param)


def copies_in(home: Path) -> list[Path]:
    return [kept.tree for kept in KeptCopies(home).all()]


def assert_same(host: Path, home: Path, **options: Any) -> None:
    """What is laid over a kept copy is what a copy made now is."""
    over, copy = section_of(host, home, **options), section_of(host, home, backend="copy", **options)
    try:
        assert over.filled_by[0] == "overlay"
        assert over.fingerprint() == copy.fingerprint()
        assert over.render() == copy.render()
        assert over.left_out == copy.left_out
        assert over.secrets == copy.secrets
        assert len(over.changes()) == 0
        ours = {row.path: (row.kind, row.mode, row.target, row.host) for row in over._prepared().record}
        assert ours == {row.path: (row.kind, row.mode, row.target, row.host) for row in copy._prepared().record}
        with as_agent(over) as whole:
            assert _modes(whole) == _modes(copy.temp_dir)
    finally:
        over.cleanup()
        copy.cleanup()


def _modes(top: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for path in top.rglob("*"):
        st = path.lstat()
        found[os.fsdecode(path.relative_to(top))] = (st.st_mode, 0 if path.is_dir() else st.st_mtime_ns)
    return found


@pytest.mark.usefixtures("crew")
@pytest.mark.parametrize("seed", range(12))
def test_after_any_change_of_the_host_it_is_as_a_new_copy(tmp_path: Path, seed: int) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    section_of(host, home).cleanup()
    (tree,) = copies_in(home)
    before, rng = tree_hash(tree), random.Random(seed)
    for _ in range(3):
        for _ in range(rng.randrange(0, 5)):
            do_something(rng, host)
        assert_same(host, home)
    assert copies_in(home) == [tree]
    assert tree_hash(tree) == before


@pytest.mark.parametrize(
    "options",
    [
        {"gitignore": True},
        {"include_glob": ("*.txt",)},
        {"exclude_glob": ("docs/", "*7.txt")},
        {"leave_out_secrets": True},
        {},
    ],
    ids=lambda options: ",".join(options) or "plain",
)
def test_rules_and_credentials_are_those_of_a_new_copy(tmp_path: Path, options: dict[str, Any]) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    (host / ".gitignore").write_text("a/b/\n", encoding="utf-8")
    (host / "docs" / ".npmrc").write_text("registry=x\n", encoding="utf-8")
    section_of(host, home, **options).cleanup()
    assert_same(host, home, **options)
    (host / ".gitignore").write_text("docs/\n", encoding="utf-8")
    (host / "new.txt").write_bytes(b"new")
    assert_same(host, home, **options)
    (host / "docs" / ".npmrc").write_text(
        "//r/:_authToken=npm_abcdefghijklmnopqrstuvwxyz0123456789\n", encoding="utf-8"
    )
    (host / "only-md").mkdir()
    (host / "only-md" / "x.md").write_bytes(b"md")
    assert_same(host, home, **options)
    (host / "only-md" / "x.txt").write_bytes(b"txt")
    (host / "docs" / ".npmrc").write_text("registry=y\n", encoding="utf-8")
    assert_same(host, home, **options)


def test_folders_that_come_along_for_what_is_in_them_are_those_of_a_new_copy(tmp_path: Path) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    section_of(host, home, include_glob=("*.txt",)).cleanup()
    (host / "way" / "to" / "it").mkdir(parents=True)
    (host / "way" / "to" / "it" / "new.txt").write_bytes(b"new")
    (host / "way").chmod(0o700)
    (host / "before").mkdir()
    (host / "a" / "b" / "c" / "other.md").write_bytes(b"not wanted")
    (host / "a").chmod(0o750)
    assert_same(host, home, include_glob=("*.txt",))


def test_a_file_that_cannot_be_told_from_a_later_one_by_its_stamp_is_read(tmp_path: Path) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    fresh = host / "fresh.txt"
    fresh.write_bytes(b"one")
    section_of(host, home).cleanup()
    st = fresh.stat()
    fresh.write_bytes(b"two")
    os.utime(fresh, ns=(st.st_atime_ns, st.st_mtime_ns))
    assert_same(host, home)


@pytest.mark.parametrize("fault", ["it does not start", "it says nothing", "it says nonsense", "it fails"])
def test_a_second_process_that_does_not_help_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    section_of(host, home).cleanup()
    for file in host.rglob("f1*.txt"):
        file.write_bytes(b"changed")
    programs = {
        "it says nothing": "",
        "it says nonsense": "print('nonsense')",
        "it fails": "import marshal, sys; sys.stdout.buffer.write(marshal.dumps([])); sys.exit(1)",
        "it does not start": None,
    }
    program = tmp_path / "other.py"
    if programs[fault] is None:
        monkeypatch.setattr("toolkit_workspace.pristine.comparing.sys.executable", str(tmp_path / "no-python"))
    else:
        program.write_text(str(programs[fault]), encoding="utf-8")
        monkeypatch.setattr("toolkit_workspace.pristine.comparing._stamps.__file__", str(program))
    monkeypatch.setattr("toolkit_workspace.pristine.comparing.ENOUGH_FILES", 0)
    assert_same(host, home)


@pytest.mark.usefixtures("crew")
def test_the_permissions_of_folders_are_those_of_a_new_copy(tmp_path: Path) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    section_of(host, home).cleanup()
    (host / "a").chmod(0o775)
    (host / "docs").chmod(0o777)
    (host / "later").mkdir(mode=0o777)
    (host / "later").chmod(0o777)
    assert_same(host, home)
    before = os.umask(0o027)
    try:
        assert_same(host, home)
    finally:
        os.umask(before)


@pytest.mark.usefixtures("crew")
def test_what_comes_into_an_empty_folder_comes_along(tmp_path: Path) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    (host / "empty" / "inner").mkdir()
    made = (host / "empty" / "inner").stat().st_ctime_ns
    while time.time_ns() - made < 2 * FRESH_NS:  # until its stamp is beyond doubt, a few ticks
        os.sched_yield()
    section_of(host, home).cleanup()
    (host / "empty" / "inner" / "new").write_bytes(b"new")
    assert_same(host, home)


def test_a_folder_swapped_for_a_link_is_not_walked_through(tmp_path: Path) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    section_of(host, home).cleanup()
    (host / "a").rename(tmp_path / "elsewhere")
    (host / "a").symlink_to(tmp_path / "elsewhere")
    with section_of(host, home) as section:
        assert section.filled_by[0] == "overlay"
        with as_agent(section) as whole:
            assert not (whole / "src" / "a").exists()
        assert ("src", "link leads out") in {(mount, one.why) for mount, one in section.left_out}


def test_an_agents_work_is_not_in_the_next_workspace(tmp_path: Path) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    first = section_of(host, home)
    with as_agent(first) as whole:
        (whole / "src" / "planted").write_bytes(b"planted")
        for path in (whole / "src").glob("*.txt"):
            path.unlink()
    assert_same(host, home)
    first.cleanup()


def test_what_came_after_the_kept_copy_and_is_removed_by_an_agent_is_deleted(tmp_path: Path) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    section_of(host, home).cleanup()
    (host / "docs" / "later.txt").write_bytes(b"later")
    (host / "later" / "inner").mkdir(parents=True)
    for name in ("later/inner/file", "later/gone", "later/stays"):
        (host / name).write_bytes(b"later, too")
    (host / "later-link").symlink_to("docs")
    shutil.rmtree(host / "näme")
    (host / "näme").write_bytes(b"a file now")
    over, copy = section_of(host, home), section_of(host, home, backend="copy")
    with as_agent(over) as whole:
        for top in (whole / "src", copy.temp_dir / "src"):
            for name in ("docs/later.txt", "later/gone", "later-link", "näme"):
                (top / name).unlink()
            shutil.rmtree(top / "later" / "inner")
    assert over.changes().to_json() == copy.changes().to_json()
    assert {change.path for change in over.changes() if change.kind == "deleted"} == {
        *(f"src/{name}" for name in ("docs/later.txt", "later-link", "näme")),
        *(f"src/later/{name}" for name in ("gone", "inner", "inner/file")),
    }
    over.release()
    again = WorkspaceSection.open(over.temp_dir)
    assert again.changes().to_json() == copy.changes().to_json()
    assert again.make_whole()
    assert again.changes().to_json() == copy.changes().to_json()
    again.apply()
    assert not (host / "later" / "inner").exists()
    assert (host / "later" / "stays").exists()
    again.cleanup()
    copy.cleanup()


def test_what_an_agent_added_and_then_removed_goes_from_the_host_again(tmp_path: Path) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    with section_of(host, home) as section:
        with as_agent(section) as whole:
            (whole / "src" / "new").mkdir()
            (whole / "src" / "new" / "file").write_bytes(b"new")
        section.apply()
        assert (host / "new" / "file").exists()
        with as_agent(section) as whole:
            shutil.rmtree(whole / "src" / "new")
        assert {change.path for change in section.changes()} == {"src/new", "src/new/file"}
        section.apply()
        assert not (host / "new").exists()


def test_two_workspaces_over_one_copy_do_not_see_each_other(tmp_path: Path) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    one, other = section_of(host, home), section_of(host, home)
    assert one.layers is not None
    assert other.layers is not None
    assert one.layers[0] == other.layers[0]
    with as_agent(one) as first, as_agent(other) as second:
        (first / "src" / "docs" / "mine").write_bytes(b"mine")
        assert not (second / "src" / "docs" / "mine").exists()
    assert len(other.changes()) == 0
    one.cleanup()
    other.cleanup()


def test_a_budget_holds_the_second_time_too(tmp_path: Path) -> None:
    host, home = tmp_path / "host", tmp_path / "home"
    host.mkdir()
    (host / "a").write_bytes(b"x" * 500)
    section_of(host, home, max_bytes=1000).cleanup()
    (host / "b").write_bytes(b"x" * 600)
    with pytest.raises(WorkspaceBudgetError):
        section_of(host, home, max_bytes=1000)
    assert not list(tmp_path.glob("toolkit-workspace-*"))


def test_links_that_are_followed_make_it_a_copy(tmp_path: Path) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    with section_of(host, home, backend="auto", follow_symlinks=True) as section:
        assert section.filled_by == ("copy", "links that lead out of a mount are followed")


def test_a_small_tree_is_a_copy_although_one_is_kept_unless_an_overlay_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    section_of(host, home).cleanup()
    with section_of(host, home, backend="auto") as section:
        assert section.filled_by == ("copy", f"{section.plan().files} files: a copy is as quick")
    monkeypatch.setattr("toolkit_workspace.pristine.filling.ENOUGH_FILES", 10)
    with section_of(host, home, backend="auto") as section:
        assert section.filled_by[0] == "overlay"


def test_so_much_that_is_new_is_copied_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    monkeypatch.setattr("toolkit_workspace.pristine.renew.MOST_FILES", 3)
    section_of(host, home).cleanup()
    (first,) = copies_in(home)
    for number in range(5):
        (host / f"new{number}").write_bytes(b"new")
    assert_same(host, home)
    assert len(copies_in(home)) == 1, "the older copy, which nobody uses, is gone"
    assert copies_in(home) != [first]


def test_a_copy_in_use_stays_and_an_unused_one_over_a_bound_goes(tmp_path: Path) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    section = section_of(host, home)
    copies = KeptCopies(home)
    (told,) = copies.tidy(most_bytes=0)
    assert (told.gone, told.why) == (False, "1 workspace lies over it")
    section.cleanup()
    (would,) = copies.tidy(most_bytes=0, dry_run=True)
    assert would.gone
    assert len(copies.all()) == 1
    assert copies.tidy() == []
    (gone,) = copies.tidy(most_bytes=0)
    assert gone.gone
    assert copies.all() == []
    assert list(copies.folder.iterdir()) == []


def test_one_that_was_not_used_for_long_goes(tmp_path: Path) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    section_of(host, home).cleanup()
    (kept,) = KeptCopies(home).all()
    long_ago = time.time() - 40 * 86400
    os.utime(kept.folder / "used", (long_ago, long_ago))
    (gone,) = KeptCopies(home).tidy()
    assert gone.why == "not used for 30 days"
    assert not kept.folder.exists()


def test_a_file_that_goes_while_it_is_looked_at_makes_it_a_new_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    gone = host / "going.txt"
    gone.write_bytes(b"here")
    section_of(host, home).cleanup()
    gone.write_bytes(b"here, and changed")

    def going(*_: object) -> None:
        gone.unlink()
        raise FileNotFoundError(2, "gone")

    monkeypatch.setattr("toolkit_workspace.pristine.renew._Renewal._file", going)
    with section_of(host, home) as section:
        assert section.filled_by[1].endswith("kept from now on")
        with as_agent(section) as whole:
            assert not (whole / "src" / "going.txt").exists()
        assert len(section.changes()) == 0


def test_a_damaged_copy_is_passed_over(tmp_path: Path) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    section_of(host, home).cleanup()
    (kept,) = KeptCopies(home).all()
    (kept.folder / "record").write_bytes(b"nonsense")
    assert_same(host, home)


def test_what_is_left_of_a_kill_is_swept(tmp_path: Path) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    section_of(host, home).cleanup()
    copies = KeptCopies(home)
    (copies.folder / ".x-1-1-1.new").mkdir()
    (copies.folder / ".x-1234.gone").mkdir()
    (copies.folder / ".x-1234.gone" / "file").touch()
    copies.tidy()
    assert [path.name for path in copies.folder.iterdir() if path.name.endswith(".gone")] == []
    assert len(copies.all()) == 1


def test_a_trial_of_an_overlay_that_was_killed_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = KeptCopies(tmp_path / "home")
    copies.folder.mkdir(parents=True)
    if (child := os.fork()) == 0:
        monkeypatch.setattr(support, "_works", lambda _: os._exit(0))
        support.why_no_layers(copies.folder)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(copies.folder.iterdir())) == 1
    copies.tidy()
    assert list(copies.folder.iterdir()) == []


def test_a_single_file_is_laid_over_too(tmp_path: Path) -> None:
    home = tmp_path / "home"
    folder = make_host(tmp_path / "host")
    file = tmp_path / "one.txt"
    file.write_bytes(b"one")

    def prepared(backend: str) -> WorkspaceSection:
        mounts = [HostMount(file, "deep/one.txt"), HostMount(folder, "all")]
        section = WorkspaceSection(mounts, [tmp_path], parent=tmp_path, backend=backend)  # type: ignore[arg-type]
        return section.prepare(home=home)

    prepared("overlay").cleanup()
    file.write_bytes(b"two!")
    with prepared("overlay") as over, prepared("copy") as copy:
        assert over.fingerprint() == copy.fingerprint()
        assert over.render() == copy.render()
        assert over.filled_by[0] == "overlay"
