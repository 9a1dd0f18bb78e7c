"""Sessions go on and branch; prompts are not taken literally unless asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import InMemorySessionStore, ResultError, UserMessage

from toolkit.testing import RealCLI, ScriptedAPI, text

Start = Callable[..., ScriptedAPI]


async def run(cli: RealCLI, prompt: str, **options: Any) -> list[Any]:
    return [message async for message in cli.query(prompt, **options)]


async def test_resume_keeps_the_id_and_replays_nothing_and_a_fork_gets_a_new_id(
    scripted_api: Start, real_cli: RealCLI
) -> None:
    api = scripted_api([text("one")], [text("two")], [text("three")], [text("four")])
    first = await run(real_cli, "first prompt")
    resumed = await run(real_cli, "second prompt", resume=first[-1].session_id)
    forked = await run(real_cli, "third prompt", resume=first[-1].session_id, fork_session=True)
    fresh = await run(real_cli, "fourth prompt", fork_session=True)

    assert resumed[-1].session_id == first[-1].session_id
    assert [type(message).__name__ for message in resumed] == [type(message).__name__ for message in first]
    assert not any(isinstance(message, UserMessage) for message in resumed)
    assert api.requests[1].contains("first prompt")
    assert forked[-1].session_id != first[-1].session_id
    assert api.requests[2].contains("second prompt")
    assert not api.requests[3].contains("first prompt")  # a fork of nothing is a new session
    assert fresh[-1].session_id not in {first[-1].session_id, forked[-1].session_id}


async def test_a_session_that_is_not_there_is_a_result_error(scripted_api: Start, real_cli: RealCLI) -> None:
    scripted_api()
    with pytest.raises(ResultError, match="No conversation found"):
        await run(real_cli, "go", resume="00000000-0000-4000-8000-000000000000")


async def test_a_session_store_carries_a_session_into_a_fresh_home(scripted_api: Start) -> None:
    api = scripted_api([text("one")], [text("two")])
    store = InMemorySessionStore()
    async with RealCLI(api) as here:
        first = await run(here, "remember the number 1234", session_store=store)
        workspace = here.workspace
        async with RealCLI(api) as elsewhere:
            again = await run(elsewhere, "and now?", session_store=store, resume=first[-1].session_id, cwd=workspace)
    assert again[-1].session_id == first[-1].session_id
    assert api.requests[1].contains("remember the number 1234")


async def test_at_paths_are_replaced_by_the_file_unless_the_prompt_is_verbatim(
    scripted_api: Start, real_cli: RealCLI
) -> None:
    (real_cli.workspace / "notes.txt").write_text("the secret is 42", encoding="utf-8")
    api = scripted_api([text("one")], [text("two")])
    await run(real_cli, "look at @notes.txt")
    await run(real_cli, "look at @notes.txt", verbatim_prompts=True)
    assert api.requests[0].contains("the secret is 42")
    assert not api.requests[1].contains("the secret is 42")
    assert api.requests[1].contains("look at @notes.txt")


async def test_several_prompts_share_one_process(scripted_api: Start, real_cli: RealCLI) -> None:
    scripted_api([text("one")], [text("two")])
    processes = []
    sessions = []
    async with real_cli.client() as client:
        for prompt in ("one", "two"):
            await client.query(prompt)
            heard: list[Any] = [message async for message in client.receive_response()]
            processes.append(real_cli.processes())
            command = Path(f"/proc/{processes[-1][0]}/cmdline").read_bytes().split(b"\0")  # noqa: ASYNC240
            sessions.append(heard[-1].session_id)
    assert processes[0] == processes[1]
    assert {b"--output-format", b"stream-json", b"--verbose", b"--input-format"} <= set(command)
    assert sessions[0] == sessions[1]
