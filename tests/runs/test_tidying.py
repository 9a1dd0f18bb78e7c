"""Kept copies that nobody needs go, the oldest first; what holds work stays."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from toolkit.runs import StoredRun, load_run, run
from toolkit.runs.storage import size_of, tidy_copies
from toolkit.testing import FakeCLI, text
from toolkit.workspace import HostMount, WorkspaceSection

DAY = 86400.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "data.bin").write_bytes(b"x" * 300_000)
    return folder


async def worked(project: Path, *, changes: bool, ended: float = 0.0) -> StoredRun:
    """A run on a copy of the project that ended so many seconds ago."""
    section = WorkspaceSection([HostMount(project)], allowed_host_roots=[project.parent])
    result = await run("Go.", transport=FakeCLI([text("done")]), workspace=section)
    stored = load_run(result.run)
    if changes:
        change(stored)
    facts = json.loads((stored.folder / "run.json").read_text(encoding="utf-8"))
    facts |= {"began": time.time() - ended - 1, "ended": time.time() - ended}
    (stored.folder / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    return stored


def change(stored: StoredRun) -> None:
    """What an agent might have done."""
    next(Path(stored.facts["workspace"]).rglob("data.bin")).write_bytes(b"y")
    kept = json.loads((stored.folder / "result.json").read_text(encoding="utf-8"))
    kept["changes"] = stored.changes().to_json()
    (stored.folder / "result.json").write_text(json.dumps(kept), encoding="utf-8")


def has_copy(stored: StoredRun) -> bool:
    return Path(stored.facts["workspace"]).is_dir()


async def test_an_old_copy_without_changes_goes_and_its_run_stays(project: Path) -> None:
    old, new = await worked(project, changes=False, ended=40 * DAY), await worked(project, changes=False)
    done = tidy_copies()
    assert [(one.run, one.gone) for one in done] == [(old.id, True)]
    assert (has_copy(old), has_copy(new)) == (False, True)
    assert load_run(old.id).result().ok


async def test_a_copy_with_changes_that_were_not_applied_stays_and_that_is_said(project: Path) -> None:
    old = await worked(project, changes=True, ended=40 * DAY)
    [one] = tidy_copies()
    assert (one.gone, one.why) == (False, "1 of its changes were not applied")
    assert has_copy(old)
    old.apply()
    [one] = tidy_copies()
    assert one.gone
    assert not has_copy(old)


async def test_beyond_the_size_the_oldest_go_and_the_latest_stay(project: Path) -> None:
    runs = [await worked(project, changes=False, ended=number * DAY) for number in range(4)]
    most = size_of(runs[0]) * 2 + 4096
    done = tidy_copies(most_bytes=most)
    assert [one.run for one in done] == [runs[3].id, runs[2].id]
    assert [has_copy(one) for one in runs] == [True, True, False, False]


async def test_a_dry_run_removes_nothing(project: Path) -> None:
    old = await worked(project, changes=False, ended=40 * DAY)
    assert [one.gone for one in tidy_copies(dry_run=True)] == [True]
    assert has_copy(old)


async def test_a_copy_that_cannot_be_read_stays(project: Path) -> None:
    old = await worked(project, changes=True, ended=40 * DAY)
    for record in old.folder.glob(".*"):
        if record.is_file():
            record.write_bytes(b"garbage")
        else:
            for file in record.rglob("*"):
                if file.is_file():
                    file.write_bytes(b"garbage")
    [one] = tidy_copies()
    assert not one.gone
    assert has_copy(old)
