"""What the official MCP conformance suite asks a server for, written as a user of the toolkit writes it.

toolkit serve --http tests/conformance/server.py
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from toolkit import (
    Audio,
    Image,
    Resource,
    Text,
    Tool,
    Toolbox,
    ToolContext,
    ToolError,
    prompt,
    resource,
    tool,
)
from toolkit.tools import CannotAsk

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")


@tool
def test_simple_text() -> str:
    """Tests simple text content response."""
    return "This is a simple text response for testing."


@tool
def test_image_content() -> Image:
    """Tests image content response."""
    return Image(PNG)


@tool
def test_audio_content() -> Audio:
    """Tests audio content response."""
    return Audio(WAV)


@tool
def test_embedded_resource() -> Resource:
    """Tests embedded resource content response."""
    return Resource("test://embedded-resource", "This is an embedded resource content.", "text/plain")


@tool
def test_multiple_content_types() -> list[Text | Image | Resource]:
    """Tests a response with several kinds of content."""
    return [
        Text("Multiple content types test:"),
        Image(PNG),
        Resource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ]


@tool
async def test_tool_with_logging(ctx: ToolContext) -> str:
    """Tests a tool that emits log messages."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        ctx.log(text)
        await asyncio.sleep(0.05)
    return "Tool with logging executed successfully"


@tool
async def test_tool_with_progress(ctx: ToolContext) -> str:
    """Tests a tool that reports progress."""
    for done in (0, 50, 100):
        ctx.progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.05)
    return ctx.call_id


@tool
def test_error_handling() -> str:
    """Tests error response handling."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool
async def test_reconnection() -> str:
    """Tests SSE stream disconnection and client reconnection (SEP-1699)."""
    await asyncio.sleep(0.1)
    return "Reconnection test completed successfully."


@tool
async def test_logging_tool(ctx: ToolContext) -> str:
    """Emits log messages; in 2026-07-28 only when asked for."""
    ctx.log("a debug message", "debug")
    ctx.log("an info message")
    ctx.log("a warning", "warning")
    return "logged"


def _take(arguments: dict[str, object]) -> str:
    return f"taken: {', '.join(sorted(arguments))}"


json_schema_2020_12_tool = Tool.from_schema(
    name="json_schema_2020_12_tool",
    description="Tool with JSON Schema 2020-12 features",
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
    call=_take,
)


@tool
def test_custom_headers(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    priority: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Priority"})] = 1,
    note: str = "",
) -> str:
    """Arguments that are mirrored into HTTP headers (SEP-2243)."""
    return f"{region} {priority} {note}"


@tool
def test_trigger_tool_change(ctx: ToolContext) -> str:
    """Tells that the tools changed."""
    ctx.changed("tools")
    return "changed"


@tool
def test_trigger_prompt_change(ctx: ToolContext) -> str:
    """Tells that the prompts changed."""
    ctx.changed("prompts")
    return "changed"


@tool
async def test_sampling(prompt: str, ctx: ToolContext) -> str:
    """Lets the client's model write."""
    return f"LLM response: {await ctx.sample(prompt, max_tokens=100)}"


@tool
async def test_missing_capability(ctx: ToolContext) -> str:
    """Needs the client's model."""
    return str(await ctx.sample("Hello", max_tokens=10))


@dataclass
class Contact:
    username: Annotated[str, "User's response"]
    email: Annotated[str, "User's email address"]


@tool
async def test_elicitation(message: str, ctx: ToolContext) -> str:
    """Asks the person behind the client."""
    return f"User response: {await ctx.ask(message, Contact)}"


@dataclass
class Defaults:
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


@tool
async def test_elicitation_sep1034_defaults(ctx: ToolContext) -> str:
    """Asks with a default for every kind of field."""
    return f"Elicitation completed: {await ctx.ask('Please review your data', Defaults)}"


def _titled(**titles: str) -> list[dict[str, str]]:
    return [{"const": value, "title": title} for value, title in titles.items()]


@dataclass
class Choices:
    untitledSingle: Literal["option1", "option2", "option3"]
    titledSingle: Annotated[
        str,
        Field(
            json_schema_extra={"oneOf": _titled(value1="First Option", value2="Second Option", value3="Third Option")}
        ),
    ]
    legacyEnum: Annotated[
        str,
        Field(
            json_schema_extra={
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            }
        ),
    ]
    untitledMulti: list[Literal["option1", "option2", "option3"]] = field(default_factory=list)
    titledMulti: Annotated[
        list[str],
        Field(
            json_schema_extra={
                "items": {"anyOf": _titled(value1="First Choice", value2="Second Choice", value3="Third Choice")}
            }
        ),
    ] = field(default_factory=list)


