"""A verified run in the four foreign vocabularies: one turn, no failure told as a success, nothing billed twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolkit import Toolbox, Verify, WorkspacePath, tool
from toolkit.runs import Event, RunResult, Trial, start
from toolkit.runs.views import cogni, lace, openclaw, wink
from toolkit.testing import FakeCLI, Turn, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection


@tool
def write(path: WorkspacePath, content: str) -> str:
    """Write a file."""
    path.write_text(content, encoding="utf-8")
    return "written"


async def story(tmp_path: Path, *answers: str) -> tuple[list[Event], RunResult[Any]]:
    project = tmp_path / "project"
    project.mkdir()
    (project / "answer").write_text("0", encoding="utf-8")
    section = WorkspaceSection([HostMount(project)], allowed_host_roots=[tmp_path])
    turns = []
    for number, answer in enumerate(answers):
        call = tool_use("mcp__files__write", path="project/answer", content=answer)
        turns += [Turn([call], id=f"msg_{number}a"), Turn([text(f"It is {answer}.")], id=f"msg_{number}b")]

    def is_right(ws: Trial) -> bool | str:
        return (ws / "project/answer").read_text(encoding="utf-8") == "42" or "it is not 42"

    verify = Verify(is_right, attempts=len(answers))
    box = Toolbox("files", [write])
    async with start("Go.", transport=FakeCLI(*turns), tools=[box], workspace=section, verify=verify) as live:
        result = await live.result()
    return [event async for event in live], result


@pytest.mark.parametrize(("answers", "ok"), [(("41", "42"), True), (("40", "41"), False)])
async def test_several_attempts_are_one_turn_with_one_end(tmp_path: Path, answers: tuple[str, ...], ok: bool) -> None:
    events, result = await story(tmp_path, *answers)
    assert result.verified is ok

    said = cogni.view(events)
    assert [event["type"] for event in said].count("done") == 1
    final = cogni.final(events)
    assert final is not None
    assert (final["ok"], final.get("error")) == ((True, None) if ok else (False, "internal"))
    facts = cogni.usage_facts(events)
    assert len({cogni.idempotency_key(fact) for fact in facts}) == len(facts) == 4

    emitted = lace.view(events)
    assert [one.name for one in emitted].count("complete") == 1
    assert emitted[-1].payload["response"]["stopReason"] == ("stop" if ok else "error")

    called = [one.payload or {} for one in openclaw.view(events) if one.name == "onAgentEvent"]
    phases = [one["data"].get("phase") for one in called if one["stream"] == "lifecycle"]
    assert phases == ["start", "verify", "verify", "end" if ok else "error"]

    told = wink.view(events)
    assert [type(one).__name__ for one in told if "Prompt" in type(one).__name__] == [
        "PromptRendered",
        "PromptRendered",
        "PromptExecuted",
    ]
    rendered = [one.text for one in told if isinstance(one, wink.PromptRendered)]
    assert "it is not 42" in rendered[1]
