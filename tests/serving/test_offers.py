"""Resources, prompts and completions: the same on three ways of serving and in both eras, and told when they change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from claude_agent_sdk._internal.sdk_mcp_bridge import SdkMcpBridge
from mcp import Client, MCPError
from mcp.shared.subscriptions import PromptsListChanged, ResourceUpdated
from mcp_types import Prompt, PromptReference, Resource, ResourceTemplateReference

from tests.serving._client import BOUND, ENVELOPE, HANDSHAKE, PRELUDE, Served, ServedHttp
from toolkit import Toolbox, ToolContext, prompt, resource, tool

SOURCE = """
from dataclasses import dataclass
from typing import Literal
from toolkit import Image, prompt, resource

@dataclass
class Note:
    id: int
    text: str

@resource("notes://{id}", ttl=60)
def note(id: int) -> Note | None:
    "One note."
    return Note(id, "caf\\u00e9") if id < 10 else None

@note.completes("id")
def _(typed: str) -> list[str]:
    return [str(number) for number in range(10)]

@resource("icon://note", mime="image/png", icons=["https://example.org/i.png"], annotations={"priority": 0.5})
async def icon() -> bytes:
    "A picture."
    return bytes.fromhex("89504e470d0a1a0a")

@resource("lie://it", mime="image/png")
def lie() -> bytes:
    return b"GIF89a"

@resource("broken://it")
def broken() -> str:
    raise KeyError("milk")

@prompt(title="Summarise")
def summarise(id: int, style: Literal["short", "long"] = "short") -> list[object]:
    '''Summarise a note.

    Args:
        id: Which one.
    '''
    return [f"Summarise note {id}, {style}.", Image(bytes.fromhex("89504e470d0a1a0a")), ("assistant", "Well:")]

@tool
def edit(id: int, ctx: ToolContext) -> str:
    "Edit a note."
    ctx.changed(f"notes://{id}")
    return "edited"

