"""What reaches the model is the same in every run on a project, so that runs share the model's prompt cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.sandbox.jails import needs_jail
from toolkit import Toolbox, run, tool
from toolkit.testing import ScriptedAPI, text
from toolkit.workspace import HostMount, WorkspaceSection


@tool
def shout(words: str) -> str:
    """Say it louder."""
    return words.upper()


async def _first_request(prompt: str, project: Path, home: Path) -> tuple[str, dict[str, Any]]:
    """The session, and the body of the first call of a fresh run."""
    with ScriptedAPI([text("done")]) as api:
        section = WorkspaceSection([HostMount(project)], [project])
        result = await run(
            prompt, workspace=section, tools=[Toolbox("mine", [shout])], home=home, api_url=api.url, api_key="fake"
        )
        assert result.code == "ok", result.debug
        assert result.session is not None
        return result.session, dict(next(request for request in api.requests if request.get("tools")))


@needs_jail
async def test_two_runs_on_one_project_send_the_same_bytes(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    project.mkdir()
    (project / "app.py").write_text("print('hello')\n")
    bodies = []
    for number in range(2):
        session, body = await _first_request("Say hello.", project, tmp_path / f"home-{number}")
        del body["metadata"]  # who asks, for the API's own books: not for the model
        whole = json.dumps(body)
        assert "run-" not in whole
        assert str(tmp_path / "home") not in whole
        assert "toolkit-workspace" not in whole
        # The one thing of the CLI's own that differs: it names its temp folder in a message after the prompt.
        assert session not in json.dumps([body["system"], body["tools"], body["messages"][0]])
        bodies.append(whole.replace(session, "SESSION"))
    assert bodies[0] == bodies[1]


@needs_jail
async def test_runs_with_different_prompts_share_all_that_stands_before_the_prompt(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    project.mkdir()
    (project / "app.py").write_text("print('hello')\n")
    _, one = await _first_request("Say hello.", project, tmp_path / "one")
    _, other = await _first_request("Say goodbye.", project, tmp_path / "other")
    assert json.dumps(one["system"]) == json.dumps(other["system"])
    assert json.dumps(one["tools"]) == json.dumps(other["tools"])
    assert one["messages"][0]["content"][:-1] == other["messages"][0]["content"][:-1]
