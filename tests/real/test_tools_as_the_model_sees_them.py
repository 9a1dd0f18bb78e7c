"""Our tools through the real CLI: the same in-process and over stdio, and as the facts about the CLI say."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from claude_agent_sdk import create_sdk_mcp_server, tool as sdk_tool

from tests.real import toolset
from toolkit import Toolbox, tool
from toolkit.testing import RealCLI, ScriptedAPI, text, tool_use

STDIO = {"type": "stdio", "command": sys.executable, "args": ["-m", "toolkit", "serve", str(Path(toolset.__file__))]}
ALL_KINDS = [
    tool_use("mcp__set__words", text="ü", times=2),
    tool_use("mcp__set__words", text="ü", times="many"),
    tool_use("mcp__set__words", text="ü", unknown=1),
    tool_use("mcp__set__record", name="n"),
    tool_use("mcp__set__refuse"),
    tool_use("mcp__set__crash"),
    tool_use("mcp__set__picture"),
    tool_use("mcp__set__nothing"),
    tool_use("mcp__set__figures"),
]


async def run(cli: RealCLI, servers: dict[str, Any], **options: Any) -> list[Any]:
    return [message async for message in cli.query("go", mcp_servers=servers, **options)]


def shown(api: ScriptedAPI) -> dict[str, Any]:
    """The tools and results as the model saw them, without the names of files the CLI made up."""
    results = [
        {key: value for key, value in block.items() if key != "tool_use_id"} for block in api.tool_result_blocks()
    ]
    masked = [re.sub(r"/\S*tool-results/\S*\.png", "FILE", repr(result)) for result in results]
    offered = {name: definition for name, definition in api.requests[0].tools.items() if name.startswith("mcp__")}
    return {"tools": offered, "results": masked}


async def test_a_tool_looks_the_same_to_the_model_in_process_and_over_stdio(
    scripted_api: Callable[..., ScriptedAPI], real_cli: RealCLI
) -> None:
    seen = []
    for server in (toolset.box.in_process(), STDIO):
        api = scripted_api(ALL_KINDS, [text("done")])
        await run(real_cli, {"set": server})
        seen.append(shown(api))

    in_process, stdio = seen
    assert in_process["tools"] == stdio["tools"]
    assert in_process["results"] == stdio["results"]
    assert "mcp__set__words" in in_process["tools"]
    assert len(in_process["results"]) == len(ALL_KINDS)


async def test_the_model_reads_rendered_text_images_and_plain_errors(
    scripted_api: Callable[..., ScriptedAPI], real_cli: RealCLI
) -> None:
    api = scripted_api(ALL_KINDS, [text("done")])
    await run(real_cli, {"set": toolset.box.in_process()})

    said = api.tool_results()
    failed = [bool(block.get("is_error")) for block in api.tool_result_blocks()]
    assert failed == [False, True, True, False, True, True, False, False, False]
    assert said[0] == "ü ü"
    assert said[3] == '{"name":"n","tags":["ä","ß"],"size":2.5,"none":null}'
    assert said[4] == "no folder 'srcs'; the workspace has: src, tests"
    assert "ZeroDivisionError" in said[5]
    picture = said[6]
    assert isinstance(picture, list)
    assert picture[0] == text("one pixel")
    assert picture[1]["type"] == "image"
    assert picture[1]["source"]["media_type"] == "image/png"
    # With structured content the CLI shows the model that JSON and nothing else.
    assert said[8] == '{"b":1,"a":2}'


async def test_a_tool_that_is_not_always_loaded_is_hidden_until_it_is_searched(
    scripted_api: Callable[..., ScriptedAPI], real_cli: RealCLI
) -> None:
    api = scripted_api(
        [tool_use("ToolSearch", query="select:mcp__set__rarely", max_results=1)],
        [tool_use("mcp__set__rarely", text="abc")],
        [text("done")],
    )
    await run(real_cli, {"set": toolset.box.in_process()})

    first = api.requests[0].tools
    assert "mcp__set__words" in first
    assert not first["mcp__set__words"].get("defer_loading")
    hidden = first.get("mcp__set__rarely", {"defer_loading": True})
    assert hidden.get("defer_loading") is True
    assert api.tool_results()[-1] == "cba"


async def test_read_only_tools_run_together_and_each_knows_its_own_call(
    scripted_api: Callable[..., ScriptedAPI], real_cli: RealCLI
) -> None:
    toolset._begun.clear()
    calls = [tool_use("mcp__set__which_call", label=label) | {"id": f"toolu_{label}"} for label in "abc"]
    api = scripted_api(calls, [text("done")])
    await run(real_cli, {"set": toolset.box.in_process()})

    answers = {block["tool_use_id"]: block["content"][0]["text"].strip() for block in api.tool_result_blocks()}
    assert answers == {f"toolu_{label}": f"{label} toolu_{label} 3" for label in "abc"}


@tool(max_chars=400_000)
def long(characters: int) -> str:
    """A long text."""
    return "word " * (characters // 5)


async def test_a_long_result_reaches_the_model_whole_because_the_tool_says_how_long_it_may_be(
    scripted_api: Callable[..., ScriptedAPI], real_cli: RealCLI
) -> None:
    api = scripted_api([tool_use("mcp__long__long", characters=250_000)], [text("done")])
    await run(real_cli, {"long": Toolbox("long", [long]).in_process()})
    assert len(str(api.tool_results()[0])) == 250_000


async def test_a_long_result_of_a_tool_that_says_nothing_becomes_a_preview_and_a_file(
    scripted_api: Callable[..., ScriptedAPI], real_cli: RealCLI
) -> None:
    @sdk_tool("long", "A long text", {})
    async def plain(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [text("word " * 50_000)]}

    api = scripted_api([tool_use("mcp__long__long")], [text("done")])
    await run(real_cli, {"long": create_sdk_mcp_server("long", tools=[plain])})
    shown = str(api.tool_results()[0])
    assert len(shown) < 20_000
    assert str(real_cli.config_dir) in shown


async def test_an_image_in_a_prompt_reaches_the_model(
    scripted_api: Callable[..., ScriptedAPI], real_cli: RealCLI
) -> None:
    api = scripted_api([text("I see")])
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(toolset.PIXEL).decode()},
    }

    async def prompt() -> Any:
        content = [text("what is this?"), image]
        yield {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": None}

    _ = [message async for message in real_cli.query(prompt())]
    sent = [block for message in api.requests[0]["messages"] for block in message["content"] if isinstance(block, dict)]
    assert [block["source"]["media_type"] for block in sent if block["type"] == "image"] == ["image/png"]


async def test_a_server_that_does_not_start_is_reported_and_the_run_goes_on(
    scripted_api: Callable[..., ScriptedAPI], real_cli: RealCLI
) -> None:
    scripted_api([text("without it")])
    gone = {"type": "stdio", "command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}
    heard = await run(real_cli, {"gone": gone})
    servers = {server["name"]: server["status"] for server in heard[0].data["mcp_servers"]}
    assert servers["gone"] in ("failed", "pending")
    assert heard[-1].result == "without it"
