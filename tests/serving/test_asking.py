"""A tool asks back: a person, the client's model, the client's folders; in both eras, and where nobody can answer."""

from __future__ import annotations

import asyncio
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client, MCPError
from mcp_types import (
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    ListRootsResult,
    Root,
    TextContent,
)

from tests.serving._client import BOUND, ENVELOPE, HANDSHAKE, Served, ServedHttp
from toolkit import Toolbox, ToolContext, ToolError, prompt, resource, tool
from toolkit.errors import ToolkitError
from toolkit.tools import Cancelled, CannotAsk, Declined

ERAS = ["legacy", "auto"]
acted: list[str] = []


@dataclass
class Release:
    branch: str
    level: Literal["patch", "minor"] = "patch"
    push: bool = False


@tool
async def release(ctx: ToolContext) -> str:
    """Make a release."""
    asked = await ctx.ask("What shall be released?", Release)
    if isinstance(asked, Declined | Cancelled):
        return f"nothing: {asked}"
    acted.append(asked.branch)
    return f"{asked.branch} {asked.level} {asked.push}"


@tool
async def branch(ctx: ToolContext) -> str:
    """Ask for one thing, then for another."""
    try:
        first = await ctx.ask("Which branch?", str)
        second = await ctx.ask(f"How many commits of {first}?", int)
    except Exception as error:  # must not take what unwinds the function
        return f"caught {type(error).__name__}"
    return f"{first} {second!r}"


@tool
async def sign_in(ctx: ToolContext) -> str:
    """Let them sign in."""
    return repr(await ctx.ask("Sign in first", url="https://example.org/login"))


@tool
async def careful(ctx: ToolContext) -> str:
    """Ask, or take the default."""
    return repr(await ctx.ask("Really?", bool, default=None))


@tool
async def caught(ctx: ToolContext) -> str:
    """Go on where nobody can be asked."""
    try:
        return repr(await ctx.ask("Which branch?"))
    except ToolError as error:
        return f"went on: {error}"


@tool
async def write(ctx: ToolContext) -> str:
    """Let the client's model write."""
    written = await ctx.sample(["Hello", ("assistant", "Hi")], system="Be brief.", max_tokens=50)
    return f"{written} by {written.model}"


@tool
async def folders(ctx: ToolContext) -> str:
    """Name the folders."""
    return str([root.path for root in await ctx.roots()])


@tool
async def everything(ctx: ToolContext) -> str:
    """Ask for three things at once."""
    name, text, roots = await asyncio.gather(ctx.ask("Your name?"), ctx.sample("Greet them"), ctx.roots())
    return f"{name} {text} {len(roots)}"


