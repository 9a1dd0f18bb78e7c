"""What becomes of each change on the host, to the bit: modes, links, folders."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.needs import needs
from tests.workspace.copies import make_tree, prepare, tree_of
from tests.workspace.hostile import a_place, run_as
from toolkit.errors import WorkspaceConflictError, WorkspaceError
from toolkit.workspace import WorkspaceSection
from toolkit_workspace.applying.decide import Case, Decider
from toolkit_workspace.changes import changes_of
from toolkit_workspace.record.content import Hosts
from toolkit_workspace.record.keeping import LARGEST_KEPT
from toolkit_workspace.workspace import Workspace


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return make_tree(
        tmp_path / "host",
        {"a.txt": b"a\n", "b.txt": b"b\n", "link": "a.txt", "d/one": b"1\n", "d/two": b"2\n"},
    )


def mode(path: Path) -> int:
    return path.lstat().st_mode & 0o7777


@pytest.mark.parametrize("before", [0o654, 0o645, 0o744, 0o604, 0o755])
def test_an_edited_file_keeps_the_hosts_mode_to_the_bit(host: Path, before: int) -> None:
    (host / "a.txt").chmod(before)
    ws = prepare(host)
    (ws.temp_dir / "src/a.txt").write_text("edited\n")
    ws.apply()
    assert (host / "a.txt").read_text() == "edited\n"
    assert mode(host / "a.txt") == before


def test_only_the_executable_bit_changes_and_changes_back(host: Path) -> None:
    ws = prepare(host)
    for wanted in (0o755, 0o644):
        (ws.temp_dir / "src/a.txt").chmod(wanted)
        assert [one.action for one in ws.apply().changes] == ["mode"]
        assert mode(host / "a.txt") == wanted


def test_what_is_new_has_the_mode_that_new_files_have(host: Path) -> None:
    ws = prepare(host)
    make_tree(ws.temp_dir / "src", {"plain": b"p", "run": b"r", "odd": b"o", "folder/": b""})
    (ws.temp_dir / "src/plain").chmod(0o600)
    (ws.temp_dir / "src/odd").chmod(0o601)  # only its owner's bit makes a file executable
    (ws.temp_dir / "src/run").chmod(0o700)
    old = os.umask(0o027)
    try:
        applied = ws.apply()
    finally:
        os.umask(old)
    assert {one.path: one.action for one in applied.changes} == dict.fromkeys(
        ("src/plain", "src/run", "src/odd", "src/folder"), "created"
    )
    assert [mode(host / name) for name in ("plain", "run", "odd", "folder")] == [0o640, 0o750, 0o640, 0o750]


def test_only_the_owners_bit_makes_an_edited_file_executable(host: Path) -> None:
    (host / "a.txt").chmod(0o644)
    ws = prepare(host)
    (ws.temp_dir / "src/a.txt").write_text("edited\n")
    (ws.temp_dir / "src/a.txt").chmod(0o645)
    ws.apply()
    assert mode(host / "a.txt") == 0o644


def test_a_file_renamed_here_and_changed_there_is_told_as_merged(host: Path) -> None:
    ws = prepare(host)
    (ws.temp_dir / "src/a.txt").rename(ws.temp_dir / "src/new.txt")
    (host / "a.txt").write_text("the host's\n")
    actions = {one.path: one.action for one in ws.apply().changes}
    assert actions["src/new.txt"] == "merged"
    assert (host / "new.txt").read_text() == "the host's\n"
    assert not (host / "a.txt").exists()


def renamed(host: Path) -> WorkspaceSection:
    ws = prepare(host)
    (ws.temp_dir / "src/a.txt").rename(ws.temp_dir / "src/new.txt")
    return ws


def test_a_file_renamed_alike_on_both_sides_is_nothing_to_do(host: Path) -> None:
    ws = renamed(host)
    (host / "a.txt").rename(host / "new.txt")
    actions = {one.path: one.action for one in ws.apply().changes}
    assert actions["src/new.txt"] == "nothing"
    assert (host / "new.txt").read_bytes() == b"a\n"
    assert len(ws.changes()) == 0


@pytest.mark.parametrize("there", ["another file", "the same beside the old one", "a folder", "the old one deleted"])
def test_a_file_renamed_here_to_a_name_the_host_uses_is_a_conflict(host: Path, there: str) -> None:
    ws = renamed(host)
    if there == "another file":
        (host / "a.txt").unlink()
        (host / "new.txt").write_text("mine\n")
    elif there == "the same beside the old one":
        (host / "new.txt").write_bytes(b"a\n")
    elif there == "a folder":
        (host / "a.txt").unlink()
        (host / "new.txt").mkdir()
    else:
        (host / "a.txt").unlink()
    before = tree_of(host)
    with pytest.raises(WorkspaceConflictError):
        ws.apply()
    assert tree_of(host) == before


def test_a_folder_that_the_host_lost_is_made_again_for_what_is_new_in_it(host: Path) -> None:
    ws = prepare(host)
    make_tree(ws.temp_dir / "src", {"d/new": b"n\n", "d/deeper/new": b"m\n"})
    shutil.rmtree(host / "d")
    ws.apply(paths=["src/d/new"])
    assert tree_of(host / "d") == {b"new": ("-", b"n\n")}
    assert mode(host / "d") == mode(host)  # that of any new folder
    assert ws.undo_apply()
    assert not (host / "d").exists()
    ws.apply(paths=["src/d/deeper"])
    assert tree_of(host / "d") == {b"deeper": ("d", b""), b"deeper/new": ("-", b"m\n")}


def test_a_folder_that_became_something_else_on_the_host_is_a_conflict(host: Path) -> None:
    ws = prepare(host)
    make_tree(ws.temp_dir / "src", {"d/new": b"n\n"})
    shutil.rmtree(host / "d")
    (host / "d").write_text("a file now")
    with pytest.raises(WorkspaceConflictError):
        ws.apply()
    assert (host / "d").read_text() == "a file now"


def relink(link: Path, target: str) -> None:
    link.unlink()
    link.symlink_to(target)


def test_a_link_changed_here_alone_is_replaced_and_one_changed_alike_is_nothing_to_do(host: Path) -> None:
    ws = prepare(host)
    relink(ws.temp_dir / "src/link", "b.txt")
    assert [one.action for one in ws.apply().changes] == ["replaced"]
    assert (host / "link").readlink() == Path("b.txt")
    relink(ws.temp_dir / "src/link", "d/one")
    relink(host / "link", "d/one")
    assert [one.action for one in ws.apply().changes] == ["nothing"]


@pytest.mark.parametrize("there", ["changed", "gone", "a file", "a folder"])
def test_a_link_changed_on_both_sides_is_a_conflict(host: Path, there: str) -> None:
    ws = prepare(host)
    relink(ws.temp_dir / "src/link", "b.txt")
    (host / "link").unlink()
    if there == "changed":
        (host / "link").symlink_to("d/one")
    elif there == "a file":
        (host / "link").write_text("x")
    elif there == "a folder":
        (host / "link").mkdir()
    before = tree_of(host)
    with pytest.raises(WorkspaceConflictError):
        ws.apply()
    assert tree_of(host) == before


def test_a_folder_goes_only_when_all_that_was_in_it_goes(host: Path) -> None:
    ws = prepare(host)
    for name in ("one", "two"):
        (ws.temp_dir / "src/d" / name).unlink()
    (ws.temp_dir / "src/d").rmdir()
    applied = ws.apply(paths=["src/d/one"])
    assert all(one.action in ("deleted", "nothing") for one in applied.changes)
    assert [path.name for path in (host / "d").iterdir()] == ["two"]
    ws.apply()
    assert not (host / "d").exists()


def test_folders_made_for_a_new_file_are_undone_with_it(host: Path) -> None:
    before = tree_of(host)
    ws = prepare(host)
    make_tree(ws.temp_dir / "src", {"x/y/new": b"n", "x/other": b"o"})
    ws.apply(paths=["src/x/y/new"])
    assert (host / "x/y/new").read_bytes() == b"n"
    assert not (host / "x/other").exists()
    assert ws.undo_apply()
    assert tree_of(host) == before


def test_a_link_to_a_folder_becomes_a_folder_and_what_it_led_to_stays(host: Path) -> None:
    (host / "to_d").symlink_to("d")
    ws = prepare(host)
    (ws.temp_dir / "src/to_d").unlink()
    make_tree(ws.temp_dir / "src/to_d", {"one": b"new\n"})
    ws.apply()
    assert not (host / "to_d").is_symlink()
    assert (host / "to_d/one").read_bytes() == b"new\n"
    assert (host / "d/one").read_bytes() == b"1\n"


def test_an_undo_goes_on_where_what_was_made_is_gone_already(host: Path) -> None:
    before = tree_of(host)
    ws = prepare(host)
    make_tree(ws.temp_dir / "src", {"x/y/new": b"n"})
    ws.apply()
    shutil.rmtree(host / "x")
    assert ws.undo_apply()
    assert tree_of(host) == before


@pytest.mark.parametrize("change", ["edit", "delete", "rename", "relink", "chmod"])
def test_what_the_record_forgot_since_it_was_compared_is_a_conflict_and_no_step(host: Path, change: str) -> None:
    ws = prepare(host)
    src = ws.temp_dir / "src"
    if change == "edit":
        (src / "a.txt").write_text("edited\n")
    elif change == "delete":
        (src / "a.txt").unlink()
    elif change == "rename":
        (src / "a.txt").rename(src / "new.txt")
    elif change == "relink":
        relink(src / "link", "b.txt")
    else:
        (src / "a.txt").chmod(0o755)
    workspace = Workspace(ws.temp_dir)
    (changed,) = changes_of(workspace)
    with Hosts(workspace.record, workspace.store) as hosts:
        case = Case.of(changed, 0, hosts.record)
        hosts.record.discard(os.fsencode(changed.old_path or changed.path))
        decider = Decider(hosts)
        decider.decide_all([case])
    assert [path for path, _ in decider.conflicts] == [changed.path]
    assert decider.steps == {}


def test_bytes_too_many_to_be_kept_otherwise_are_kept_by_a_merge_and_merge_again(tmp_path: Path) -> None:
    lines = [b"line %d\n" % number for number in range(30)]
    host = make_tree(tmp_path / "host", {"text": b"".join(lines)})
    ws = prepare(host)
    (host / "text").write_bytes(b"".join([b"host\n", *lines[1:]]))
    lines[29] = b"x" * LARGEST_KEPT + b"\n"
    for number in (10, 20):
        lines[number] = b"agent\n"
        (ws.temp_dir / "src/text").write_bytes(b"".join(lines))
        assert [one.action for one in ws.apply().changes] == ["merged"]
        assert (host / "text").read_bytes() == b"".join([b"host\n", *lines[1:]])


def test_files_too_large_to_be_kept_twice_get_markers_where_both_sides_changed_them(tmp_path: Path) -> None:
    host = make_tree(tmp_path / "host", {"large": b"x" * LARGEST_KEPT + b"\n"})
    ws = prepare(host)
    (host / "large").write_bytes(b"host\n")
    (ws.temp_dir / "src/large").write_bytes(b"agent\n")
    with pytest.raises(WorkspaceConflictError):
        ws.apply()
    assert [one.action for one in ws.apply(conflict_markers=True).changes] == ["marked"]
    assert b"<<<<<<<" in (host / "large").read_bytes()


def test_what_was_added_on_both_sides_is_merged_against_what_the_agent_had_from_then_on(host: Path) -> None:
    ws = prepare(host)
    (host / "new").write_bytes(b"host\n")
    lines = [b"%d\n" % number for number in range(20)] + [b"x" * LARGEST_KEPT + b"\n"]
    (ws.temp_dir / "src/new").write_bytes(b"".join(lines))
    assert [one.action for one in ws.apply(conflict_markers=True).changes] == ["marked"]
    lines[10] = b"agent\n"
    (ws.temp_dir / "src/new").write_bytes(b"".join(lines))
    assert [one.action for one in ws.apply().changes] == ["merged"]
    now = (host / "new").read_bytes()
    assert now.startswith(b"<<<<<<<")
    assert b"9\nagent\n11\n" in now


@pytest.mark.parametrize(("size", "kept"), [(LARGEST_KEPT, LARGEST_KEPT), (LARGEST_KEPT + 1, 0)])
def test_bytes_that_the_host_holds_are_kept_a_second_time_only_where_they_are_few(
    host: Path, size: int, kept: int
) -> None:
    ws = prepare(host)
    store = Workspace(ws.temp_dir).store.file
    before = store.stat().st_size
    (ws.temp_dir / "src/new").write_bytes(b"x" * size)
    assert [one.action for one in ws.apply().changes] == ["created"]
    assert store.stat().st_size == before + kept
    (ws.temp_dir / "src/new").write_bytes(b"y")
    assert [one.action for one in ws.apply().changes] == ["replaced"]


def test_a_file_deleted_on_both_sides_is_told_as_nothing_to_do(host: Path) -> None:
    ws = prepare(host)
    (ws.temp_dir / "src/a.txt").unlink()
    (host / "a.txt").unlink()
    assert [(one.path, one.action) for one in ws.apply().changes] == [("src/a.txt", "nothing")]
    assert len(ws.changes()) == 0


def test_a_host_folder_that_may_not_be_listed_stops_the_apply() -> None:
    """Nobody can say whether it would be empty, so the change is neither made nor passed over."""

    def work() -> None:
        host = make_tree(place.project, {"a.txt": b"a\n", "folder/": b""})
        ws = prepare(host)
        (ws.temp_dir / "src/folder").rmdir()
        (ws.temp_dir / "src/a.txt").write_text("edited\n")
        (host / "folder").chmod(0o300)
        with pytest.raises(WorkspaceError):
            ws.apply()
        assert (host / "a.txt").read_bytes() == b"a\n"
        assert (host / "folder").is_dir()

    with a_place(plain=True) as place:
        run_as(True, work)


@needs(os.geteuid() == 0, "only root can give a folder to somebody else")
def test_a_plain_user_makes_new_files_in_a_folder_that_belongs_to_somebody_else() -> None:
    def work() -> None:
        ws = prepare(place.project)
        (ws.temp_dir / "src/new").write_text("new\n")
        ws.apply()
        assert (place.project / "new").stat().st_uid == os.geteuid()

    with a_place(plain=True) as place:
        make_tree(place.project, {"a.txt": b"a\n"})
        place.project.chmod(0o777)
        os.chown(place.project, 0, 0)
        run_as(True, work)
