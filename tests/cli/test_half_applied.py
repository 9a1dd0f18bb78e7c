"""A run whose undo was killed half way: every command that is about it says so, and what to type."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli._running import Desk
from tests.runs.half_undone import NEW, OLD, applied_run, files_of, half_undone_run, kill_undo, project_in
from tests.sandbox.jails import needs_jail
from toolkit.runs import StoredRun
from toolkit.testing import ScriptedAPI, text, tool_use


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def half_undone(desk: Desk) -> StoredRun:
    return asyncio.run(half_undone_run(project_in(desk.folder), home=desk.home))


def test_looking_at_it_says_so(desk: Desk, half_undone: StoredRun) -> None:
    settle = f"toolkit runs apply {half_undone.id} --resume"
    listed = desk.toolkit("runs", "list")
    assert "ok, half applied" in listed.out
    assert settle in listed.err
    assert [one["unfinished_apply"] for one in json.loads(desk.toolkit("runs", "list", "--json").out)] == [True]
    assert settle in desk.toolkit("runs", "show", "last").out
    assert json.loads(desk.toolkit("runs", "show", "last", "--json").out)["unfinished_apply"] is True
    for form in ((), ("--stat",), ("--json",)):
        assert settle in desk.toolkit("runs", "diff", "last", *form).err

    assert desk.toolkit("runs", "apply", "last", "--undo").code == 0
    listed = desk.toolkit("runs", "list")
    assert ("half applied" in listed.out, listed.err) == (False, "")
    assert "interrupted" not in desk.toolkit("runs", "show", "last").out
    assert desk.toolkit("runs", "diff", "last").err == ""


def test_it_is_kept_whatever_removes_others(desk: Desk, half_undone: StoredRun) -> None:
    settle, project = f"toolkit runs apply {half_undone.id} --resume", desk.folder / "shop"
    mixed = files_of(project)
    (desk.folder / "other").mkdir()
    other = asyncio.run(applied_run(project_in(desk.folder / "other"), home=desk.home))

    cleaned = desk.toolkit("runs", "clean", "--older-than", "0s")
    assert cleaned.code == 1
    assert settle in cleaned.err
    assert f"removed   {other.id}" in cleaned.out
    assert f"stays     {half_undone.id}" in cleaned.out
    assert not Path(other.facts["workspace"]).exists()
    assert desk.toolkit("runs", "clean", "--older-than", "0s", "--json").code == 1

    by_age = desk.toolkit("runs", "remove", "--older-than", "0s")
    assert (by_age.code, by_age.out) == (0, f"removed {other.id}\n")
    assert settle in by_age.err
    by_name = desk.toolkit("runs", "remove", "last")
    assert (by_name.code, by_name.out) == (1, "")
    assert settle in by_name.err

    assert files_of(project) == mixed
    assert desk.toolkit("runs", "apply", "last", "--resume").code == 0
    assert files_of(project) == NEW
    assert desk.toolkit("runs", "remove", "last").code == 0


@needs_jail
def test_it_is_no_place_to_go_on_or_back_from(tmp_path: Path, scripted_api: Callable[..., ScriptedAPI]) -> None:
    edit = " ".join(f"echo new {name} > {name}.txt;" for name in "abc")
    api = scripted_api([tool_use("Bash", command=edit)], [text("one")], [text("two")])
    desk, project = Desk(tmp_path, api), project_in(tmp_path)
    assert desk.toolkit("run", "ask one", "--mount", "shop").code == 0
    assert desk.toolkit("runs", "apply", "last").code == 0
    first = desk.last()
    kill_undo(first, project)
    settle, mixed = f"toolkit runs apply {first.id} --resume", files_of(project)

    back = desk.toolkit("runs", "rewind", "last", "--to", "1")
    assert (back.code, settle in back.err) == (1, True)
    assert len(first.checkpoints) == 1
    on = desk.toolkit("run", "ask two", "--resume", "last")
    assert (on.code, settle in on.err) == (1, True)
    copy = Path(first.facts["workspace"]) / "shop"
    assert (files_of(copy), files_of(project)) == (NEW, mixed)
    assert list(copy.glob(".toolkit-apply-*")) == []

    assert desk.toolkit("runs", "apply", first.id, "--undo").code == 0
    assert files_of(project) == OLD
    assert desk.toolkit("run", "ask two", "--resume", first.id).code == 0
