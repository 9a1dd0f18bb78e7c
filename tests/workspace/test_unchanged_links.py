"""A host link that says what it said has not changed, whatever its stamps are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workspace.copies import make_tree, prepare, tree_of
from toolkit.errors import WorkspaceConflictError
from toolkit.workspace import HostMount, WorkspaceSection


def made_again(link: Path) -> None:
    target = link.readlink()
    link.unlink()
    link.symlink_to(target)


def with_another_time(link: Path) -> None:
    os.utime(link, (1, 1), follow_symlinks=False)


def with_a_second_name(link: Path) -> None:
    os.link(link, link.with_name("second"), follow_symlinks=False)


touched = pytest.mark.parametrize("touch", [made_again, with_another_time, with_a_second_name])
Touch = Callable[[Path], None]


@pytest.fixture
def host(tmp_path: Path) -> Path:
    host = make_tree(tmp_path / "host", {"a": b"a\n", "d/b": b"b\n", "link": "a", "d/up": "../a"})
    (host / "d/absolute").symlink_to(host.resolve() / "d" / "b")
    (host / "to_top").symlink_to(host.resolve())
    return host


@touched
@pytest.mark.parametrize("name", ["link", "d/up", "d/absolute", "to_top"])
@pytest.mark.parametrize("undone", [False, True])
def test_what_the_agent_makes_of_it_is_applied(host: Path, touch: Touch, name: str, undone: bool) -> None:
    ws = prepare(host)
    copy = ws.temp_dir / "src" / name
    copy.unlink()
    copy.symlink_to("elsewhere")
    if undone:
        ws.apply()
        ws.undo_apply()
    touch(host / name)

    assert [(one.path, one.action) for one in ws.apply().changes] == [(f"src/{name}", "replaced")]

    assert (host / name).readlink() == Path("elsewhere")


@touched
@pytest.mark.parametrize("name", ["link", "d/absolute"])
def test_it_goes_where_the_agent_removed_it(host: Path, touch: Touch, name: str) -> None:
    ws = prepare(host)
    (ws.temp_dir / "src" / name).unlink()
    touch(host / name)
    assert [one.action for one in ws.apply().changes] == ["deleted"]
    assert not (host / name).is_symlink()


@pytest.mark.parametrize(("name", "there"), [("link", "d/b"), ("d/absolute", "{host}/a"), ("d/absolute", "/nowhere")])
@pytest.mark.parametrize("deletes", [False, True])
def test_one_that_says_something_else_is_a_conflict(host: Path, name: str, there: str, deletes: bool) -> None:
    ws = prepare(host)
    copy = ws.temp_dir / "src" / name
    copy.unlink()
    if not deletes:
        copy.symlink_to("elsewhere")
    (host / name).unlink()
    (host / name).symlink_to(there.format(host=host.resolve()))
    before = tree_of(host)
    with pytest.raises(WorkspaceConflictError) as caught:
        ws.apply()
    assert [path for path, _ in caught.value.conflicts] == [f"src/{name}"]
    assert tree_of(host) == before


def test_one_by_the_name_that_the_mount_was_given_is_unchanged_while_its_stamps_are(tmp_path: Path, host: Path) -> None:
    by_name = tmp_path / "by_name"
    by_name.symlink_to(tmp_path)
    (host / "named").symlink_to(by_name / "host/a")
    ws = WorkspaceSection([HostMount(by_name / "host", "src")], [by_name], parent=tmp_path, keep=True)
    with ws:
        (ws.temp_dir / "src/named").unlink()
        (ws.temp_dir / "src/named").symlink_to("d/b")
        assert [one.action for one in ws.apply().changes] == ["replaced"]
    assert (host / "named").readlink() == Path("d/b")
