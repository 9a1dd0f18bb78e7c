"""From a Python value to what the model reads."""

from __future__ import annotations

import base64
import datetime
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import mcp_types
import pytest
from pydantic import BaseModel

from toolkit import Audio, Image, Resource, Text, Toolbox, ToolError, ToolResult, tool
from toolkit.errors import ToolDefinitionError
from toolkit.tools import Reply

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
JPEG = b"\xff\xd8\xff\xe0" + b"\0" * 8
WAV = b"RIFF\0\0\0\0WAVEfmt "


@dataclass
class Note:
    title: str
    size: int = 1


@dataclass
class Card:
    title: str

    def render(self) -> str:
        return f"[{self.title}]" if self.title else ""


class Model(BaseModel):
    at: datetime.date
    raw: bytes = b"own"


class Pair(NamedTuple):
    left: int
    right: Path


class Colour(str, Enum):  # noqa: UP042  (its str() differs from its value)
    RED = "red"


async def reply_of(function: Callable[..., Any], **options: Any) -> Reply:
    """What a client gets from calling a tool without arguments."""
    return await Toolbox("box", [tool(function, name="probe", **options)]).call("probe")


async def text_of(value: Any) -> str:
    reply = await reply_of(lambda: value)
    assert not reply.is_error, reply.text
    return reply.text


VALUES: list[tuple[Any, str]] = [
    ("plain\ntext", "plain\ntext"),
    (5, "5"),
    (True, "true"),
    (1.5, "1.5"),
    (float("inf"), '"Infinity"'),
    ([1, "a", None], '[1,"a",null]'),
    ({"a": [1]}, '{"a":[1]}'),
    ((1, 2), "[1,2]"),
    ({3}, "[3]"),
    (Note("ä"), '{"title":"ä","size":1}'),
    ([Note("a")], '[{"title":"a","size":1}]'),
    (Card("x"), "[x]"),
    ([Card("x"), Card("y")], "[x]\n[y]"),
    ([Card("x"), 1], '[{"title":"x"},1]'),
    (Model(at=datetime.date(2026, 1, 2)), '{"at":"2026-01-02","raw":"b3du"}'),
    (Pair(1, Path("a/b")), '[1,"a/b"]'),
    (Colour.RED, "red"),
    (datetime.datetime(2026, 1, 2, 3, 4, 5), '"2026-01-02T03:04:05"'),
    (UUID("12345678-1234-5678-1234-567812345678"), '"12345678-1234-5678-1234-567812345678"'),
    (Decimal("1.10"), '"1.10"'),
    (Path("a/b"), '"a/b"'),
    (b"\xff\xfe", '"//4="'),
    (ToolResult(Note("a")), '{"title":"a","size":1}'),
    (ToolResult(None, message="nothing to do"), "nothing to do"),
    (ToolResult(Card(""), message="empty card"), "empty card"),
    (None, ""),
    ("", ""),
]


@pytest.mark.parametrize(("value", "text"), VALUES, ids=lambda v: repr(v)[:40])
async def test_a_value_reads_as(value: Any, text: str) -> None:
    assert await text_of(value) == text


@pytest.mark.parametrize("value", [None, "", ToolResult(None), Card("")])
async def test_nothing_is_no_content_at_all(value: Any) -> None:
    assert await reply_of(lambda: value) == Reply([])


async def test_the_tools_own_renderer_comes_first() -> None:
    @tool
    def cards() -> list[Card]:
        return [Card("a"), Card("b")]

    @cards.renders
    def _(found: list[Card]) -> str:
        return " ".join(card.title for card in found)

    assert (await Toolbox("box", [cards]).call("cards")).text == "a b"
    assert cards() == [Card("a"), Card("b")]


async def test_a_renderer_may_give_content_objects() -> None:
    @tool
    def draw() -> bytes:
        return PNG

    draw.renders(lambda raw: [Text("a picture"), Image(raw)])
    reply = await Toolbox("box", [draw]).call("draw")
    assert [block["type"] for block in reply.content] == ["text", "image"]


async def test_a_renderer_that_raises_is_an_error_result(caplog: pytest.LogCaptureFixture) -> None:
    class Bad:
        def render(self) -> str:
            raise ValueError("no ink")

    reply = await reply_of(lambda: Bad())
    assert (reply.is_error, reply.text) == (True, "ValueError: no ink")
    assert "no ink" in caplog.text


async def test_a_value_without_a_rendering_is_an_error_that_says_so() -> None:
    reply = await reply_of(lambda: object())
    assert reply.is_error
    assert "the tool returned a object, which has no rendering" in reply.text
    assert "@my_tool.renders" in reply.text


async def test_content_objects_pass_through(tmp_path: Path) -> None:
    picture = tmp_path / "wrong-name.png"
    picture.write_bytes(JPEG)
    notes = tmp_path / "notes.md"
    notes.write_text("# hi", encoding="utf-8")
    blob = tmp_path / "data.bin"
    blob.write_bytes(b"\xff\x00")

    reply = await reply_of(
        lambda: [
            "first",
            Image(PNG),
            Image(picture),
            Audio(WAV),
            Audio(b"raw", mime="audio/x-raw"),
            Resource(notes),
            Resource(blob),
            Resource("note://1", "text", mime="text/x-note"),
            mcp_types.TextContent(type="text", text="from mcp"),
            Note("last"),
        ]
    )

    def encoded(raw: bytes) -> str:
        return base64.b64encode(raw).decode()

    assert reply.content == [
        {"type": "text", "text": "first"},
        {"type": "image", "data": encoded(PNG), "mimeType": "image/png"},
        {"type": "image", "data": encoded(JPEG), "mimeType": "image/jpeg"},
        {"type": "audio", "data": encoded(WAV), "mimeType": "audio/wav"},
        {"type": "audio", "data": encoded(b"raw"), "mimeType": "audio/x-raw"},
        {"type": "resource", "resource": {"uri": notes.as_uri(), "mimeType": "text/markdown", "text": "# hi"}},
        {
            "type": "resource",
            "resource": {"uri": blob.as_uri(), "mimeType": "application/octet-stream", "blob": encoded(b"\xff\x00")},
        },
        {"type": "resource", "resource": {"uri": "note://1", "mimeType": "text/x-note", "text": "text"}},
        {"type": "text", "text": "from mcp"},
        {"type": "text", "text": '{"title":"last","size":1}'},
    ]


async def test_bytes_that_are_no_picture_are_refused() -> None:
    reply = await reply_of(lambda: Image(b"%PDF-1.7"))
    assert reply.is_error
    assert "Image: these bytes are not a known image type but application/pdf" in reply.text


async def test_generators_are_collected() -> None:
    def numbers() -> Iterator[int]:
        yield 1
        yield 2

    async def letters() -> AsyncIterator[str]:
        yield "a"
        yield "b"

    assert (await reply_of(numbers)).text == "[1,2]"
    assert (await reply_of(letters)).text == '["a","b"]'
    assert (await reply_of(lambda: map(str, [1]))).text == '["1"]'


async def test_a_generator_that_raises_halfway_is_an_error() -> None:
    def numbers() -> Iterator[int]:
        yield 1
        raise ToolError("ran out")

    reply = await reply_of(numbers)
    assert (reply.is_error, reply.text) == (True, "ran out")


async def test_a_long_result_is_cut_at_a_line_and_says_how_much_is_missing() -> None:
    lines = "\n".join(f"line {n:04}" for n in range(100))
    reply = await reply_of(lambda: lines, max_chars=250)
    shown, notice = (block["text"] for block in reply.content)
    assert lines.startswith(shown)
    assert shown.endswith("line 0017")
    assert notice == f"[cut here: {len(lines) - len(shown)} of 999 characters are missing; ask for less at a time]"
    assert len(shown) + len(notice) <= 250


async def test_a_long_result_keeps_its_pictures_and_a_short_one_is_left_alone() -> None:
    reply = await reply_of(lambda: ["x" * 500, Image(PNG), "tail"], max_chars=200)
    assert [block["type"] for block in reply.content] == ["text", "image", "text"]
    assert sum(len(b["text"]) for b in reply.content if b["type"] == "text") <= 200
    assert (await reply_of(lambda: "x" * 200, max_chars=200)).text == "x" * 200


async def test_errors_are_cut_too() -> None:
    def fail() -> None:
        raise ValueError("x" * 5000)

    reply = await reply_of(fail, max_chars=300)
    assert reply.is_error
    assert len(reply.text) <= 301


async def test_a_tool_error_is_shown_as_written_and_others_with_type(caplog: pytest.LogCaptureFixture) -> None:
    def polite() -> None:
        raise ToolError("no folder 'srcs'; the workspace has: src, tests")

    def rude() -> None:
        raise KeyError("srcs")

    said = await reply_of(polite)
    assert (said.is_error, said.text) == (True, "no folder 'srcs'; the workspace has: src, tests")
    assert caplog.records == []
    said = await reply_of(rude)
    assert (said.is_error, said.text) == (True, "KeyError: 'srcs'")
    assert caplog.records[0].levelno == logging.ERROR
    assert "in rude" in caplog.text


async def test_a_result_that_is_not_ok_is_an_error_with_its_text() -> None:
    reply = await reply_of(lambda: ToolResult("half done", ok=False))
    assert (reply.is_error, reply.text) == (True, "half done")
    reply = await reply_of(lambda: ToolResult(None, message="it broke", ok=False))
    assert (reply.is_error, reply.text) == (True, "it broke")


class Row(TypedDict):
    name: str


class Raw(Enum):
    KEY = b"\xff\xfe"


@dataclass
class Held:
    name: str
    inside: Any


class HeldInModel(BaseModel):
    inside: list[bytes] | None


@pytest.mark.parametrize(
    "value",
    [
        *(b"\xff\xfe", bytearray(b"\xff\xfe"), [b"\xff\xfe"], (1, "a", b"\xff\xfe"), {b"\xff\xfe"}, {"a": b"\xff\xfe"}),
        *(
            {b"\xff\xfe": 1},
            {"a": {"b": [b"\xff\xfe"]}},
            Raw.KEY,
            [Raw.KEY],
            Held("a", b"\xff\xfe"),
            [Held("a", [b"\xff\xfe"])],
        ),
        *(HeldInModel(inside=[b"\xff\xfe"]), Held("a", HeldInModel(inside=[b"\xff\xfe"]))),
    ],
    ids=repr,
)
async def test_bytes_are_standard_base64_wherever_they_hide(value: Any) -> None:
    reply = await reply_of(lambda: value)
    assert "//4=" in reply.text
    assert "__4=" not in reply.text


def _returns(annotation: Any, value: Any) -> Callable[[], Any]:
    def probe() -> Any:
        return value

    probe.__annotations__["return"] = annotation
    return probe


@pytest.mark.parametrize(
    ("annotation", "value", "schema", "structured"),
    [
        (int, 5, {"type": "integer"}, {"result": 5}),
        (list[Note], [Note("a")], None, {"result": [{"title": "a", "size": 1}]}),
        (Note, Note("a"), None, {"title": "a", "size": 1}),
        (Row, {"name": "a"}, None, {"name": "a"}),
        (ToolResult[Note], ToolResult(Note("a")), None, {"title": "a", "size": 1}),
        (Pair, Pair(1, Path("p")), None, {"result": [1, "p"]}),
        (Decimal, Decimal("1.10"), {"type": "string"}, {"result": "1.10"}),
        (Iterator[int], iter([1, 2]), {"type": "array", "items": {"type": "integer"}}, {"result": [1, 2]}),
        (dict[str, int], {"a": 1}, None, {"a": 1}),
        (
            datetime.date | None,
            None,
            {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
            {"result": None},
        ),
        (Colour, Colour.RED, {"type": "string", "enum": ["red"]}, {"result": "red"}),
        (UUID, UUID(int=0), {"type": "string", "format": "uuid"}, {"result": "00000000-0000-0000-0000-000000000000"}),
        (Path, Path("a"), {"type": "string"}, {"result": "a"}),
        (bytes, b"\xff\xfe", {"type": "string", "contentEncoding": "base64"}, {"result": "//4="}),
        (Model, Model(at=datetime.date(2026, 1, 2)), None, {"at": "2026-01-02", "raw": "b3du"}),
    ],
    ids=lambda v: re.sub(r" at 0x.*", "", repr(v))[:30],
)
async def test_a_structured_tool_also_sends_what_its_schema_says(
    annotation: Any, value: Any, schema: dict[str, Any] | None, structured: dict[str, Any]
) -> None:
    probe = tool(_returns(annotation, value), structured=True)
    reply = await Toolbox("box", [probe]).call("probe")
    assert not reply.is_error, reply.text
    assert reply.structured == structured
    declared = probe.listing()["outputSchema"]
    assert declared["type"] == "object"
    if schema is not None:
        assert declared["properties"]["result"] == schema


class Shown:
    """Renders itself as whatever it was given."""

    def __init__(self, rendering: Any) -> None:
        self.rendering = rendering

    def render(self) -> Any:
        return self.rendering


class Loud(str):
    def render(self) -> str:
        return self.upper()


async def test_what_a_value_renders_to_is_content_like_any_other() -> None:
    picture = await reply_of(lambda: Shown([Text("a picture:"), Image(PNG)]))
    assert [block["type"] for block in picture.content] == ["text", "image"]
    assert (await reply_of(lambda: Shown(None))).content == []
    assert (await reply_of(lambda: ToolResult(Shown(None), "said instead"))).text == "said instead"
    assert (await reply_of(lambda: Shown({"a": 1}))).text == '{"a":1}'
    assert (await reply_of(lambda: Loud("x"))).text == "X"


async def test_no_block_is_empty_and_no_error_is_without_a_text() -> None:
    assert (await reply_of(lambda: [Text(""), Text("b")])).content == [{"type": "text", "text": "b"}]

    def silent() -> None:
        raise ToolError("")

    for failure in (silent, lambda: ToolResult(None, ok=False)):
        reply = await reply_of(failure)
        assert reply.is_error
        assert reply.text == "The tool failed and gave no reason."


async def test_the_text_of_a_resource_is_cut_too() -> None:
    reply = await reply_of(lambda: [Resource("a://b", "line\n" * 100), Image(PNG)], max_chars=200)
    resource, picture, notice = reply.content
    assert resource["resource"]["text"] == "\n".join(["line"] * 26)
    assert picture["type"] == "image"
    assert notice["text"] == "[cut here: 371 of 500 characters are missing; ask for less at a time]"


async def test_text_only_is_the_default() -> None:
    reply = await reply_of(_returns(Note, Note("a")))
    assert reply.structured is None
    assert "outputSchema" not in tool(_returns(Note, None)).listing()


async def test_a_structured_tool_that_returns_something_else_is_an_error() -> None:
    reply = await reply_of(_returns(int, "five"), structured=True)
    assert reply.is_error
    assert "the tool returned a str, not what it declares" in reply.text


@pytest.mark.parametrize("annotation", [Image, list[Text], object()])
def test_a_return_type_without_structure_is_refused(annotation: Any) -> None:
    with pytest.raises(ToolDefinitionError):
        Toolbox("box", [tool(_returns(annotation, None), structured=True)])


def test_structured_needs_a_return_type() -> None:
    with pytest.raises(ToolDefinitionError, match="needs a return type"):
        Toolbox("box", [tool(lambda: 1, name="probe", structured=True)])
