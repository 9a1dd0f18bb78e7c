"""Three ways to test a tool, none of which needs a key or a network."""

import pytest
from notes import add, box

from toolkit.testing import text, tool_use


def test_the_function_is_still_a_function() -> None:
    assert add("milk") == "added 'milk'"


@pytest.mark.asyncio
async def test_a_client_reads_what_went_wrong(call_tool) -> None:
    reply = await call_tool(add, title=" ")
    assert (reply.is_error, reply.text) == (True, "a note needs a title")


@pytest.mark.asyncio
async def test_the_agent_files_a_note(scripted_api, real_cli) -> None:
    api = scripted_api(
        [text("filing"), tool_use("mcp__notes__add", title="hi")],  # first model call
        [text("done")],  # second
    )
    messages = [m async for m in real_cli.query("go", mcp_servers={"notes": box.in_process()})]
    assert api.tool_results() == ["added 'hi'"]
    assert messages