@tool
async def test_elicitation_sep1330_enums(ctx: ToolContext) -> str:
    """Asks with every kind of choice."""
    return f"Elicitation completed: {await ctx.ask('Please choose', Choices)}"


@tool
async def test_streaming_elicitation(ctx: ToolContext) -> str:
    """Reports, and asks."""
    ctx.progress(1, 2)
    return str(await ctx.ask("Go on?", bool))


@dataclass
class Name:
    name: str


@dataclass
class Colour:
    color: str


@dataclass
class Confirmation:
    ok: bool


@dataclass
class Background:
    context: str


@tool
async def test_input_required_result_elicitation(ctx: ToolContext) -> str:
    """Asks for a name."""
    name = await ctx.ask("What is your name?", Name, key="user_name")
    return f"Hello, {name.name}!" if isinstance(name, Name) else "Hello!"


@tool
async def test_input_required_result_sampling(ctx: ToolContext) -> str:
    """Lets the client's model answer a question."""
    return str(await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question"))


@tool
async def test_input_required_result_list_roots(ctx: ToolContext) -> str:
    """Names the client's folders."""
    return f"Roots: {', '.join(root.uri for root in await ctx.roots())}"


@tool
async def test_input_required_result_request_state(ctx: ToolContext) -> str:
    """Asks for a confirmation; the state is the toolkit's, and checked before this runs again."""
    return f"state-ok: {await ctx.ask('Please confirm', Confirmation, key='confirm')}"


@tool
async def test_input_required_result_tampered_state(ctx: ToolContext) -> str:
    """The same."""
    return f"confirmed: {await ctx.ask('Please confirm', Confirmation, key='confirm')}"


@tool
async def test_input_required_result_multiple_inputs(ctx: ToolContext) -> str:
    """Asks for three things at once."""
    name, greeting, roots = await asyncio.gather(
        ctx.ask("What is your name?", Name, key="user_name"),
        ctx.sample("Generate a greeting", max_tokens=50, key="greeting"),
        ctx.roots(),
    )
    return f"{greeting} {name} {len(roots)}"


@tool
async def test_input_required_result_multi_round(ctx: ToolContext) -> str:
    """Asks for one thing after the other."""
    name = await ctx.ask("Step 1: What is your name?", Name, key="step1")
    colour = await ctx.ask("Step 2: What is your favorite color?", Colour, key="step2")
    return f"{name} {colour}"


@tool
async def test_input_required_result_capabilities(ctx: ToolContext) -> str:
    """Asks for what this client can give."""

    async def name() -> object:
        try:
            return await ctx.ask("What is your name?", Name)
        except CannotAsk:
            return "somebody"

    async def greeting() -> object:
        try:
            return await ctx.sample("Generate a greeting", max_tokens=50)
        except CannotAsk:
            return "Hello"

    return " ".join(map(str, await asyncio.gather(greeting(), name())))


@prompt
async def test_input_required_result_prompt(ctx: ToolContext) -> str:
    """A prompt that asks first."""
    given = await ctx.ask("What context should the prompt use?", Background, key="user_context")
    return f"Use this context: {given}"


@resource("test://static-text", ttl=60)
def static_text() -> str:
    """A static text resource."""
    return "This is the content of the static text resource."


@resource("test://static-binary", mime="image/png")
def static_binary() -> bytes:
    """A static binary resource."""
    return PNG


@resource("test://template/{id}/data", mime="application/json")
def template(id: str) -> dict[str, object]:
    """A resource with a parameter."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@resource("test://watched-resource")
def watched() -> str:
    """A resource that may be watched."""
    return "Watched resource content."


@resource("test://example-resource")
def example() -> str:
    """A resource that a prompt embeds."""
    return "Embedded resource content for testing."


@prompt
def test_simple_prompt() -> str:
    """A simple prompt without arguments."""
    return "This is a simple prompt for testing."


@prompt
def test_prompt_with_arguments(
    arg1: Annotated[str, "First test argument"], arg2: Annotated[str, "Second test argument"]
) -> str:
    """A prompt with arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@test_prompt_with_arguments.completes("arg1")
def _() -> list[str]:
    return ["paris", "park", "party", "test"]


@prompt
def test_prompt_with_embedded_resource(resourceUri: Annotated[str, "URI of the resource to embed"]) -> list[object]:
    """A prompt with an embedded resource."""
    content = Resource(resourceUri, "Embedded resource content for testing.", "text/plain")
    return [content, "Please process the embedded resource above."]


@prompt
def test_prompt_with_image() -> list[object]:
    """A prompt with a picture."""
    return [Image(PNG), "Please analyze the image above."]


box = Toolbox.from_module(__import__("sys").modules[__name__], "conformance")
