"""Taking an agent's changes back to the host."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.workspace.copies import Edit, Tree, build, edit, edits, make_tree, memory_folder, prepare, tree_of, trees
from toolkit.errors import WorkspaceConflictError, WorkspaceError, WorkspaceSecurityError
from toolkit_workspace.applying.apply import apply_changes, undo
from toolkit_workspace.changes.changes import changes_of
from toolkit_workspace.workspace import Workspace

LINES = b"".join(b"line %d\n" % n for n in range(30))


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return make_tree(
        tmp_path / "host",
        {"app.py": LINES, "run.sh": b"#!/bin/sh\n", "data.bin": bytes(range(256)), "docs/guide.md": b"# Guide\n"},
    )


@pytest.fixture
def ws(tmp_path: Path, host: Path) -> Workspace:
    return prepare(host)


def test_all_kinds_of_changes_arrive_on_the_host(ws: Workspace, host: Path) -> None:
    src = ws.folder / "src"
    (src / "new/deep").mkdir(parents=True)
    (src / "new/deep/file.txt").write_text("new\n")
    (src / "app.py").write_bytes(LINES + b"more\n")
    (src / "data.bin").unlink()
    (src / "docs/guide.md").rename(src / "manual.md")
    (src / "docs").rmdir()
    (src / "run.sh").chmod(0o755)
    (src / "link").symlink_to("app.py")

    applied = apply_changes(ws)

    assert tree_of(host) == tree_of(src)
    assert {one.path: one.action for one in applied.changes}["src/run.sh"] == "mode"
    assert len(changes_of(ws)) == 0


def test_half_of_it_is_taken_back_by_paths(ws: Workspace, host: Path) -> None:
    (ws.folder / "src/app.py").write_text("agent\n")
    (ws.folder / "src/docs/guide.md").write_text("agent\n")
    (ws.folder / "src/docs/new.md").write_text("agent\n")

    apply_changes(ws, paths=["src/docs"])

    assert (host / "docs/guide.md").read_text() == "agent\n"
    assert (host / "app.py").read_bytes() == LINES
    assert [change.path for change in changes_of(ws)] == ["src/app.py"]


def test_a_new_file_brings_the_folders_it_needs(ws: Workspace, host: Path) -> None:
    make_tree(ws.folder / "src", {"a/b/c.txt": b"c", "a/other.txt": b"o"})
    apply_changes(ws, paths=["src/a/b/c.txt"])
    assert tree_of(host / "a") == {b"b": ("d", b""), b"b/c.txt": ("-", b"c")}


def test_a_path_that_did_not_change_and_an_unknown_mount_are_refused(ws: Workspace) -> None:
    (ws.folder / "src/app.py").write_text("agent\n")
    with pytest.raises(WorkspaceError, match=r"nothing changed at 'app.py'"):
        apply_changes(ws, paths=["app.py"])
    with pytest.raises(WorkspaceError, match="no mount is called 'source'"):
        apply_changes(ws, mounts=["source"])


def test_a_dry_run_decides_and_writes_nothing(ws: Workspace, host: Path) -> None:
    (ws.folder / "src/app.py").write_text("agent\n")
    before = tree_of(host)
    applied = apply_changes(ws, dry_run=True)
    assert [(one.path, one.action) for one in applied.changes] == [("src/app.py", "replaced")]
    assert tree_of(host) == before
    assert len(changes_of(ws)) == 1


def test_texts_changed_on_both_sides_are_merged(ws: Workspace, host: Path) -> None:
    (host / "app.py").write_bytes(LINES.replace(b"line 2\n", b"host\n"))
    (ws.folder / "src/app.py").write_bytes(LINES.replace(b"line 20\n", b"agent\n"))

    (one,) = apply_changes(ws).changes

    assert one.action == "merged"
    assert (host / "app.py").read_bytes() == LINES.replace(b"line 2\n", b"host\n").replace(b"line 20\n", b"agent\n")
    assert len(changes_of(ws)) == 0


def test_work_goes_on_after_a_merge_and_merges_again(ws: Workspace, host: Path) -> None:
    (host / "app.py").write_bytes(LINES.replace(b"line 2\n", b"host\n"))
    agent = LINES.replace(b"line 20\n", b"agent\n")
    (ws.folder / "src/app.py").write_bytes(agent)
    apply_changes(ws)
    (ws.folder / "src/app.py").write_bytes(agent.replace(b"agent\n", b"agent again\n"))

    (one,) = apply_changes(ws).changes

    assert one.action == "merged"
    assert (host / "app.py").read_bytes() == LINES.replace(b"line 2\n", b"host\n").replace(
        b"line 20\n", b"agent again\n"
    )


def test_a_renamed_file_takes_the_hosts_change_with_it(ws: Workspace, host: Path) -> None:
    (host / "app.py").write_bytes(LINES.replace(b"line 2\n", b"host\n"))
    (ws.folder / "src/app.py").rename(ws.folder / "src/main.py")
    apply_changes(ws)
    assert (host / "main.py").read_bytes() == LINES.replace(b"line 2\n", b"host\n")
    assert not (host / "app.py").exists()


def conflicts(ws: Workspace) -> dict[str, str]:
    with pytest.raises(WorkspaceConflictError) as caught:
        apply_changes(ws)
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
    ws: Workspace, host: Path, host_side: str, agent_side: str, path: str
) -> None:
    (ws.folder / "src/docs/guide.md").write_text("innocent\n")
    for root, steps, data in ((host, host_side, b"host\0\n"), (ws.folder / "src", agent_side, b"agent\n")):
        verb, *names = steps.split()
        if verb == "link":
            (root / names[0]).unlink()
        edit(root, (verb, names[0].encode(), names[-1].encode(), data))
    before = tree_of(host)

    assert list(conflicts(ws)) == [f"src/{path}"]
    assert tree_of(host) == before
    assert len(changes_of(ws)) >= 2


def test_a_conflict_says_which_files_and_what_to_do(ws: Workspace, host: Path) -> None:
    (host / "app.py").write_text("host\n")
    (ws.folder / "src/app.py").write_text("agent\n")
    with pytest.raises(WorkspaceConflictError) as caught:
        apply_changes(ws)
    assert str(caught.value).splitlines() == [
        "the host changed since the workspace was prepared: 1 of the changes cannot be applied",
        "  src/app.py: both sides changed the same lines",
        "  Nothing was written. Choose the others (paths=[…], --path), or have both versions written"
        " (conflict_markers=True, --conflict-markers).",
    ]


def test_without_the_bytes_both_came_from_it_is_a_conflict_never_a_guess(tmp_path: Path, host: Path) -> None:
    ws = prepare(host, keep=False)
    (host / "app.py").write_bytes(LINES.replace(b"line 2\n", b"host\n"))
    (ws.folder / "src/app.py").write_bytes(LINES.replace(b"line 20\n", b"agent\n"))
    assert list(conflicts(ws)) == ["src/app.py"]


def test_conflict_markers_are_written_on_request(ws: Workspace, host: Path) -> None:
    (host / "app.py").write_bytes(LINES.replace(b"line 9\n", b"host\n"))
    (ws.folder / "src/app.py").write_bytes(LINES.replace(b"line 9\n", b"agent\n"))
    (one,) = apply_changes(ws, conflict_markers=True).changes
    assert one.action == "marked"
    assert b"<<<<<<< host\nhost\n=======\nagent\n>>>>>>> workspace\n" in (host / "app.py").read_bytes()


def test_the_hosts_permissions_stay_and_only_the_executable_bit_comes(ws: Workspace, host: Path) -> None:
    (host / "app.py").chmod(0o640)
    (ws.folder / "src/app.py").write_text("agent\n")
    (ws.folder / "src/app.py").chmod(0o777)
    (ws.folder / "src/setuid").write_text("x")
    (ws.folder / "src/setuid").chmod(0o6755)
    apply_changes(ws)
    assert (host / "app.py").stat().st_mode & 0o7777 == 0o750
    assert (host / "setuid").stat().st_mode & 0o7000 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_applies_belongs_to_whom_the_mount_belongs(ws: Workspace, host: Path) -> None:
    for path in (host, *host.rglob("*")):
        os.chown(path, 1234, 1234)
    (ws.folder / "src/app.py").write_text("agent\n")
    make_tree(ws.folder / "src", {"new/file": b"x", "link": "app.py"})
    apply_changes(ws)
    assert {path.lstat().st_uid for path in host.rglob("*")} == {1234}


def test_attributes_of_a_replaced_file_stay(ws: Workspace, host: Path) -> None:
    try:
        os.setxattr(host / "app.py", "user.note", b"mine")
    except OSError:
        pytest.skip("no user attributes on this file system")
    (ws.folder / "src/app.py").write_text("agent\n")
    apply_changes(ws)
    assert os.getxattr(host / "app.py", "user.note") == b"mine"


def test_a_large_file_is_applied_again_and_again_without_a_conflict(host: Path) -> None:
    big = os.urandom(3 << 20)
    (host / "big").write_bytes(big)
    ws = prepare(host)
    copy = ws.folder / "src/big"
    for step in (b"one", b"two"):
        copy.write_bytes(copy.read_bytes() + step)
        assert [one.action for one in apply_changes(ws).changes] == ["replaced"]
    copy.chmod(0o755)
    assert [one.action for one in apply_changes(ws).changes] == ["mode"]
    copy.write_bytes(big)
    (host / "big").write_bytes(big)
    (host / "big").chmod(0o755)
    assert [one.action for one in apply_changes(ws).changes] == ["nothing"]
    copy.write_bytes(b"three")
    assert [one.action for one in apply_changes(ws).changes] == ["replaced"]
    assert (host / "big").read_bytes() == b"three"


def test_files_the_workspace_never_had_keep_their_folder(ws: Workspace, host: Path) -> None:
    (host / "docs/left-out.txt").write_text("host only")
    shutil.rmtree(ws.folder / "src/docs")
    apply_changes(ws)
    assert tree_of(host / "docs") == {b"left-out.txt": ("-", b"host only")}


@pytest.mark.parametrize("target", ["/etc/passwd", "../../secret", "docs/../../secret"])
def test_a_link_that_leads_out_is_refused_and_nothing_is_written(ws: Workspace, host: Path, target: str) -> None:
    (ws.folder / "src/app.py").write_text("agent\n")
    (ws.folder / "src/way-out").symlink_to(target)
    before = tree_of(host)
    with pytest.raises(WorkspaceSecurityError):
        apply_changes(ws)
    assert tree_of(host) == before


def test_a_link_through_a_link_that_only_the_host_has_is_refused(ws: Workspace, host: Path) -> None:
    (host / "vendor").symlink_to("/etc")
    (ws.folder / "src/innocent").symlink_to("vendor/passwd")
    with pytest.raises(WorkspaceSecurityError):
        apply_changes(ws)


def test_a_host_folder_swapped_for_a_link_is_not_written_through(ws: Workspace, host: Path, tmp_path: Path) -> None:
    outside = make_tree(tmp_path / "outside", {"guide.md": b"# Guide\n"})
    shutil.rmtree(host / "docs")
    (host / "docs").symlink_to(outside)
    (ws.folder / "src/docs/guide.md").write_text("agent\n")
    with pytest.raises(WorkspaceError):
        apply_changes(ws)
    assert (outside / "guide.md").read_bytes() == b"# Guide\n"


def test_another_folder_in_the_mounts_place_is_refused(ws: Workspace, host: Path) -> None:
    (ws.folder / "src/app.py").write_text("agent\n")
    host.rename(host.with_name("moved"))
    shutil.copytree(host.with_name("moved"), host)
    with pytest.raises(WorkspaceSecurityError):
        apply_changes(ws)


def test_git_folders_special_files_and_what_is_outside_are_left_with_a_reason(ws: Workspace, host: Path) -> None:
    make_tree(ws.folder / "src", {".git/hooks/post-commit": b"#!/bin/sh\n"})
    os.mkfifo(ws.folder / "src/pipe")
    (ws.folder / "scratch").write_text("x")
    applied = apply_changes(ws)
    assert {path for path, _ in applied.left} >= {"src/.git/hooks/post-commit", "src/pipe", "scratch"}
    assert not (host / ".git").exists()
    apply_changes(ws, paths=["src/.git"])
    assert (host / ".git/hooks/post-commit").exists()


def test_a_finished_apply_can_be_undone_to_the_last_byte(ws: Workspace, host: Path) -> None:
    before, stamp = tree_of(host), (host / "app.py").stat().st_mtime_ns
    (ws.folder / "src/app.py").write_text("agent\n")
    (ws.folder / "src/data.bin").unlink()
    make_tree(ws.folder / "src", {"new/file": b"x"})
    told = changes_of(ws).to_json()
    apply_changes(ws)

    assert undo(ws)

    assert tree_of(host) == before
    assert (host / "app.py").stat().st_mtime_ns == stamp
    assert changes_of(ws).to_json() == told
    assert not undo(ws)


def test_a_failing_write_takes_back_what_was_written(
    ws: Workspace, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree_of(host)
    for name in ("app.py", "run.sh", "docs/guide.md"):
        (ws.folder / "src" / name).write_text("agent\n")
    real, calls = os.rename, []

    def full_disk(*args: object, **kwargs: object) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        real(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", full_disk)
    with pytest.raises(WorkspaceError, match="No space left"):
        apply_changes(ws)
    assert tree_of(host) == before
    assert len(changes_of(ws)) == 3


@given(tree=trees, steps=edits)
@settings(max_examples=120, deadline=None)
def test_applying_any_edits_gives_the_host_the_same_tree(tree: Tree, steps: list[Edit]) -> None:
    with memory_folder() as folder:
        top = Path(folder)
        build(top / "host", tree)
        ws = prepare(top / "host")
        for step in steps:
            edit(ws.folder / "src", step)
        before = tree_of(top / "host")
        if (ws.folder / "src").is_dir():
            apply_changes(ws)
            assert tree_of(top / "host") == tree_of(ws.folder / "src")
            assert len(changes_of(ws)) == 0
            undo(ws)
            assert tree_of(top / "host") == before