@tool
async def grouped(ctx: ToolContext) -> str:
    """The same in a task group."""
    found: list[str] = []

    async def ask(question: str) -> None:
        found.append(str(await ctx.ask(question)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "First?")
        tasks.start_soon(ask, "Second?")
    return ",".join(sorted(found))


@prompt
async def story(ctx: ToolContext) -> str:
    """Ask in a prompt."""
    return f"Tell of {await ctx.ask('Of whom?')}."


@resource("secret://it")
async def secret(ctx: ToolContext) -> str:
    """Ask in a resource."""
    return f"for {await ctx.ask('Who are you?')}"


@tool
async def impossible(ctx: ToolContext) -> str:
    """Ask for what no form has."""
    return str(await ctx.ask("Which?", dict))


box = Toolbox(
    "asking",
    [release, branch, sign_in, careful, caught, write, folders, everything, grouped, impossible, story, secret],
)


class Person:
    """Answers every question with what a table says."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[Any] = []

    async def elicit(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params)
        answer: Any = next(
            (answer for start, answer in self.answers.items() if params.message.startswith(start)), "cancel"
        )
        if answer in ("decline", "cancel"):
            return ElicitResult(action=answer)
        if isinstance(params, ElicitRequestURLParams):
            return ElicitResult(action="accept")
        return ElicitResult(action="accept", content=answer if isinstance(answer, dict) else {"answer": answer})

    async def sample(self, context: Any, params: Any) -> CreateMessageResult:
        self.asked.append(params)
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text="Good day"), model="m1")

    async def roots(self, context: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri="file:///a%20b", name="a")])  # type: ignore[arg-type]

    def client(self, mode: Any) -> Client:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Client(
                box.server(),
                mode=mode,
                elicitation_callback=self.elicit,
                sampling_callback=self.sample,
                list_roots_callback=self.roots,
            )


async def _text(client: Client, name: str) -> str:
    with anyio.fail_after(BOUND):
        result = await client.call_tool(name, {})
    return result.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_form_brings_a_typed_answer(mode: str) -> None:
    acted.clear()
    person = Person({"What": {"branch": "main", "level": "minor", "push": True}})
    async with person.client(mode) as client:
        assert await _text(client, "release") == "main minor True"
    assert acted == ["main"]
    [params] = person.asked
    assert isinstance(params, ElicitRequestFormParams)
    assert params.requested_schema == {
        "type": "object",
        "properties": {
            "branch": {"type": "string"},
            "level": {"type": "string", "enum": ["patch", "minor"], "default": "patch"},
            "push": {"type": "boolean", "default": False},
        },
        "required": ["branch"],
    }


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(("answer", "expected"), [("decline", "Declined()"), ("cancel", "Cancelled()")])
async def test_a_person_may_decline_or_cancel(mode: str, answer: str, expected: str) -> None:
    async with Person({"What": answer}).client(mode) as client:
        assert await _text(client, "release") == f"nothing: {expected}"


@pytest.mark.parametrize("mode", ERAS)
async def test_one_question_after_the_other_is_asked_once_each(mode: str) -> None:
    person = Person({"Which branch": "main", "How many commits of main": 3})
    async with person.client(mode) as client:
        assert await _text(client, "branch") == "main 3"
    assert [each.message for each in person.asked] == ["Which branch?", "How many commits of main?"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_page_is_agreed_to_or_not(mode: str) -> None:
    person = Person({"Sign in": True})
    async with person.client(mode) as client:
        assert await _text(client, "sign_in") == "True"
    assert person.asked[0].url == "https://example.org/login"
    async with Person({"Sign in": "decline"}).client(mode) as client:
        assert await _text(client, "sign_in") == "Declined()"


@pytest.mark.parametrize("mode", ERAS)
async def test_the_clients_model_writes_and_its_folders_are_named(mode: str) -> None:
    person = Person({})
    async with person.client(mode) as client:
        assert await _text(client, "write") == "Good day by m1"
        assert await _text(client, "folders") == "[PosixPath('/a b')]"
    assert person.asked[0].system_prompt == "Be brief."
    assert [message.role for message in person.asked[0].messages] == ["user", "assistant"]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(("name", "expected"), [("everything", "Ada Good day 1"), ("grouped", "1,2")])
async def test_several_things_may_be_asked_at_once(mode: str, name: str, expected: str) -> None:
    person = Person({"Your name": "Ada", "First": "1", "Second": "2"})
    async with person.client(mode) as client:
        assert await _text(client, name) == expected


@pytest.mark.parametrize("mode", ERAS)
async def test_prompts_and_resources_ask_too(mode: str) -> None:
    async with Person({"Of whom": "Ada", "Who": "Bob"}).client(mode) as client:
        got = await client.get_prompt("story")
        assert got.messages[0].content.text == "Tell of Ada."  # type: ignore[union-attr]
        read = await client.read_resource("secret://it")
        assert read.contents[0].text == "for Bob"  # type: ignore[union-attr]


async def test_a_client_that_cannot_be_asked_is_told_in_words() -> None:
    async with Client(box.server(), mode="legacy") as client:
        result = await client.call_tool("release", {})
        assert result.is_error
        assert result.content[0].text == (  # type: ignore[union-attr]
            "the person behind this client cannot be asked, because it shows no forms (elicitation): "
            "What shall be released?"
        )
        assert await _text(client, "careful") == "None"
        assert (await _text(client, "caught")).startswith("went on: the person behind this client cannot be asked")
        assert "lets no tool use its model" in await _text(client, "write")
        assert "does not name its folders" in await _text(client, "folders")
    async with Client(box.server()) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("release", {})
        assert refused.value.code == -32021
        assert refused.value.data == {"requiredCapabilities": {"elicitation": {"form": {}}}}
        assert await _text(client, "careful") == "None"
        assert (await _text(client, "caught")).startswith("went on: the person behind this client cannot be asked")


async def test_outside_of_any_client_nobody_is_asked() -> None:
    assert (await box.call("release")).text == "nobody is there to be asked: What shall be released?"
    assert (await box.call("careful")).text == "None"
    with pytest.raises(CannotAsk):
        await ToolContext().roots()
    with pytest.raises(ToolkitError, match="is no page"):
        await ToolContext().ask("Open it", url="file:///etc/passwd")
    with pytest.raises(ToolkitError, match="without words"):
        await ToolContext().ask(" ")


async def test_what_no_form_has_is_refused_in_words() -> None:
    async with Person({}).client("legacy") as client:
        assert "nobody can be asked for dict" in await _text(client, "impossible")


async def test_an_answer_that_does_not_fit_is_told_and_in_2026_07_28_asked_for_again() -> None:
    async with Person({"Which": "main", "How many": "many"}).client("legacy") as client:
        assert await _text(client, "branch") == "caught ToolError"
    tries = Person({"Which": "main"})

    async def elicit(context: Any, params: Any) -> ElicitResult:
        tries.asked.append(params)
        answers: list[Any] = ["main", "many", 4]
        return ElicitResult(action="accept", content={"answer": answers[len(tries.asked) - 1]})

    async with Client(box.server(), elicitation_callback=elicit) as client:
        assert await _text(client, "branch") == "main 4"
    assert len(tries.asked) == 3


def _envelope(capabilities: dict[str, Any]) -> dict[str, Any]:
    return {**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": capabilities}


WIRE = """
@tool
async def branch(ctx: ToolContext) -> str:
    "Ask for a branch."
    return f"on {await ctx.ask('Which branch?', key='branch')}"

box = Toolbox("wire", [branch])
"""


def test_the_state_of_a_question_is_sealed_and_a_changed_one_refused(tmp_path: Path) -> None:
    meta = _envelope({"elicitation": {}})
    call = {"name": "branch", "arguments": {}, "_meta": meta}
    answer = {"branch": {"action": "accept", "content": {"answer": "main"}}}
    with Served(tmp_path, WIRE) as served:
        first = served.request("tools/call", call)
        assert first["resultType"] == "input_required"
        assert first["inputRequests"]["branch"]["method"] == "elicitation/create"
        state = first["requestState"]
        assert "main" not in state
        again = {**call, "inputResponses": answer, "requestState": state}
        assert served.request("tools/call", again)["content"][0]["text"] == "on main"
        for bad in (state + "x", "v1.abc", state[:-2]):
            refused = served.answer("tools/call", {**again, "requestState": bad})
            assert refused["error"]["code"] == -32602
        other = served.answer("tools/call", {**again, "arguments": {"other": 1}})
        assert other["error"]["code"] == -32602
        missing = served.request("tools/call", {**call, "inputResponses": {}, "requestState": state})
        assert missing["resultType"] == "input_required"


def test_a_question_travels_over_stdio_in_the_handshake_era(tmp_path: Path) -> None:
    with Served(tmp_path, WIRE) as served:
        served.request("initialize", {**HANDSHAKE, "capabilities": {"elicitation": {}}})
        served.send("notifications/initialized")
        served.send("tools/call", {"name": "branch", "arguments": {}}, request_id=7)
        asked = json.loads(served.read_line())
        assert asked["method"] == "elicitation/create"
        reply = {"action": "accept", "content": {"answer": "main"}}
        served.send_bytes(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": reply}).encode() + b"\n")
        assert served.read()["result"]["content"][0]["text"] == "on main"


def test_a_question_travels_over_http_in_2026_07_28(tmp_path: Path) -> None:
    call = {"name": "branch", "arguments": {}, "_meta": _envelope({"elicitation": {"form": {}}})}
    with ServedHttp(tmp_path, WIRE) as served:
        first = served.request("tools/call", call)
        answer = {"branch": {"action": "accept", "content": {"answer": "main"}}}
        again = {**call, "inputResponses": answer, "requestState": first["requestState"]}
        assert served.request("tools/call", again)["content"][0]["text"] == "on main"


def test_a_tool_that_does_not_ask_loads_nothing_of_it(tmp_path: Path) -> None:
    source = """
    import sys

    @tool
    def loaded(ctx: ToolContext) -> list[str]:
        "What is loaded."
        return [name for name in sys.modules if ".asking" in name and name.startswith("toolkit")]

    box = Toolbox("plain", [loaded])
    """
    with Served(tmp_path, source) as served:
        served.initialize()
        assert served.call("loaded") == "[]"