box = Toolbox("notes", [edit, note, icon, lie, broken, summarise], version="2.0")
"""
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("prompts/list", {}),
    ("resources/read", {"uri": "notes://3"}),
    ("resources/read", {"uri": "icon://note"}),
    ("resources/read", {"uri": "notes://x"}),
    ("resources/read", {"uri": "notes://77"}),
    ("resources/read", {"uri": "notes://..%2F3"}),
    ("resources/read", {"uri": "nots://3"}),
    ("resources/read", {"uri": "lie://it"}),
    ("resources/read", {"uri": "broken://it"}),
    ("prompts/get", {"name": "summarise", "arguments": {"id": "7"}}),
    ("prompts/get", {"name": "summarise", "arguments": {"style": "tiny"}}),
    ("prompts/get", {"name": "sumarise"}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "summarise"}, "argument": {"name": "style", "value": "l"}},
    ),
    (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "notes://{id}"}, "argument": {"name": "id", "value": ""}},
    ),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "summarise"}, "argument": {"name": "stile", "value": "l"}},
    ),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}}),
    ("resources/list", {"cursor": "nonsense"}),
]
ERAS = {"handshake": {}, "2026-07-28": {"_meta": ENVELOPE}}


@pytest.fixture(scope="module")
def over_http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHttp]:
    with ServedHttp(tmp_path_factory.mktemp("offers"), SOURCE) as served:
        yield served


def _box() -> Toolbox:
    names: dict[str, Any] = {"__name__": "offers"}
    exec(compile(PRELUDE + SOURCE, "offers.py", "exec", dont_inherit=True), names)
    box = names["box"]
    assert isinstance(box, Toolbox)
    return box


def _answer(answer: dict[str, Any] | None) -> str:
    assert answer is not None
    return json.dumps(answer["result"] if "result" in answer else {"error": answer["error"]})


async def _in_process(era: str) -> list[str]:
    config = _box().in_process()
    bridge = SdkMcpBridge(config["name"], config["instance"])
    try:
        if era == "handshake":
            await bridge.handle({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HANDSHAKE})
            await bridge.handle({"jsonrpc": "2.0", "method": "notifications/initialized"})
        results = []
        for number, (method, params) in enumerate(REQUESTS, start=1):
            frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, **ERAS[era]}}
            results.append(_answer(await bridge.handle(frame)))
        return results
    finally:
        await bridge.aclose()


def _ask(served: Served | ServedHttp, era: str) -> list[str]:
    if era == "handshake":
        served.initialize()
    answers = []
    for method, params in REQUESTS:
        answers.append(_answer(served.answer(method, {**params, **ERAS[era]})))
    return answers


@pytest.mark.parametrize("era", ERAS)
async def test_answers_are_the_same_in_process_over_stdio_and_over_http(
    tmp_path: Path, over_http: ServedHttp, era: str
) -> None:
    in_process = await _in_process(era)
    with Served(tmp_path, SOURCE) as served:
        assert _ask(served, era) == in_process
    over_http.session = {}
    assert _ask(over_http, era) == in_process


async def test_what_is_wrong_is_told_in_words_and_with_the_code_of_the_protocol() -> None:
    found = [json.loads(each).get("error") for each in await _in_process("handshake")]
    errors = {number: (each["code"], each["message"].splitlines()[0]) for number, each in enumerate(found) if each}
    assert errors == {
        5: (-32602, "note was not called: an argument is wrong"),
        6: (-32602, "there is no notes://77"),
        7: (-32602, "notes://..%2F3 was not read: 'id' is an absolute path, or leads out by .."),
        8: (-32602, "there is no resource nots://3; did you mean notes://{id}?"),
        9: (-32603, "RenderError: lie://it is declared as image/png, but its bytes are image/gif"),
        10: (-32603, "KeyError: 'milk'"),
        12: (-32602, "summarise was not called: 2 arguments are wrong"),
        13: (-32602, "no prompt 'sumarise'; did you mean 'summarise'?"),
        16: (-32602, "prompt 'summarise' has no argument stile; did you mean 'style'?"),
        17: (-32602, "no prompt x; there are: summarise"),
        18: (-32602, "no page begins at 'nonsense'; ask for the list from its beginning"),
    }


async def test_a_resource_says_how_long_it_may_be_kept() -> None:
    read = [json.loads(each) for each in await _in_process("2026-07-28")][3:5]
    assert [(each["ttlMs"], each["cacheScope"]) for each in read] == [(60_000, "private"), (0, "private")]
    assert "ttlMs" not in json.loads((await _in_process("handshake"))[3])


async def test_the_bridge_of_the_sdk_promises_no_news() -> None:
    config = _box().in_process()
    bridge = SdkMcpBridge(config["name"], config["instance"])
    try:
        answer = await bridge.handle({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HANDSHAKE})
    finally:
        await bridge.aclose()
    assert answer is not None
    assert answer["result"]["capabilities"] == {
        "tools": {"listChanged": False},
        "resources": {"listChanged": False, "subscribe": False},
        "prompts": {"listChanged": False},
        "completions": {},
    }


async def test_a_long_list_comes_in_pages() -> None:
    many = [resource(f"n://{number}", name=f"n{number}")(lambda: "x") for number in range(450)]
    async with Client(Toolbox("many", many).server()) as client:
        found: list[Resource] = []
        cursor, pages = None, 0
        while True:
            page = await client.list_resources(cursor=cursor)
            found, cursor, pages = [*found, *page.resources], page.next_cursor, pages + 1
            if cursor is None:
                break
    assert (len(found), pages) == (450, 3)
    assert len({str(each.uri) for each in found}) == 450


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_mcps_own_client_reads_gets_and_completes(mode: Any) -> None:
    async with Client(_box().server(), mode=mode) as client:
        assert client.server_capabilities.resources is not None
        prompts: list[Prompt] = (await client.list_prompts()).prompts
        assert [(each.name, each.title) for each in prompts] == [("summarise", "Summarise")]
        read = await client.read_resource("notes://3")
        assert read.contents[0].mime_type == "application/json"
        with pytest.raises(MCPError) as caught:
            await client.read_resource("notes://77")
        assert caught.value.data == {"uri": "notes://77"}
        got = await client.get_prompt("summarise", {"id": "3", "style": "long"})
        assert [(each.role, each.content.type) for each in got.messages] == [
            ("user", "text"),
            ("user", "image"),
            ("assistant", "text"),
        ]
        for ref, argument, expected in (
            (PromptReference(type="ref/prompt", name="summarise"), ("style", "s"), ["short"]),
            (ResourceTemplateReference(type="ref/resource", uri="notes://{id}"), ("id", ""), [*"0123456789"]),
        ):
            completed = await client.complete(ref, {"name": argument[0], "value": argument[1]})
            assert completed.completion.values == expected


def test_a_subscriber_of_the_handshake_era_hears_of_its_resource_only(tmp_path: Path) -> None:
    with Served(tmp_path, SOURCE) as served:
        served.initialize()
        served.request("resources/subscribe", {"uri": "notes://3"})
        assert served.call("edit", id=4) == "edited"
        assert served.call("edit", id=3) == "edited"
        served.request("resources/unsubscribe", {"uri": "notes://3"})
        assert served.call("edit", id=3) == "edited"
        assert served.notifications == [
            {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "notes://3"}}
        ]
        assert served.answer("resources/subscribe", {"uri": "other://3"})["error"]["code"] == -32602


async def test_a_listener_of_2026_07_28_hears_what_it_asked_for() -> None:
    @tool
    def change(what: str, ctx: ToolContext) -> str:
        """Change something."""
        ctx.changed(what)
        return "changed"

    @resource("notes://{id}")
    def note(id: int) -> str:
        return str(id)

    @prompt
    def hello() -> str:
        return "hello"

    heard: list[object] = []
    both = anyio.Event()
    async with Client(Toolbox("news", [change, note, hello]).server()) as client, anyio.create_task_group() as tasks:
        async with client.listen(prompts_list_changed=True, resource_subscriptions=["notes://3"]) as events:

            async def hear() -> None:
                async for event in events:
                    heard.append(event)
                    if len(heard) == 2:
                        both.set()

            tasks.start_soon(hear)
            with anyio.fail_after(BOUND):
                for what in ("notes://4", "notes://3", "tools", "prompts"):
                    await client.call_tool("change", {"what": what})
                await both.wait()
        wrong = await client.call_tool("change", {"what": "everything"})
        assert wrong.is_error
        tasks.cancel_scope.cancel()
    assert heard == [ResourceUpdated(uri="notes://3"), PromptsListChanged()]


def test_a_reload_brings_resources_and_tells_of_every_list(tmp_path: Path) -> None:
    with Served(tmp_path, SOURCE, options=["--reload"]) as served:
        assert served.initialize()["capabilities"]["resources"] == {"listChanged": True, "subscribe": True}
        text = PRELUDE + SOURCE.replace('"One note."', '"A single note."')
        new = served.file.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(served.file)
        methods = {json.loads(served.read_line())["method"] for _ in range(3)}
        assert methods == {f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")}
        listed = served.request("resources/templates/list")["resourceTemplates"]
        assert listed[0]["description"] == "A single note."


def test_a_box_of_tools_only_knows_nothing_of_resources(tmp_path: Path) -> None:
    source = """
    import sys

    @tool
    def loaded() -> list[str]:
        "What is loaded."
        return [name for name in sys.modules if ".offers" in name]

    box = Toolbox("plain", [loaded])
    """
    with Served(tmp_path, source) as served:
        assert served.initialize()["capabilities"].keys() == {"tools", "logging"}
        assert served.answer("resources/list")["error"]["code"] == -32601
        assert served.call("loaded") == "[]"
