"""One step on the host: what is met there on the way, and what a folder holds that nobody knew of."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workspace.copies import make_tree, prepare
from toolkit.errors import WorkspaceConflictError, WorkspaceSecurityError
from toolkit_workspace.applying.moves import Move
from toolkit_workspace.applying.steps import HostVersion, Step
from toolkit_workspace.record.content import Content, ContentGone, Hosts
from toolkit_workspace.workspace import Workspace

FOLDER, FILE = HostVersion("d", 0o755), HostVersion("f", 0o644)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "host", {"d/one": b"1\n"})


@pytest.fixture
def hosts(host: Path) -> Iterator[Hosts]:
    workspace = Workspace(prepare(host).temp_dir)
    with Hosts(workspace.record, workspace.store) as opened:
        yield opened


def move(start: HostVersion | None, goal: HostVersion | None, path: bytes = b"d") -> Move:
    return Move(Step(0, path, b"src/" + path, start, goal), start, goal, b".temporary")


def test_a_folder_that_holds_what_the_workspace_never_had_stays(host: Path, hosts: Hosts) -> None:
    move(FOLDER, None).make(hosts)
    assert (host / "d/one").exists()
    (host / "d/one").unlink()
    move(FOLDER, None).make(hosts)
    assert not (host / "d").exists()
    move(FOLDER, None).make(hosts)  # what is made stays made


def test_a_folder_that_holds_something_does_not_become_another_thing(host: Path, hosts: Hosts) -> None:
    with pytest.raises(WorkspaceConflictError):
        move(FOLDER, FILE).make(hosts)
    assert (host / "d/one").exists()


@pytest.mark.parametrize("start", [FILE, FOLDER])
def test_what_cannot_be_removed_for_another_reason_is_no_success(
    host: Path, hosts: Hosts, start: HostVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host / "d/one").unlink()

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "rmdir", refuse)
    monkeypatch.setattr(Hosts, "open_parent", refuse) if start is FILE else None
    with pytest.raises(OSError, match="no"):
        move(start, None).make(hosts)


def test_a_file_that_somebody_removed_is_not_made_again(host: Path, hosts: Hosts) -> None:
    other = HostVersion("f", 0o644, sha256="other")
    gone = move(FILE, other, b"d/two")
    for look in (gone.check, gone.make):
        with pytest.raises(WorkspaceConflictError):
            look(hosts)
    assert not (host / "d/two").exists()


def test_a_file_that_changes_while_it_is_looked_at_is_a_conflict(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(*_: Any) -> str:
        raise ContentGone("a file changed while it was read")

    monkeypatch.setattr(Content, "sha256", change)
    changing = move(FILE, None, b"d/one")
    for look in (changing.check, changing.make):
        with pytest.raises(WorkspaceConflictError):
            look(hosts)


def test_the_way_to_something_new_has_to_be_there(hosts: Hosts) -> None:
    with pytest.raises(WorkspaceSecurityError):
        move(None, FILE, b"gone/new").make(hosts)
    move(FILE, None, b"gone/old").make(hosts)
