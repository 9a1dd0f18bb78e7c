"""The report of a run through the real CLI in the real jail, with a subagent, and a scripted model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.report._browser import Opened, texts
from toolkit.report import write_report
from toolkit.runs import Limits, load_run, run
from toolkit.testing import Request, ScriptedAPI, Turn, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

pytestmark = pytest.mark.asyncio(loop_scope="session")


def is_helper(request: Request) -> bool:
    return not request.contains("Make it two.")


async def test_a_confined_run_with_a_subagent_is_shown_as_it_was(tmp_path: Path, opened: Opened) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text("x = 1\n", encoding="utf-8")
    section = WorkspaceSection([HostMount(project)], allowed_host_roots=[tmp_path])
    helper = {"description": "look", "prompt": "HELPER PROMPT", "subagent_type": "general-purpose"}
    look = tool_use("Bash", command="cat a.py", description="Look")
    with ScriptedAPI(
        Turn([look], when=is_helper),
        Turn([text("It says x = 1.")], when=is_helper),
        [text("I ask a helper."), tool_use("Agent", helper, run_in_background=False)],
        [tool_use("Bash", command="echo 'x = 2' > a.py; cat /etc/shadow", description="Write")],
        [text("It is two now.")],
    ) as api:
        limits = Limits(seconds=90, memory_bytes=2 << 30)
        options = {
            "workspace": section,
            "limits": limits,
            "native": ["Bash", "Agent"],
            "api_url": api.url,
            "api_key": "sk-fake",
        }
        done = await asyncio.wait_for(run("Make it two.", **options), 120)
    assert done.code == "ok", done.debug
    page = await opened(write_report(load_run(done.run)))

    names = await texts(page, ".row.tool .tool-name")
    nested = [" nested" in (await row.get_attribute("class") or "") for row in await page.locator(".row.tool").all()]
    assert list(zip(names, nested, strict=True)) == [("Agent", False), ("Bash", True), ("Bash", False)]
    assert (
        "No such file" in (await texts(page, ".row.tool .result"))[2]
        or "Permission denied" in (await texts(page, ".row.tool .result"))[2]
    )
    await page.keyboard.press("2")
    assert await texts(page, ".file-line") == [f"modified {project}/a.py +1 −1"]
    await page.keyboard.press("4")
    assert (await texts(page, "#panel-limits .facts dd"))[0] == "yes, in the jail"
    assert "sk-fake" not in await page.content()
