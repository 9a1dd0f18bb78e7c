"""A workspace over a kept copy is what a plain copy is: the same changes, the same way back, and nothing below moves."""

from __future__ import annotations

import errno
import os
import random
import shutil
import socket
from pathlib import Path

import pytest

from tests.workspace.overlays import as_agent, do_something, make_host, needs_overlay, section_of, tree_hash
from toolkit.errors import ToolError, WorkspaceError
from toolkit.tools.workspace_path import CurrentFolder, host_path
from toolkit.workspace import Changes, HostMount, WorkspaceSection

pytestmark = needs_overlay


def facts_of(changes: Changes) -> list[dict[str, object]]:
    return changes.to_json()


def _would_apply(section: WorkspaceSection) -> object:
    try:
        return section.apply(dry_run=True)
    except WorkspaceError as error:  # links that lead out, for example
        return str(error)


@pytest.mark.parametrize("seed", range(25))
def test_whatever_an_agent_does_the_changes_are_those_of_a_copy(tmp_path: Path, seed: int) -> None:
    host = make_host(tmp_path / "host")
    over = section_of(host, tmp_path / "home")
    copy = section_of(host, tmp_path / "home", backend="copy")
    layers = over.layers
    assert layers is not None
    before = tree_hash(layers[0])
    with as_agent(over) as whole:
        for top in (whole / "src", copy.temp_dir / "src"):
            rng = random.Random(seed)
            for _ in range(rng.randrange(1, 25)):
                do_something(rng, top)

    assert over.fingerprint() == copy.fingerprint()
    assert facts_of(over.changes()) == facts_of(copy.changes())
    assert over.changes().patch() == copy.changes().patch()
    assert tree_hash(layers[0]) == before
    assert _would_apply(over) == _would_apply(copy)
    assert over.make_whole()
    assert over.layers is None
    assert over.fingerprint() == copy.fingerprint()
    assert facts_of(over.changes()) == facts_of(copy.changes())
    assert tree_hash(layers[0]) == before
    for section in (over, copy):
        section.cleanup()


def test_the_folder_on_the_host_holds_only_what_was_written(tmp_path: Path) -> None:
    host = make_host(tmp_path / "host")
    with section_of(host, tmp_path / "home") as section:
        with as_agent(section) as whole:
            (whole / "src" / "docs" / "more.txt").write_text("more", encoding="utf-8")
        files = [path for path in section.temp_dir.rglob("*") if path.is_file()]
        assert [path.name for path in files] == ["more.txt"]
        assert section.filled_by[0] == "overlay"


def test_changes_are_applied_and_taken_back(tmp_path: Path) -> None:
    host = make_host(tmp_path / "host")
    before = {path: path.read_bytes() for path in host.rglob("*.txt")}
    with section_of(host, tmp_path / "home") as section:
        with as_agent(section) as whole:
            first, second = sorted(path.name for path in (whole / "src" / "a").glob("*.txt"))[:2]
            (whole / "src" / "a" / first).write_bytes(b"changed")
            (whole / "src" / "a" / second).unlink()
        section.apply()
        assert (host / "a" / first).read_bytes() == b"changed"
        assert not (host / "a" / second).exists()
        assert len(section.changes()) == 0
        with as_agent(section) as whole:
            (whole / "src" / "a" / first).write_bytes(b"changed again")
        assert [change.kind for change in section.changes()] == ["modified"]
        assert section.undo_apply()
        assert {path: path.read_bytes() for path in host.rglob("*.txt")} == before


def test_what_both_changed_is_merged_with_the_kept_copys_bytes(tmp_path: Path) -> None:
    host = make_host(tmp_path / "host")
    text = "".join(f"line {number}\n" for number in range(30))
    (host / "both.txt").write_text(text, encoding="utf-8")
    with section_of(host, tmp_path / "home") as section:
        with as_agent(section) as whole:
            (whole / "src" / "both.txt").write_text(text.replace("line 3\n", "agent\n"), encoding="utf-8")
        (host / "both.txt").write_text(text.replace("line 25\n", "owner\n"), encoding="utf-8")
        section.apply()
    assert (host / "both.txt").read_text(encoding="utf-8") == text.replace("line 3\n", "agent\n").replace(
        "line 25\n", "owner\n"
    )


def test_a_snapshot_is_gone_back_to(tmp_path: Path) -> None:
    host = make_host(tmp_path / "host")
    with section_of(host, tmp_path / "home") as section:
        untouched = section.fingerprint()
        section.snapshot("start")
        with as_agent(section) as whole:
            shutil.rmtree(whole / "src" / "a")
            (whole / "src" / "new").write_bytes(b"new")
        middle = section.fingerprint()
        section.snapshot("middle")
        with as_agent(section) as whole:
            (whole / "src" / "new").write_bytes(b"newer")
        section.rewind("middle")
        assert section.fingerprint() == middle
        section.rewind("start")
        assert section.fingerprint() == untouched
        assert len(section.changes()) == 0
        assert section.filled_by == ("copy", "it was an overlay before")


