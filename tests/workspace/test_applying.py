"""Taking an agent's changes back to the host."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.workspace.copies import Edit, Tree, build, edit, edits, make_tree, memory_folder, prepare, tree_of, trees
from tests.workspace.hostile import Place, a_place, can_hide, hide, run_as
from toolkit.errors import WorkspaceConflictError, WorkspaceError, WorkspaceSecurityError
from toolkit.workspace import HostMount, WorkspaceSection
from toolkit_workspace import find_workspaces

LINES = b"".join(b"line %d\n" % n for n in range(30))


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return make_tree(
        tmp_path / "host",
        {"app.py": LINES, "run.sh": b"#!/bin/sh\n", "data.bin": bytes(range(256)), "docs/guide.md": b"# Guide\n"},
    )


@pytest.fixture
def ws(tmp_path: Path, host: Path) -> WorkspaceSection:
    return prepare(host)


@pytest.mark.parametrize("other", ["edited", "removed", "moved", "untouched"])
def test_permissions_of_a_file_with_other_names_are_its_own(tmp_path: Path, other: str) -> None:
    outside = tmp_path / "store"
    outside.write_bytes(b"#!/bin/sh\n")
    outside.chmod(0o644)
    host = make_tree(tmp_path / "host", {"app.py": LINES})
    (host / "one").hardlink_to(outside)
    (host / "two").hardlink_to(outside)
    before = tree_of(host)
    ws = prepare(host)
    src = ws.temp_dir / "src"
    (src / "one").chmod(0o755)
    if other == "edited":
        (src / "two").write_bytes(b"edited")
    elif other == "removed":
        (src / "two").unlink()
    elif other == "moved":
        (src / "two").rename(src / "three")
    ws.apply()
    assert tree_of(host) == tree_of(src)
    assert outside.stat().st_mode & 0o777 == 0o644
    assert ws.undo_apply()
    assert tree_of(host) == before


def test_all_kinds_of_changes_arrive_on_the_host(ws: WorkspaceSection, host: Path) -> None:
    src = ws.temp_dir / "src"
    (src / "new/deep").mkdir(parents=True)
    (src / "new/deep/file.txt").write_text("new\n")
    (src / "app.py").write_bytes(LINES + b"more\n")
    (src / "data.bin").unlink()
    (src / "docs/guide.md").rename(src / "manual.md")
    (src / "docs").rmdir()
    (src / "run.sh").chmod(0o755)
    (src / "link").symlink_to("app.py")

    applied = ws.apply()

    assert tree_of(host) == tree_of(src)
    assert {one.path: one.action for one in applied.changes}["src/run.sh"] == "mode"
    assert len(ws.changes()) == 0


def test_half_of_it_is_taken_back_by_paths(ws: WorkspaceSection, host: Path) -> None:
    (ws.temp_dir / "src/app.py").write_text("agent\n")
    (ws.temp_dir / "src/docs/guide.md").write_text("agent\n")
    (ws.temp_dir / "src/docs/new.md").write_text("agent\n")

    ws.apply(paths=["src/docs"])

    assert (host / "docs/guide.md").read_text() == "agent\n"
    assert (host / "app.py").read_bytes() == LINES
    assert [change.path for change in ws.changes()] == ["src/app.py"]


def test_a_new_file_brings_the_folders_it_needs(ws: WorkspaceSection, host: Path) -> None:
    make_tree(ws.temp_dir / "src", {"a/b/c.txt": b"c", "a/other.txt": b"o"})
    ws.apply(paths=["src/a/b/c.txt"])
    assert tree_of(host / "a") == {b"b": ("d", b""), b"b/c.txt": ("-", b"c")}


def test_a_path_that_did_not_change_and_an_unknown_mount_are_refused(ws: WorkspaceSection) -> None:
    (ws.temp_dir / "src/app.py").write_text("agent\n")
    with pytest.raises(WorkspaceError, match=r"nothing changed at 'app.pi'; did you mean 'src/app.py'"):
        ws.apply(paths=["app.pi"])
    with pytest.raises(WorkspaceError, match="no mount is called 'source'"):
        ws.apply(mounts=["source"])


def test_a_dry_run_decides_and_writes_nothing(ws: WorkspaceSection, host: Path) -> None:
    (ws.temp_dir / "src/app.py").write_text("agent\n")
    before = tree_of(host)
    applied = ws.apply(dry_run=True)
    assert [(one.path, one.action) for one in applied.changes] == [("src/app.py", "replaced")]
    assert tree_of(host) == before
    assert len(ws.changes()) == 1


def test_texts_changed_on_both_sides_are_merged(ws: WorkspaceSection, host: Path) -> None:
    (host / "app.py").write_bytes(LINES.replace(b"line 2\n", b"host\n"))
    (ws.temp_dir / "src/app.py").write_bytes(LINES.replace(b"line 20\n", b"agent\n"))

    (one,) = ws.apply().changes

    assert one.action == "merged"
    assert (host / "app.py").read_bytes() == LINES.replace(b"line 2\n", b"host\n").replace(b"line 20\n", b"agent\n")
    assert len(ws.changes()) == 0


def test_work_goes_on_after_a_merge_and_merges_again(ws: WorkspaceSection, host: Path) -> None:
    (host / "app.py").write_bytes(LINES.replace(b"line 2\n", b"host\n"))
    agent = LINES.replace(b"line 20\n", b"agent\n")
    (ws.temp_dir / "src/app.py").write_bytes(agent)
    ws.apply()
    (ws.temp_dir / "src/app.py").write_bytes(agent.replace(b"agent\n", b"agent again\n"))

    (one,) = ws.apply().changes

    assert one.action == "merged"
    assert (host / "app.py").read_bytes() == LINES.replace(b"line 2\n", b"host\n").replace(
        b"line 20\n", b"agent again\n"
    )


def test_a_renamed_file_takes_the_hosts_change_with_it(ws: WorkspaceSection, host: Path) -> None:
    (host / "app.py").write_bytes(LINES.replace(b"line 2\n", b"host\n"))
    (ws.temp_dir / "src/app.py").rename(ws.temp_dir / "src/main.py")
    ws.apply()
    assert (host / "main.py").read_bytes() == LINES.replace(b"line 2\n", b"host\n")
    assert not (host / "app.py").exists()


@pytest.mark.parametrize("asked", [None, ["src/app.py"], ["src/main.py"]])
def test_of_a_renamed_file_the_removal_under_its_old_name_is_told_too(
    ws: WorkspaceSection, host: Path, asked: list[str] | None
) -> None:
    (ws.temp_dir / "src/app.py").rename(ws.temp_dir / "src/main.py")
    for dry_run in (True, False):
        assert (host / "app.py").exists()
        told = [(one.path, one.action) for one in ws.apply(paths=asked, dry_run=dry_run).changes]
        assert told == [("src/app.py", "deleted"), ("src/main.py", "created")]
    assert not (host / "app.py").exists()


def conflicts(ws: WorkspaceSection) -> dict[str, str]:
    with pytest.raises(WorkspaceConflictError) as caught:
        ws.apply()
    return dict(caught.value.conflicts)


@pytest.mark.parametrize(
    ("host_side", "agent_side", "path"),
    [
        ("write app.py", "write app.py", "app.py"),
        ("delete app.py", "write app.py", "app.py"),
        ("write app.py", "delete app.py", "app.py"),
        ("write new.txt", "write new.txt", "new.txt"),
        ("write data.bin", "write data.bin", "data.bin"),
        ("delete app.py", "move app.py main.py", "main.py"),
        ("write main.py", "move app.py main.py", "main.py"),
        ("folder new", "write new", "new"),
        ("write new", "folder new", "new"),
        ("link run.sh", "write run.sh", "run.sh"),
    ],
)
def test_what_does_not_merge_is_a_conflict_and_touches_nothing(
    ws: WorkspaceSection, host: Path, host_side: str, agent_side: str, path: str
) -> None:
    (ws.temp_dir / "src/docs/guide.md").write_text("innocent\n")
    for root, steps, data in ((host, host_side, b"host\0\n"), (ws.temp_dir / "src", agent_side, b"agent\n")):
        verb, *names = steps.split()
        if verb == "link":
            (root / names[0]).unlink()
        edit(root, (verb, names[0].encode(), names[-1].encode(), data))
    before = tree_of(host)

    assert list(conflicts(ws)) == [f"src/{path}"]
    assert tree_of(host) == before
    assert len(ws.changes()) >= 2


def test_a_conflict_says_which_files_and_what_to_do(ws: WorkspaceSection, host: Path) -> None:
    (host / "app.py").write_text("host\n")
    (ws.temp_dir / "src/app.py").write_text("agent\n")
    with pytest.raises(WorkspaceConflictError) as caught:
        ws.apply()
    assert str(caught.value).splitlines() == [
        "the host changed since the workspace was prepared: 1 of the changes cannot be applied",
        "  src/app.py: both sides changed the same lines",
        "  Nothing was written. Choose the others by their paths, or have both versions written"
        " (conflict_markers=True, --conflict-markers).",
    ]


def test_without_the_bytes_both_came_from_it_is_a_conflict_never_a_guess(tmp_path: Path, host: Path) -> None:
    ws = prepare(host, keep=False)
    (host / "app.py").write_bytes(LINES.replace(b"line 2\n", b"host\n"))
    (ws.temp_dir / "src/app.py").write_bytes(LINES.replace(b"line 20\n", b"agent\n"))
    assert list(conflicts(ws)) == ["src/app.py"]
    assert [one.action for one in ws.apply(conflict_markers=True).changes] == ["marked"]
    assert b"<<<<<<< host\nhost\n" in (host / "app.py").read_bytes()


def test_conflict_markers_are_written_on_request(ws: WorkspaceSection, host: Path) -> None:
    (host / "app.py").write_bytes(LINES.replace(b"line 9\n", b"host\n"))
    (ws.temp_dir / "src/app.py").write_bytes(LINES.replace(b"line 9\n", b"agent\n"))
    (one,) = ws.apply(conflict_markers=True).changes
    assert one.action == "marked"
    assert b"<<<<<<< host\nhost\n=======\nagent\n>>>>>>> workspace\n" in (host / "app.py").read_bytes()


def test_the_hosts_permissions_stay_and_only_the_executable_bit_comes(ws: WorkspaceSection, host: Path) -> None:
    (host / "app.py").chmod(0o640)
    (ws.temp_dir / "src/app.py").write_text("agent\n")
    (ws.temp_dir / "src/app.py").chmod(0o777)
    (ws.temp_dir / "src/setuid").write_text("x")
    (ws.temp_dir / "src/setuid").chmod(0o6755)
    ws.apply()
    assert (host / "app.py").stat().st_mode & 0o7777 == 0o750
    assert (host / "setuid").stat().st_mode & 0o7000 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_applies_belongs_to_whom_the_mount_belongs(ws: WorkspaceSection, host: Path) -> None:
    for path in (host, *host.rglob("*")):
        os.chown(path, 1234, 1234)
    (ws.temp_dir / "src/app.py").write_text("agent\n")
    make_tree(ws.temp_dir / "src", {"new/file": b"x", "link": "app.py"})
    ws.apply()
    assert {path.lstat().st_uid for path in host.rglob("*")} == {1234}


def test_attributes_of_a_replaced_file_stay(ws: WorkspaceSection, host: Path) -> None:
    try:
        os.setxattr(host / "app.py", "user.note", b"mine")
    except OSError:
        pytest.skip("no user attributes on this file system")
    (ws.temp_dir / "src/app.py").write_text("agent\n")
    ws.apply()
    assert os.getxattr(host / "app.py", "user.note") == b"mine"


def test_a_large_file_is_applied_again_and_again_without_a_conflict(host: Path) -> None:
    big = os.urandom(3 << 20)
    (host / "big").write_bytes(big)
    ws = prepare(host)
    copy = ws.temp_dir / "src/big"
    for step in (b"one", b"two"):
        copy.write_bytes(copy.read_bytes() + step)
        assert [one.action for one in ws.apply().changes] == ["replaced"]
    copy.chmod(0o755)
    assert [one.action for one in ws.apply().changes] == ["mode"]
    copy.write_bytes(big)
    (host / "big").write_bytes(big)
    (host / "big").chmod(0o755)
    assert [one.action for one in ws.apply().changes] == ["nothing"]
    copy.write_bytes(b"three")
    assert [one.action for one in ws.apply().changes] == ["replaced"]
    assert (host / "big").read_bytes() == b"three"


def test_files_the_workspace_never_had_keep_their_folder(ws: WorkspaceSection, host: Path) -> None:
    (host / "docs/left-out.txt").write_text("host only")
    shutil.rmtree(ws.temp_dir / "src/docs")
    ws.apply()
    assert tree_of(host / "docs") == {b"left-out.txt": ("-", b"host only")}


@pytest.mark.parametrize("target", ["/etc/passwd", "../../secret", "docs/../../secret"])
def test_a_link_that_leads_out_is_refused_and_nothing_is_written(ws: WorkspaceSection, host: Path, target: str) -> None:
    (ws.temp_dir / "src/app.py").write_text("agent\n")
    (ws.temp_dir / "src/way-out").symlink_to(target)
    before = tree_of(host)
    with pytest.raises(WorkspaceSecurityError):
        ws.apply()
    assert tree_of(host) == before


def test_an_absolute_link_to_the_projects_own_file_is_applied_as_it_is(ws: WorkspaceSection, host: Path) -> None:
    (ws.temp_dir / "src/by-its-path").symlink_to(host.resolve() / "app.py")
    ws.apply()
    assert (host / "by-its-path").readlink() == host.resolve() / "app.py"
    assert not ws.changes()


def test_an_absolute_link_through_a_link_that_only_the_host_has_is_refused(ws: WorkspaceSection, host: Path) -> None:
    (host / "vendor").symlink_to("/etc")
    (ws.temp_dir / "src/innocent").symlink_to(host.resolve() / "vendor/passwd")
    with pytest.raises(WorkspaceSecurityError):
        ws.apply()


def test_a_link_through_a_link_that_only_the_host_has_is_refused(ws: WorkspaceSection, host: Path) -> None:
    (host / "vendor").symlink_to("/etc")
    (ws.temp_dir / "src/innocent").symlink_to("vendor/passwd")
    with pytest.raises(WorkspaceSecurityError):
        ws.apply()


def test_a_host_folder_swapped_for_a_link_is_not_written_through(
    ws: WorkspaceSection, host: Path, tmp_path: Path
) -> None:
    outside = make_tree(tmp_path / "outside", {"guide.md": b"# Guide\n"})
    shutil.rmtree(host / "docs")
    (host / "docs").symlink_to(outside)
    (ws.temp_dir / "src/docs/guide.md").write_text("agent\n")
    with pytest.raises(WorkspaceError):
        ws.apply()
    assert (outside / "guide.md").read_bytes() == b"# Guide\n"


def test_another_folder_in_the_mounts_place_is_refused(ws: WorkspaceSection, host: Path) -> None:
    (ws.temp_dir / "src/app.py").write_text("agent\n")
    host.rename(host.with_name("moved"))
    shutil.copytree(host.with_name("moved"), host)
    with pytest.raises(WorkspaceSecurityError):
        ws.apply()


def test_git_folders_special_files_and_what_is_outside_are_left_with_a_reason(ws: WorkspaceSection, host: Path) -> None:
    make_tree(ws.temp_dir / "src", {".git/hooks/post-commit": b"#!/bin/sh\n"})
    os.mkfifo(ws.temp_dir / "src/pipe")
    (ws.temp_dir / "scratch").write_text("x")
    applied = ws.apply()
    assert {path for path, _ in applied.left} >= {"src/.git/hooks/post-commit", "src/pipe", "scratch"}
    assert not (host / ".git").exists()
    ws.apply(paths=["src/.git"])
    assert (host / ".git/hooks/post-commit").exists()


def test_a_finished_apply_can_be_undone_to_the_last_byte(ws: WorkspaceSection, host: Path) -> None:
    before, stamp = tree_of(host), (host / "app.py").stat().st_mtime_ns
    (ws.temp_dir / "src/app.py").write_text("agent\n")
    (ws.temp_dir / "src/data.bin").unlink()
    make_tree(ws.temp_dir / "src", {"new/file": b"x"})
    told = ws.changes().to_json()
    ws.apply()

    assert ws.undo_apply()

    assert tree_of(host) == before
    assert (host / "app.py").stat().st_mtime_ns == stamp
    assert ws.changes().to_json() == told
    assert not ws.undo_apply()


@pytest.mark.parametrize("keep", [True, False])
def test_what_was_applied_and_undone_is_applied_again_without_a_conflict(tmp_path: Path, keep: bool) -> None:
    large = os.urandom(3 << 20)
    host = make_tree(tmp_path / "host", {"large": large, "small": b"small\n", "link": "small", "gone": b"gone\n"})
    (host / "absolute").symlink_to(host / "small")
    ws = prepare(host, keep=keep)
    src = ws.temp_dir / "src"
    (src / "large").write_bytes(large[:-1] + b"!")
    (src / "small").write_text("agent\n")
    (src / "gone").unlink()
    for link in ("link", "absolute"):
        (src / link).unlink()
        (src / link).symlink_to("large")
    ws.apply()
    done = tree_of(host)

    for _ in range(2):
        assert ws.undo_apply()
        ws.apply()
        assert tree_of(host) == done
    assert len(ws.changes()) == 0


def test_what_the_host_changed_after_an_undo_is_still_a_conflict(tmp_path: Path) -> None:
    large = os.urandom(2 << 20)
    host = make_tree(tmp_path / "host", {"large": large, "link": "large"})
    ws = prepare(host, keep=False)
    (ws.temp_dir / "src/large").write_bytes(large[::-1])
    (ws.temp_dir / "src/link").unlink()
    (ws.temp_dir / "src/link").symlink_to("nowhere")
    ws.apply()
    ws.undo_apply()
    (host / "large").write_bytes(large[:-1] + b"!")
    (host / "link").unlink()
    (host / "link").symlink_to("elsewhere")

    with pytest.raises(WorkspaceConflictError) as caught:
        ws.apply()

    assert {path for path, _ in caught.value.conflicts} == {"src/large", "src/link"}


def test_an_undo_that_meets_a_changed_file_takes_nothing_back(ws: WorkspaceSection, host: Path) -> None:
    for name in ("app.py", "run.sh", "docs/guide.md"):
        (ws.temp_dir / "src" / name).write_text("agent\n")
    ws.apply()
    (host / "app.py").write_text("changed since\n")
    before = tree_of(host)
    with pytest.raises(WorkspaceConflictError):
        ws.undo_apply()
    assert tree_of(host) == before
    assert [one.status for one in find_workspaces(ws.temp_dir.parent)] == ["kept"]
    (host / "app.py").write_text("agent\n")
    assert ws.undo_apply()


def test_a_failing_write_takes_back_what_was_written(
    ws: WorkspaceSection, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree_of(host)
    for name in ("app.py", "run.sh", "docs/guide.md"):
        (ws.temp_dir / "src" / name).write_text("agent\n")
    real, calls = os.rename, []

    def full_disk(*args: object, **kwargs: object) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        real(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", full_disk)
    with pytest.raises(WorkspaceError, match="No space left"):
        ws.apply()
    assert tree_of(host) == before
    assert len(ws.changes()) == 3


def _other_disk_in_the_mount(place: Place, *, is_full: bool) -> None:
    """The mount holds a folder of another file system, which cannot be written when the changes come."""
    place.make()
    disk = place.project / "disk"
    disk.mkdir()
    (place.project / "a").write_text("a\n")
    assert hide(disk, os.geteuid(), size=1 << 20)
    (disk / "b").write_text("b\n")
    ws = WorkspaceSection([HostMount(place.project, mount_path="src")], [place.top], parent=place.parent).prepare()
    before = tree_of(place.project)
    (ws.temp_dir / "src" / "a").write_text("agent\n")
    (ws.temp_dir / "src" / "disk" / "b").write_bytes(os.urandom(3_000_000))
    if not is_full:
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True, timeout=60)
    with pytest.raises(WorkspaceError) as caught:
        ws.apply()
    said = str(caught.value)
    assert ("No space left" if is_full else "Read-only file system") in said
    assert "the host is as it was" in said
    assert str(disk / "b") in said
    assert (f"{disk}: 1.0 MB are free" in said) == is_full
    assert tree_of(place.project) == before
    assert [one.status for one in find_workspaces(place.parent)] == ["in use"]
    assert [change.path for change in ws.apply(paths=["src/a"]).changes] == ["src/a"]


@pytest.mark.skipif(not can_hide(), reason="this process may not have mounts of its own")
@pytest.mark.parametrize("is_full", [True, False], ids=["full", "read-only"])
def test_a_disk_below_the_mount_that_takes_nothing_leaves_the_host_as_it_was(is_full: bool) -> None:
    with a_place(plain=False) as place:
        run_as(False, lambda: _other_disk_in_the_mount(place, is_full=is_full), always_fork=True)


@given(tree=trees, steps=edits)
@settings(max_examples=120, deadline=None)
def test_applying_any_edits_gives_the_host_the_same_tree(tree: Tree, steps: list[Edit]) -> None:
    with memory_folder() as folder:
        top = Path(folder)
        build(top / "host", tree)
        ws = prepare(top / "host")
        for step in steps:
            edit(ws.temp_dir / "src", step)
        before = tree_of(top / "host")
        if (ws.temp_dir / "src").is_dir():
            ws.apply()
            assert tree_of(top / "host") == tree_of(ws.temp_dir / "src")
            assert len(ws.changes()) == 0
            if ws.undo_apply():
                assert tree_of(top / "host") == before
                ws.apply()  # what was put back is what was copied, whatever its stamps
                assert tree_of(top / "host") == tree_of(ws.temp_dir / "src")


def test_what_was_not_chosen_in_a_new_folder_is_still_a_change(tmp_path: Path) -> None:
    ws = prepare(make_tree(tmp_path / "host", {"a": b"a"}))
    make_tree(ws.temp_dir / "src", {"new/one": b"1", "new/two": b"2"})
    ws.apply(paths=["src/new/one"])
    assert [change.path for change in ws.changes()] == ["src/new/two"]
