"""Bring in once what changed on the host, into a workspace that was worked in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from toolkit.errors import WorkspaceConflictError, WorkspaceError
from toolkit.workspace import HostMount, WorkspaceSection


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    shop = tmp_path / "shop"
    (shop / "src").mkdir(parents=True)
    for name in ("a", "b", "src/c"):
        (shop / f"{name}.txt").write_text(f"{name} as it was\n")
    return shop


def kept(shop: Path, mount: HostMount | None = None) -> Path:
    """A workspace that was prepared and let go of."""
    with WorkspaceSection([mount or HostMount(shop)], [shop.parent], parent=shop.parent, keep=True) as section:
        return section.temp_dir


def told(section: WorkspaceSection, **options: list[Path]) -> set[tuple[str, str]]:
    return {(event.kind, event.path) for event in section.update_from_host(**options)}


def test_what_nobody_touched_is_updated_and_what_both_changed_stays(shop: Path) -> None:
    copy = kept(shop)
    (copy / "shop" / "b.txt").write_text("the agent's\n")
    (shop / "a.txt").write_text("the host's\n")
    (shop / "b.txt").write_text("the host's\n")
    (shop / "src" / "c.txt").unlink()
    (shop / "src" / "d.txt").write_text("new\n")
    section = WorkspaceSection.open(copy)
    expected = {("copied", "shop/a.txt"), ("conflict", "shop/b.txt"), ("removed", "shop/src/c.txt")}
    assert told(section) == {*expected, ("copied", "shop/src/d.txt")}
    assert (copy / "shop" / "a.txt").read_text() == "the host's\n"
    assert (copy / "shop" / "b.txt").read_text() == "the agent's\n"
    assert [change.path for change in section.changes()] == ["shop/b.txt"]
    assert told(section) == {("conflict", "shop/b.txt")}


def test_a_file_that_only_got_another_time_is_still_untouched(shop: Path) -> None:
    copy = kept(shop)
    os.utime(copy / "shop" / "a.txt")
    (copy / "shop" / "b.txt").chmod(0o600)
    (copy / "shop" / "b.txt").chmod(0o644)
    (shop / "a.txt").write_text("the host's\n")
    section = WorkspaceSection.open(copy)
    assert told(section) == {("copied", "shop/a.txt")}
    assert not list(section.changes())


def test_an_edit_whose_time_and_size_were_set_back_is_not_overwritten(shop: Path) -> None:
    copy = kept(shop)
    before = (copy / "shop" / "a.txt").stat()
    (copy / "shop" / "a.txt").write_text("A as it was\n")
    os.utime(copy / "shop" / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    (shop / "a.txt").write_text("the host's\n")
    assert told(WorkspaceSection.open(copy)) == {("conflict", "shop/a.txt")}
    assert (copy / "shop" / "a.txt").read_text() == "A as it was\n"


def test_the_same_edit_on_both_sides_is_no_conflict(shop: Path) -> None:
    copy = kept(shop)
    for folder in (shop, copy / "shop"):
        (folder / "a.txt").write_text("the same\n")
        (folder / "new.txt").write_text("the same\n")
    assert told(WorkspaceSection.open(copy)) == set()


def test_the_same_new_file_on_both_sides_is_one_that_was_copied(shop: Path) -> None:
    copy = kept(shop)
    for side in (shop, copy / "shop"):
        (side / "new.txt").write_text("the same\n")
        (side / "other.txt").write_text("the same\n")
    (copy / "shop" / "other.txt").chmod(0o755)
    section = WorkspaceSection.open(copy)
    assert told(section) == set()
    assert [change.path for change in section.changes()] == ["shop/other.txt"]
    (shop / "new.txt").write_text("the host's\n")
    assert told(section) == {("copied", "shop/new.txt")}
    assert (copy / "shop" / "new.txt").read_text() == "the host's\n"


def test_the_same_link_on_both_sides_is_no_conflict(shop: Path) -> None:
    (shop / "old").symlink_to("a.txt")
    copy = kept(shop)
    for side in (shop, copy / "shop"):
        (side / "new").symlink_to("b.txt")
        (side / "old").unlink()
        (side / "old").symlink_to("b.txt")
    section = WorkspaceSection.open(copy)
    assert told(section) == set()
    assert not list(section.changes())
    for name in ("new", "old"):
        (shop / name).unlink()
        (shop / name).symlink_to("src/c.txt")
    assert told(section) == {("copied", "shop/new"), ("copied", "shop/old")}


@pytest.mark.parametrize("on_host", [(), ("note.txt",), ("other.txt",)], ids=["empty", "in conflict", "more in it"])
def test_what_the_agent_put_into_a_folder_that_the_host_has_made_too_stays_a_change(
    shop: Path, on_host: tuple[str, ...]
) -> None:
    copy = kept(shop)
    (copy / "shop" / "new" / "below").mkdir(parents=True)
    for name in ("note.txt", "below/deep.txt"):
        (copy / "shop" / "new" / name).write_text("the agent's work\n")
    (shop / "new").mkdir()
    for name in on_host:
        (shop / "new" / name).write_text("the host's\n")
    section = WorkspaceSection.open(copy)
    section.update_from_host()
    work = ["shop/new/below", "shop/new/below/deep.txt", "shop/new/note.txt"]
    assert [change.path for change in section.changes()] == work
    section.apply(paths=["shop/new/below"])
    assert (shop / "new" / "below" / "deep.txt").read_text() == "the agent's work\n"


def test_a_git_folder_that_was_copied_is_left_alone(shop: Path) -> None:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*command, "init", "-q"], cwd=shop, check=True, timeout=30)
    copy = kept(shop, HostMount(shop, git="copy"))
    before = {path.relative_to(copy) for path in (copy / "shop" / ".git").rglob("*")}
    for words in (["add", "-A"], ["commit", "-qm", "on the host"]):
        subprocess.run([*command, *words], cwd=shop, check=True, timeout=30)
    (shop / "a.txt").write_text("the host's\n")
    assert told(WorkspaceSection.open(copy)) == {("copied", "shop/a.txt")}
    assert {path.relative_to(copy) for path in (copy / "shop" / ".git").rglob("*")} == before


def test_new_folders_that_are_named_stay_outside_and_copied_ones_go_on_being_updated(shop: Path) -> None:
    copy = kept(shop)
    (shop / ".venv").mkdir()
    (shop / ".venv" / "large").write_text("not for the copy")
    (shop / "src" / "c.txt").write_text("the host's\n")
    section = WorkspaceSection.open(copy)
    assert told(section, besides=[shop / ".venv", shop / "src"]) == {("copied", "shop/src/c.txt")}
    assert not (copy / "shop" / ".venv").exists()


def test_a_mount_that_is_gone_is_an_error_and_the_copy_stays(shop: Path) -> None:
    copy = kept(shop)
    shop.rename(shop.with_name("elsewhere"))
    with pytest.raises(WorkspaceError):
        WorkspaceSection.open(copy).update_from_host()
    assert (copy / "shop" / "a.txt").read_text() == "a as it was\n"


LINES = [f"line {number}\n" for number in range(9)]


def both_change(shop: Path, *, host: dict[int, str], agent: dict[int, str], name: str = "a.txt") -> WorkspaceSection:
    """A workspace in which both sides have changed lines of one file."""
    (shop / name).write_text("".join(LINES))
    copy = kept(shop)
    for folder, lines in ((copy / "shop", agent), (shop, host)):
        (folder / name).write_text("".join(lines.get(number, line) for number, line in enumerate(LINES)))
    return WorkspaceSection.open(copy)


def test_a_text_that_both_changed_is_merged_and_applies_without_a_conflict(shop: Path) -> None:
    section = both_change(shop, host={0: "the host's\n"}, agent={8: "the agent's\n"})
    assert told(section) == {("merged", "shop/a.txt")}
    merged = "".join(["the host's\n", *LINES[1:8], "the agent's\n"])
    assert (section.temp_dir / "shop" / "a.txt").read_text() == merged
    assert (shop / "a.txt").read_text() == "".join(["the host's\n", *LINES[1:]])
    patch = section.changes().patch().decode()
    assert "+the agent's" in patch
    assert "the host's" not in [line[1:] for line in patch.splitlines() if line[:1] in "+-"]
    assert told(section) == set()
    assert [change.path for change in section.apply().changes] == ["shop/a.txt"]
    assert (shop / "a.txt").read_text() == merged
    assert not section.changes()


def test_a_merge_goes_on_from_the_last_one(shop: Path) -> None:
    section = both_change(shop, host={0: "the host's\n"}, agent={8: "the agent's\n"})
    section.update_from_host()
    text = (shop / "a.txt").read_text()
    (shop / "a.txt").write_text(text.replace("line 4", "line four"))
    assert told(section) == {("merged", "shop/a.txt")}
    expected = ["the host's\n", *LINES[1:4], "line four\n", *LINES[5:8], "the agent's\n"]
    assert (section.temp_dir / "shop" / "a.txt").read_text() == "".join(expected)


def test_lines_that_both_changed_stay_on_both_sides(shop: Path) -> None:
    section = both_change(shop, host={4: "the host's\n"}, agent={4: "the agent's\n"})
    assert told(section) == {("conflict", "shop/a.txt")}
    assert "the agent's\n" in (section.temp_dir / "shop" / "a.txt").read_text()
    assert "the host's\n" in (shop / "a.txt").read_text()
    with pytest.raises(WorkspaceConflictError):
        section.apply()


@pytest.mark.parametrize("kind", ["binary", "link", "removed", "large"])
def test_what_cannot_be_merged_is_told_and_stays(shop: Path, kind: str) -> None:
    data = b"\0\1\2" if kind == "binary" else b"x" * 80 + b"\n"
    data = data * (120_000 if kind == "large" else 1)
    (shop / "a.txt").write_bytes(data + b"1\n2\n3\n4\n")
    copy = kept(shop)
    ours = copy / "shop" / "a.txt"
    if kind in ("link", "removed"):
        ours.unlink()
    if kind == "link":
        ours.symlink_to("b.txt")
    elif kind != "removed":
        ours.write_bytes(b"0\n" + data + b"1\n2\n3\n4\n")
    (shop / "a.txt").write_bytes(data + b"1\n2\n3\n5\n")
    before = None if kind == "removed" else ours.read_bytes()
    section = WorkspaceSection.open(copy)
    assert told(section) == {("conflict", "shop/a.txt")}
    assert (None if kind == "removed" else ours.read_bytes()) == before
    assert ours.is_symlink() == (kind == "link")
    assert (shop / "a.txt").read_bytes().endswith(b"5\n")


def test_the_modes_of_both_sides_are_merged_too(shop: Path) -> None:
    (shop / "a.txt").write_text("".join(LINES))
    (shop / "b.txt").write_text("".join(LINES))
    copy = kept(shop)
    for name in ("a.txt", "b.txt"):
        (copy / "shop" / name).write_text("".join([*LINES[:8], "the agent's\n"]))
        (shop / name).write_text("".join(["the host's\n", *LINES[1:]]))
    (copy / "shop" / "a.txt").chmod(0o755)
    (shop / "b.txt").chmod(0o755)
    section = WorkspaceSection.open(copy)
    assert told(section) == {("merged", "shop/a.txt"), ("merged", "shop/b.txt")}
    assert [(copy / "shop" / name).stat().st_mode & 0o777 for name in ("a.txt", "b.txt")] == [0o755, 0o755]
    section.apply()
    assert [(shop / name).stat().st_mode & 0o777 for name in ("a.txt", "b.txt")] == [0o755, 0o755]


def test_a_merge_is_taken_back_by_a_rewind_and_made_again_by_the_next_update(shop: Path) -> None:
    section = both_change(shop, host={0: "the host's\n"}, agent={8: "the agent's\n"})
    section.snapshot("before")
    section.update_from_host()
    section.rewind("before")
    assert (section.temp_dir / "shop" / "a.txt").read_text() == "".join([*LINES[:8], "the agent's\n"])
    assert told(section) == {("merged", "shop/a.txt")}
    assert (section.temp_dir / "shop" / "a.txt").read_text().startswith("the host's\n")
