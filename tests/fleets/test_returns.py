"""A run comes back from a worker as a stored run like any other."""

from __future__ import annotations

import os
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.fleets.travelled import Fleet
from toolkit.errors import RunError, WorkspaceConflictError
from toolkit.fleets.caller.collecting import Collector
from toolkit.fleets.parcels import ParcelError
from toolkit.fleets.returns import bring, take_in
from toolkit.fleets.workers import Sent
from toolkit.runs import load_run, run
from toolkit.testing import FakeCLI, text
from toolkit.workspace import HostMount, WorkspaceSection


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "host" / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("one\ntwo\nthree\nfour\nfive\n")
    (folder / "src" / "old.py").write_text("old\n" * 20)
    (folder / "gone").mkdir()
    (folder / "gone" / "a.txt").write_text("a")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "large.bin").write_bytes(os.urandom(3 << 20))
    return folder


def _section(project: Path) -> WorkspaceSection:
    return WorkspaceSection([HostMount(project)], [project.parent])


def _work(top: Path) -> None:
    copy = top / "project"
    app = copy / "src" / "app.py"
    app.write_text(app.read_text().replace("two", "TWO"))
    (copy / "src" / "old.py").rename(copy / "src" / "new.py")
    (copy / "gone" / "a.txt").unlink()
    (copy / "gone").rmdir()
    (copy / "run.sh").chmod(0o755)
    (copy / "added").mkdir()
    (copy / "added" / "b.txt").write_text("b")
    (copy / "link").symlink_to("src/app.py")
    with (copy / "large.bin").open("ab") as file:
        file.write(b"more")


async def test_what_came_back_is_told_as_it_would_be_here(project: Path, fleet: Fleet, tmp_path: Path) -> None:
    back = await fleet.returned(_section(project), "one", _work)
    with _section(project) as here:
        _work(here.temp_dir)
        wanted = here.changes()
        assert [(one.kind, one.path) for one in back.changes()] == [(one.kind, one.path) for one in wanted]
        assert back.diff() == wanted.patch()
    assert {one["path"] for one in back.changed_files() or ()} == {one.path for one in wanted}
    result = back.result()
    assert (result.ok, result.text, back.state) == (True, "All done.", "finished")
    assert load_run("one", tmp_path / "caller").facts["mounts"] == [[str(project), "project"]]


async def test_what_came_back_is_applied_and_taken_back(project: Path, fleet: Fleet) -> None:
    before = _picture(project)
    back = await fleet.returned(_section(project), "one", _work)
    back.apply()
    assert (project / "src" / "app.py").read_text() == "one\nTWO\nthree\nfour\nfive\n"
    assert (project / "src" / "new.py").exists()
    assert not (project / "gone").exists()
    assert os.access(project / "run.sh", os.X_OK)
    assert (project / "link").is_symlink()
    assert not back.changes()
    assert back.undo_apply()
    assert _picture(project) == before


async def test_what_the_host_changed_meanwhile_is_merged_or_a_conflict(project: Path, fleet: Fleet) -> None:
    app = project / "src" / "app.py"
    back = await fleet.returned(_section(project), "one", _work)
    app.write_text(app.read_text().replace("five", "FIVE"))
    back.apply(paths=["project/src/app.py"])
    assert app.read_text() == "one\nTWO\nthree\nfour\nFIVE\n"
    back = await fleet.returned(_section(project), "two", lambda top: (top / "project/src/app.py").write_text("agent"))
    app.write_text("host")
    with pytest.raises(WorkspaceConflictError):
        back.apply()
    assert app.read_text() == "host"


async def test_a_thousand_runs_on_one_project_do_not_copy_it_a_thousand_times(project: Path, fleet: Fleet) -> None:
    back = await fleet.returned(_section(project), "one", lambda top: (top / "project" / "new").write_text("new"))
    kept = sum(path.lstat().st_size for path in back.folder.rglob("*") if path.is_file())
    assert kept < 200_000