def test_going_back_leaves_a_large_file_alone_that_only_the_host_changed(tmp_path: Path) -> None:
    host = make_host(tmp_path / "host")
    (host / "large").write_bytes(b"x" * (2 << 20))
    with section_of(host, tmp_path / "home") as section:
        section.snapshot("start")
        with as_agent(section) as whole:
            (whole / "src" / "new").write_bytes(b"new")
        (host / "large").unlink()
        section.rewind("start")
        assert len(section.changes()) == 0
        assert len(section.diff("start")) == 0


def test_holes_stay_holes_in_the_plain_copy(tmp_path: Path) -> None:
    host = make_host(tmp_path / "host")
    with section_of(host, tmp_path / "home") as section:
        with as_agent(section) as whole, (whole / "src" / "holes").open("wb") as file:
            file.truncate(1 << 30)
            file.seek(1 << 29)
            file.write(b"here")
        assert section.make_whole()
        made = section.temp_dir / "src" / "holes"
        assert made.stat().st_size == 1 << 30
        assert made.stat().st_blocks < 1000
        with made.open("rb") as file:
            file.seek(1 << 29)
            assert file.read(5) == b"here\0"


def test_what_is_no_file_is_in_the_plain_copy_too(tmp_path: Path) -> None:
    host = make_host(tmp_path / "host")
    with section_of(host, tmp_path / "home") as section:
        with as_agent(section) as whole, socket.socket(socket.AF_UNIX) as one:
            os.mkfifo(whole / "src" / "fifo")
            one.bind(str(whole / "src" / "socket"))
        told = facts_of(section.changes())
        assert section.make_whole()
        assert facts_of(section.changes()) == told
        assert len(told) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="the kernel notes for root only where a file was")
def test_a_file_that_was_moved_and_then_edited_is_renamed(tmp_path: Path) -> None:
    host, home = make_host(tmp_path / "host"), tmp_path / "home"
    text = "".join(f"line {number}\n" for number in range(30))
    for name in ("a/b/moved.txt", "linked.txt", "to-a-folder.txt"):
        (host / name).write_text(text + name, encoding="utf-8")
    section_of(host, home).cleanup()
    (host / "newer.txt").write_text(text + "newer", encoding="utf-8")
    over, copy = section_of(host, home), section_of(host, home, backend="copy")
    with as_agent(over) as whole:
        for top in (whole / "src", copy.temp_dir / "src"):
            for old, new in (("a/b/moved.txt", "b1"), ("newer.txt", "docs/b2"), ("to-a-folder.txt", "b3")):
                (top / old).rename(top / new)
            os.link(top / "linked.txt", top / "b4")
            (top / "linked.txt").unlink()
            (top / "to-a-folder.txt").mkdir()
            for number, name in enumerate(("b1", "docs/b2", "b3", "b4")):
                with (top / name).open("a") as file:
                    file.write(f"\nedited {number}\n")
    assert [change.old_path for change in over.changes() if change.kind == "renamed"] == [
        "src/a/b/moved.txt",
        "src/to-a-folder.txt",
        "src/linked.txt",
        "src/newer.txt",
    ]
    assert facts_of(over.changes()) == facts_of(copy.changes())
    for section in (over, copy):
        section.cleanup()


@pytest.mark.parametrize("leads_to", ["docs", "/etc", "nowhere", "a"])
def test_what_became_a_link_is_one_in_the_plain_copy_too(tmp_path: Path, leads_to: str) -> None:
    host = make_host(tmp_path / "host")
    over, copy = section_of(host, tmp_path / "home"), section_of(host, tmp_path / "home", backend="copy")
    with as_agent(over) as whole:
        for top in (whole, copy.temp_dir):
            shutil.rmtree(top / "src" / "a")
            (top / "src" / "a").symlink_to(leads_to)
    assert over.make_whole()
    assert over.fingerprint() == copy.fingerprint()
    assert facts_of(over.changes()) == facts_of(copy.changes())
    for section in (over, copy):
        section.cleanup()


def test_another_process_opens_it_as_it_is(tmp_path: Path) -> None:
    host = make_host(tmp_path / "host")
    section = section_of(host, tmp_path / "home")
    with as_agent(section) as whole:
        (whole / "src" / "new").write_bytes(b"new")
    section.release()

    again = WorkspaceSection.open(section.temp_dir)
    assert again.filled_by == section.filled_by
    assert again.layers == section.layers
    assert [change.path for change in again.changes()] == ["src/new"]
    again.cleanup()
    assert not section.temp_dir.exists()


def test_a_plain_copy_that_was_begun_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = make_host(tmp_path / "host")
    section = section_of(host, tmp_path / "home")
    with as_agent(section) as whole:
        (whole / "src" / "new").write_bytes(b"new")
    wanted = section.fingerprint()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    workspace = section._prepared()
    monkeypatch.setattr(type(workspace), "lay_over", killed)
    with pytest.raises(KeyboardInterrupt):
        section.make_whole()
    monkeypatch.undo()
    workspace.release()

    again = WorkspaceSection.open(section.temp_dir)
    assert again.layers is None
    assert again.fingerprint() == wanted
    assert [change.path for change in again.changes()] == ["src/new"]
    again.cleanup()


def test_a_plain_copy_that_finds_no_room_leaves_nothing_and_says_how_much_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with section_of(make_host(tmp_path / "host"), tmp_path / "home") as section:
        programs = tmp_path / "programs"
        programs.mkdir()
        full = os.strerror(errno.ENOSPC)
        (programs / "cp").write_text(f'#!/bin/sh\necho "cp: error copying: {full}" >&2\nexit 1\n', encoding="utf-8")
        (programs / "cp").chmod(0o755)
        with monkeypatch.context() as patched:
            patched.setenv("PATH", str(programs))
            with pytest.raises(WorkspaceError) as caught:
                section.make_whole()
        assert [line for line in caught.value.where if line.endswith("are free")]
        assert not (section.state_dir / "whole").exists()
        assert section.layers is not None
        assert section.make_whole()


def test_a_plain_copy_whose_program_is_killed_is_an_error_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with section_of(make_host(tmp_path / "host"), tmp_path / "home") as section:
        (tmp_path / "cp").write_text("#!/bin/sh\nkill -9 $$\n", encoding="utf-8")
        (tmp_path / "cp").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(WorkspaceError) as caught:
            section.make_whole()
        assert "cp ended with -9" in str(caught.value)


def test_a_path_of_the_agent_leads_into_the_whole(tmp_path: Path) -> None:
    host = make_host(tmp_path / "host")
    (host / "docs" / "deep.txt").write_bytes(b"deep")
    with section_of(host, tmp_path / "home") as section, as_agent(section) as whole:
        paths = CurrentFolder(whole / "src")
        assert host_path(paths, "docs/deep.txt").read_bytes() == b"deep"
        assert host_path(paths, "a/link/deep.txt").read_bytes() == b"deep"
        host_path(paths, "docs/new.txt").write_bytes(b"new")
        with pytest.raises(ToolError):
            host_path(paths, "../../etc/passwd")
        (whole / "src" / "out").symlink_to("/etc")
        with pytest.raises(ToolError):
            host_path(paths, "out/passwd")
        assert {change.path for change in section.changes()} == {"src/docs/new.txt", "src/out"}


@pytest.mark.parametrize("backend", ["Overlay", "", "link"])
def test_a_backend_that_is_none_is_refused(backend: str) -> None:
    with pytest.raises(WorkspaceError):
        WorkspaceSection([], backend=backend)  # type: ignore[arg-type]


def test_links_are_judged_as_the_agent_sees_them(tmp_path: Path) -> None:
    host = make_host(tmp_path / "host")
    (host / "out").symlink_to("docs")
    with section_of(host, tmp_path / "home") as over, section_of(host, tmp_path / "home", backend="copy") as copy:
        with as_agent(over) as whole:
            for top in (whole, copy.temp_dir):
                (top / "src" / "a" / "way").symlink_to("../out/../../../etc")
                (top / "src" / "a" / "second").symlink_to("link/../../x")
                (top / "src" / "a" / "long").symlink_to("n" * 300)
        assert facts_of(over.changes()) == facts_of(copy.changes())


def test_an_overlay_that_cannot_be_had_is_refused_or_left(tmp_path: Path) -> None:
    host = make_host(tmp_path / "host")
    mount = HostMount(host, "src")
    section = WorkspaceSection([mount], [tmp_path], parent=tmp_path, backend="overlay")
    with pytest.raises(WorkspaceError) as caught:
        section.prepare(home=tmp_path / "home", no_overlay="a test says so")
    assert caught.value.where == ("a test says so",)
    assert not [path for path in tmp_path.iterdir() if "toolkit-workspace" in path.name]
    with WorkspaceSection([mount], [tmp_path], parent=tmp_path, backend="auto") as auto:
        assert auto.filled_by == ("copy", "42 files: a copy is as quick") or auto.filled_by[0] == "copy"
    odd = tmp_path / "a,b"
    odd.mkdir()
    with pytest.raises(WorkspaceError):
        WorkspaceSection([mount], [tmp_path], parent=odd, backend="overlay").prepare(home=tmp_path / "home")
    assert list(odd.iterdir()) == []
