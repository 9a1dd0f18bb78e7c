"""What only root may read of a lent folder is out of the agent's reach when root starts the run, and that is said."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sandbox.jails import needs_jail
from toolkit.runs import load_run, run
from toolkit.sandbox import unreadable_text
from toolkit.testing import ScriptedAPI, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root's runs are another user")


def project(tmp_path: Path) -> Path:
    shop = tmp_path / "shop"
    (shop / "data").mkdir(parents=True)
    (shop / "data" / "open.txt").write_text("for all\n")
    (shop / "data" / "mine.txt").write_text("for root\n")
    (shop / "data" / "mine.txt").chmod(0o600)
    return shop


@needs_jail
@as_root
async def test_a_lent_file_that_only_root_may_read_is_named_before_the_turn_begins(
    tmp_path: Path, scripted_api: Callable[..., ScriptedAPI]
) -> None:
    shop = project(tmp_path)
    api = scripted_api([tool_use("Bash", command="cat data/open.txt data/mine.txt")], [text("done")])
    section = WorkspaceSection([HostMount(shop, lend="data")], [tmp_path])
    done = await asyncio.wait_for(run("look", workspace=section, api_url=api.url, api_key="fake"), 60)
    events = list(load_run(done.run).events())
    told = [event.data["what"] for event in events if event.name == "lifecycle.warning"]
    assert [f"{shop}/data/mine.txt" in one and "open.txt" not in one for one in told] == [True]
    names = [event.name for event in events]
    assert names.index("lifecycle.warning") < names.index("lifecycle.started")
    [said] = [event.data["text"] for event in events if event.name == "tool.ended"]
    assert "for all" in said
    assert "for root" not in said


@as_root
def test_what_everybody_may_read_is_no_reason_to_warn(tmp_path: Path) -> None:
    shop = project(tmp_path)
    assert "mine.txt" in unreadable_text([shop / "data"])
    (shop / "data" / "mine.txt").chmod(0o644)
    (shop / "data" / "link").symlink_to("/etc/shadow")
    assert unreadable_text([shop / "data", shop / "gone"]) == ""
    (shop / "data").chmod(0o700)
    assert str(shop / "data") in unreadable_text([shop / "data"])