async def test_a_run_without_a_workspace_comes_back_with_its_own_folder(fleet: Fleet, tmp_path: Path) -> None:
    await run("Say it.", transport=FakeCLI([text("done")]), run_id="own", home=tmp_path / "worker")
    stored = load_run("own", tmp_path / "worker")
    (stored.folder / "workspace" / "notes.txt").write_text("notes")
    back = fleet.take_in(bring(stored, fleet.store), None)
    assert (Path(back.facts["workspace"]) / "notes.txt").read_text() == "notes"
    assert Path(back.facts["workspace"]).parent == back.folder
    assert [event.name for event in back.events()] == [event.name for event in stored.events()]


async def test_a_run_is_taken_in_once(project: Path, fleet: Fleet) -> None:
    packed = fleet.packed(_section(project))
    brought = bring(await fleet.done(packed, "one", _work), fleet.store, pack=packed.pack.hash)
    first = fleet.take_in(brought, packed)
    marker = first.folder / "marker"
    marker.touch()
    assert fleet.take_in(brought, packed).folder == first.folder
    assert marker.exists()
    other = bring(await fleet.done(packed, "two", _work), fleet.store, pack=packed.pack.hash)
    with pytest.raises(ParcelError, match="it is another run"):
        take_in(other, fleet.store, run="one", pack=packed, home=fleet.top / "elsewhere")


async def test_files_that_are_larger_than_the_bound_stay_on_the_worker_and_the_rest_comes(
    project: Path, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = fleet.packed(_section(project))
    stored = await fleet.done(packed, "one", lambda top: (top / "project" / "huge").write_bytes(os.urandom(1 << 20)))
    brought = bring(stored, fleet.store, pack=packed.pack.hash, most_bytes=1 << 19)
    assert "more than the" in brought.left_there
    back = fleet.take_in(brought, packed)
    assert back.result().text == "All done."
    with pytest.raises(RunError, match="left its files on the worker") as caught:
        back.changes()
    assert stored.facts["workspace"] in caught.value.where[0]
    words = list[str]()
    collector = Collector(fleet.packs, fleet.store, words.append)
    monkeypatch.setenv("TOOLKIT_HOME", str(fleet.top / "another"))
    assert not await collector.take("one", Sent(asdict(brought)), packed.pack)  # else its worker would remove it
    assert Collector.has("one")
    assert stored.facts["workspace"] in words[0]
    with pytest.raises(RunError, match="it is more than the 64 B that come back"):
        bring(stored, fleet.store, pack=packed.pack.hash, name="small/runs/one", most_bytes=64)


async def test_a_result_larger_than_its_caller_allows_is_refused(project: Path, fleet: Fleet) -> None:
    packed = fleet.packed(_section(project))
    brought = bring(await fleet.done(packed, "one", _work), fleet.store, pack=packed.pack.hash)
    with pytest.raises(ParcelError, match="are allowed"):
        fleet.take_in(brought, packed, most_bytes=1 << 20)
    assert not (fleet.top / "caller" / "runs" / "one").exists()


async def test_the_agents_commits_come_back_as_a_branch(project: Path, fleet: Fleet) -> None:
    _git(project, "init", "-q", "-b", "main")
    _git(project, "add", "src")
    _git(project, "-c", "user.name=o", "-c", "user.email=o@o", "commit", "-q", "-m", "first")

    def work(top: Path) -> None:
        copy = top / "project"
        (copy / "src" / "app.py").write_text("by the agent\n")
        _git(copy, "-c", "user.name=a", "-c", "user.email=a@a", "commit", "-qam", "the agent's own")
        (copy / "src" / "more.py").write_text("more\n")

    back = await fleet.returned(_section(project), "one", work)
    assert [change.path for change in back.changes()] == ["project/src/app.py", "project/src/more.py"]
    back.branch("work")
    assert _git(project, "log", "--format=%s", "main..work").splitlines()[-1] == "the agent's own"
    assert _git(project, "show", "work:src/more.py") == "more\n"
    assert _git(project, "status", "--short", "src") == ""


def _picture(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else None)
        for path in sorted(folder.rglob("*"))
    }


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout
