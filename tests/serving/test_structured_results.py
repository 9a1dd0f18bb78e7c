"""A structured result that a client would refuse is an error reply; what a client takes is sent."""

from __future__ import annotations

import datetime
import enum
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from mcp import Client
from pydantic import BaseModel, Field, computed_field
from typing_extensions import TypedDict

from toolkit import Toolbox, ToolResult, tool
from toolkit.tools import Reply
from toolkit.tools.schema.compiling import given
from toolkit.tools.schema.compiling.fitting import fits, is_plain


@dataclass
class Item:
    name: str
    tags: list[str]


class Pair(NamedTuple):
    left: int
    right: int


class Row(TypedDict):
    name: str
    size: int


@dataclass
class Tree:
    branches: list[Tree]
    size: int


class Colour(enum.Enum):
    RED = "red"


class Measured(BaseModel):
    size: int = Field(serialization_alias="theSize")
    at: datetime.datetime | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return self.size * 2


def _returns(annotation: Any, value: Any) -> Callable[[], Any]:
    def probe() -> Any:
        return value

    probe.__annotations__["return"] = annotation
    return probe


async def _both(annotation: Any, value: Any) -> Reply:
    """What `Toolbox.call` gives, after mcp's own client has read the same."""
    box = Toolbox("box", [tool(_returns(annotation, value), structured=True)])
    reply = await box.call("probe")
    async with Client(box.server()) as client:
        read = await client.call_tool("probe", {})  # which raises where the result does not fit the schema
    assert (read.is_error, read.structured_content) == (reply.is_error, reply.structured)
    return reply


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (int, None, "result: should be an integer; got null"),
        (str, None, "result: should be a string; got null"),
        (list[int], None, "result: should be an array; got null"),
        (Item, None, "the result: should be an object; got null"),
        (Item, Item(None, ["a"]), "name: should be a string; got null"),  # type: ignore[arg-type]
        (Item, Item("a", [None]), "tags[0]: should be a string; got null"),  # type: ignore[list-item]
        (Pair, Pair(1, None), "result[1]: should be an integer; got null"),  # type: ignore[arg-type]
        (Row, {"name": "a"}, "size: missing"),
        (Tree, Tree([Tree([], None)], 1), "result.branches[0].size: should be an integer; got null"),  # type: ignore[arg-type]
        (Literal["a"], "b", 'result: should be "a"; got "b"'),
        (Annotated[int, Field(le=3)], 5, "result: should be 3 or less; got 5"),
        (Annotated[int, Field(ge=3)], 2, "result: should be 3 or more; got 2"),
        (Annotated[str, Field(min_length=3)], "a", "result: should have 3 characters or more"),
        (Annotated[list[int], Field(max_length=1)], [1, 2], "result: should have 1 items or fewer"),
        (ToolResult[int], ToolResult(None), "result: should be an integer; got null"),
    ],
    ids=str,
)
async def test_a_result_that_its_schema_does_not_allow_is_an_error_reply(
    annotation: Any, value: Any, words: str
) -> None:
    reply = await _both(annotation, value)
    assert reply.is_error
    assert f"the tool returned what its return type does not allow: {words}" in reply.text


@pytest.mark.parametrize(
    ("annotation", "value", "structured"),
    [
        (Item, Item("a", []), {"name": "a", "tags": []}),
        (Pair, Pair(1, 2), {"result": [1, 2]}),
        (Row, {"name": "a", "size": 1}, {"name": "a", "size": 1}),
        (Tree, Tree([Tree([], 2)], 1), {"result": {"branches": [{"branches": [], "size": 2}], "size": 1}}),
        (Measured, Measured(size=2), {"theSize": 2, "at": None, "twice": 4}),
        (bytes, b"\xff", {"result": "/w=="}),
        (float, 1, {"result": 1}),
        (float | None, float("nan"), {"result": None}),
        (Colour, Colour.RED, {"result": "red"}),
        (Path, Path("a"), {"result": "a"}),
        (set[int], {1, 2}, {"result": [1, 2]}),
        (dict[int, str], {1: "a"}, {"1": "a"}),
        (datetime.date, datetime.date(2026, 1, 2), {"result": "2026-01-02"}),
        (Any, None, {"result": None}),
        (int | None, None, {"result": None}),
    ],
    ids=str,
)
async def test_a_result_that_fits_is_sent(annotation: Any, value: Any, structured: dict[str, Any]) -> None:
    assert (await _both(annotation, value)).structured == structured


async def test_the_validator_of_results_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    check_schema = given.check_schema
    monkeypatch.setattr(given, "check_schema", lambda schema: made.append(schema) or check_schema(schema))  # type: ignore[func-returns-value]
    box = Toolbox("box", [tool(_returns(Annotated[int, Field(le=3)], 2), structured=True)])
    for _ in range(5):
        assert not (await box.call("probe")).is_error
    assert len(made) == 1


def test_results_that_are_plain_and_fit_load_no_validator() -> None:
    code = (
        "import asyncio, sys\nfrom toolkit import tool, Toolbox\n"
        "@tool(structured=True)\ndef plain() -> dict[str, list[int]]:\n    return {'a': [1]}\n"
        "assert asyncio.run(Toolbox('b', [plain]).call('plain')).structured == {'a': [1]}\n"
        "print('jsonschema' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"


SCHEMAS: list[dict[str, Any]] = [
    {"type": "integer"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "string", "enum": ["a", "b"]},
    {"enum": [1, "a", None]},
    {"anyOf": [{"type": "string"}, {"type": "null"}]},
    {"type": "array", "items": {"type": "integer"}},
    {"items": {"type": "integer"}},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False},
    {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
    {},
]
VALUES: list[Any] = [
    *(None, True, False, 0, 1, 1.0, 1.5, "a", "c", [], [1], [True], [None], {}, {"a": 1}, {"a": None}, {"b": 1}),
    *({"a": 1, "b": "x"}, {"a": 1, "b": 2}, [[1]], {"a": {"a": 1}}),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_what_is_found_to_fit_without_jsonschema_fits_by_jsonschema_too(schema: dict[str, Any]) -> None:
    whole = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
    assert is_plain(whole)
    check = given.GivenSchema(whole)
    for value in VALUES:
        fitting = check.problems({"result": value}) == []
        assert fits({"result": value}, whole) <= fitting
        assert fits({"result": value}, whole) == fitting or value == 1.0  # jsonschema counts it as a whole number
    assert not fits({}, whole)


@pytest.mark.parametrize(
    "more", [{"minimum": 1}, {"pattern": "a"}, {"$ref": "#/$defs/a"}, {"uniqueItems": True}], ids=str
)
def test_a_schema_with_other_words_is_left_to_jsonschema(more: dict[str, Any]) -> None:
    assert not is_plain({"type": "object", "properties": {"result": {"items": more}}})
