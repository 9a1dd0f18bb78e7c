"""The schema a model sees, type by type. Each row is the whole schema of one parameter."""

from __future__ import annotations

import datetime
import typing
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union
from uuid import UUID

import pytest
import typing_extensions
from pydantic import BaseModel, ConfigDict, Field

from toolkit import Toolbox, ToolContext, tool


@dataclass
class Point:
    """A place on the map.

    Attributes:
        x: Steps to the right.
    """

    x: int
    y: Annotated[int, "Steps up."] = 0


class Size(BaseModel):
    width: int = Field(ge=1, description="In pixels.")
    title: str = "untitled"


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Options(typing.TypedDict, total=False):
    depth: typing.Required[int]
    point: Point


class OptionsExt(typing_extensions.TypedDict):
    depth: int


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Told(BaseModel):
    a: Annotated[int, "The a."]
    b: Annotated[int, "The b."] = Field(alias="bB")
    c: Annotated[int, "The c."] | None = None


@dataclass
class Counted:
    start: int
    seen: int = field(default=0, init=False)


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


POINT = {
    "description": "A place on the map.",
    "properties": {
        "x": {"type": "integer", "description": "Steps to the right."},
        "y": {"type": "integer", "description": "Steps up.", "default": 0},
    },
    "required": ["x"],
    "type": "object",
    "additionalProperties": False,
}
TREE = {
    "properties": {
        "value": {"type": "integer"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
    },
    "required": ["value"],
    "type": "object",
    "additionalProperties": False,
}

GOLDEN: list[tuple[Any, dict[str, Any]]] = [
    (str, {"type": "string"}),
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (None, {"type": "null"}),
    (Any, {}),
    (list, {"type": "array", "items": {}}),
    (list[int], {"type": "array", "items": {"type": "integer"}}),
    (list[list[str]], {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    (
        tuple[int, str],
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
    ),
    (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    (frozenset[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    (dict[str, Any], {"type": "object", "additionalProperties": True}),
    (Optional[int], {"type": ["integer", "null"]}),  # noqa: UP045
    (int | None, {"type": ["integer", "null"]}),
    (list[int] | None, {"type": ["array", "null"], "items": {"type": "integer"}}),
    (Union[int, str], {"type": ["integer", "string"]}),  # noqa: UP007
    (int | str | None, {"type": ["integer", "string", "null"]}),
    (int | list[str], {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal["a"], {"type": "string", "const": "a"}),
    (Literal["a", "b"] | None, {"type": ["string", "null"], "enum": ["a", "b", None]}),
    (Literal["a"] | None, {"type": ["string", "null"], "enum": ["a", None]}),
    (Colour, {"type": "string", "enum": ["red", "blue"]}),
    (Level, {"type": "integer", "enum": [1, 2]}),
    (Colour | None, {"type": ["string", "null"], "enum": ["red", "blue", None]}),
    (Point, POINT),
    (Point | None, {**POINT, "type": ["object", "null"]}),
    (list[Point], {"type": "array", "items": POINT}),
    (
        Size,
        {
            "properties": {
                "width": {"type": "integer", "minimum": 1, "description": "In pixels."},
                "title": {"type": "string", "default": "untitled"},
            },
            "required": ["width"],
            "type": "object",
            "additionalProperties": False,
        },
    ),
    (
        Open,
        {
            "properties": {"a": {"type": "integer"}},
            "required": ["a"],
            "type": "object",
            "additionalProperties": True,
        },
    ),
    (
        Options,
        {
            "properties": {"depth": {"type": "integer"}, "point": POINT},
            "required": ["depth"],
            "type": "object",
            "additionalProperties": False,
        },
    ),
    (
        OptionsExt,
        {
            "properties": {"depth": {"type": "integer"}},
            "required": ["depth"],
            "type": "object",
            "additionalProperties": False,
        },
    ),
    (
        Pair,
        {
            "properties": {"left": {"type": "integer"}, "right": {"type": "string", "default": "r"}},
            "required": ["left"],
            "type": "object",
            "additionalProperties": False,
        },
    ),
    (datetime.datetime, {"type": "string", "format": "date-time"}),
    (datetime.date, {"type": "string", "format": "date"}),
    (datetime.timedelta, {"type": "string", "format": "duration"}),
    (Path, {"type": "string"}),
    (UUID, {"type": "string", "format": "uuid"}),
    (Decimal, {"type": ["number", "string"]}),
    (bytes, {"type": "string", "contentEncoding": "base64"}),
    (bytes | None, {"type": ["string", "null"], "contentEncoding": "base64"}),
    (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
    (
        Annotated[int, Field(ge=1, le=9, description="one digit")],
        {"type": "integer", "minimum": 1, "maximum": 9, "description": "one digit"},
    ),
    (Annotated[Point, "where to go"], {**POINT, "description": "where to go"}),
    (Annotated[int | None, "how many"], {"type": ["integer", "null"], "description": "how many"}),
    (Annotated[int, "how many"] | None, {"type": ["integer", "null"], "description": "how many"}),
    (list[Annotated[int, "a year"]], {"type": "array", "items": {"type": "integer", "description": "a year"}}),
    (
        Told,
        {
            "properties": {
                "a": {"type": "integer", "description": "The a."},
                "bB": {"type": "integer", "description": "The b."},
                "c": {"type": ["integer", "null"], "description": "The c.", "default": None},
            },
            "required": ["a", "bB"],
            "type": "object",
            "additionalProperties": False,
        },
    ),
    (
        Counted,
        {
            "properties": {"start": {"type": "integer"}},
            "required": ["start"],
            "type": "object",
            "additionalProperties": False,
        },
    ),
]


@pytest.mark.parametrize(("annotation", "expected"), GOLDEN, ids=[str(row[0]) for row in GOLDEN])
def test_the_schema_of_a_parameter_is_exactly(annotation: Any, expected: dict[str, Any]) -> None:
    def probe(value: Any) -> None: ...

    probe.__annotations__["value"] = annotation
    schema = tool(probe).input_schema
    assert schema == {
        "type": "object",
        "properties": {"value": expected},
        "required": ["value"],
        "additionalProperties": False,
    }


def test_a_recursive_type_is_the_only_reference_left() -> None:
    @tool
    def grow(tree: Tree, other: Tree | None = None) -> None: ...

    assert grow.input_schema == {
        "type": "object",
        "properties": {
            "tree": {"$ref": "#/$defs/Tree"},
            "other": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}], "default": None},
        },
        "required": ["tree"],
        "additionalProperties": False,
        "$defs": {"Tree": TREE},
    }


def test_two_recursive_types_of_one_name_keep_apart() -> None:
    class IntNode(BaseModel):
        model_config = ConfigDict(title="Node")
        value: int
        next: IntNode | None = None

    class StrNode(BaseModel):
        model_config = ConfigDict(title="Node")
        value: str
        next: StrNode | None = None

    StrNode.__name__ = IntNode.__name__ = "Node"
    StrNode.__qualname__ = IntNode.__qualname__ = "Node"

    @tool
    def link(a: IntNode, b: StrNode) -> None: ...

    definitions = link.input_schema["$defs"]
    types = sorted(schema["properties"]["value"]["type"] for schema in definitions.values())
    assert types == ["integer", "string"]
    first = link.input_schema["properties"]["a"]["$ref"].rpartition("/")[2]
    assert definitions[first]["properties"]["value"] == {"type": "integer"}


def test_defaults_are_shown_as_json_and_left_out_where_json_cannot_say_them() -> None:
    nothing = object()

    @tool
    def go(
        where: Path = Path("src"),
        colour: Colour = Colour.RED,
        point: Point | None = None,
        raw: bytes = b"\xff",
        odd: Any = nothing,
        most: float = float("inf"),
    ) -> None: ...

    shown = {name: schema.get("default", "left out") for name, schema in go.input_schema["properties"].items()}
    assert shown == {
        "where": "src",
        "colour": "red",
        "point": None,
        "raw": "_w==",
        "odd": "left out",
        "most": "left out",
    }
    assert "required" not in go.input_schema


async def test_a_default_of_none_may_be_sent_as_well() -> None:
    def go(limit: int, other: Any) -> str:
        return repr([limit, other])

    go.__defaults__ = (None, None)
    box = Toolbox("box", [tool(go)])
    assert box.tools["go"].input_schema["properties"] == {
        "limit": {"type": ["integer", "null"], "default": None},
        "other": {"default": None},
    }
    assert (await box.call("go", {"limit": None, "other": None})).text == "[None, None]"


def test_a_context_parameter_is_hidden() -> None:
    @tool
    def go(text: str, ctx: ToolContext) -> None: ...

    assert list(go.input_schema["properties"]) == ["text"]


GOOGLE = """Find things.

    Looks everywhere.

    Args:
        text: What to look for,
            anywhere.
        limit (int): How many.

    Returns:
        The things.
    """
NUMPY = """Find things.

    Looks everywhere.

    Parameters
    ----------
    text : str
        What to look for,
        anywhere.
    limit : int
        How many.

    Returns
    -------
    list
        The things.
    """
SPHINX = """Find things.

    Looks everywhere.

    :param text: What to look for,
        anywhere.
    :param int limit: How many.
    :type text: str
    :returns: The things.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_a_docstring_describes_the_tool_and_its_parameters(docstring: str) -> None:
    def find(text: str, limit: int = 3) -> None: ...

    find.__doc__ = docstring
    found = tool(find)
    texts = {name: schema["description"] for name, schema in found.input_schema["properties"].items()}
    assert texts == {"text": "What to look for, anywhere.", "limit": "How many."}
    assert found.description.startswith("Find things.\n\nLooks everywhere.\n\n")
    assert "The things." in found.description
    assert "How many" not in found.description


def test_annotated_text_wins_over_the_docstring() -> None:
    @tool
    def find(text: Annotated[str, "from the type"], other: Annotated[str, Field(description="from Field")]) -> None:
        """Find.

        Args:
            text: from the docstring
        """

    texts = {name: schema["description"] for name, schema in find.input_schema["properties"].items()}
    assert texts == {"text": "from the type", "other": "from Field"}


def test_the_listing_has_hints_title_and_meta() -> None:
    @tool(title="Find", read_only=True, destructive=False, idempotent=True, open_world=False, max_chars=500)
    def find() -> None:
        """Find."""

    assert Toolbox("box", [find]).listing() == [
        {
            "name": "find",
            "title": "Find",
            "description": "Find.",
            "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
            "annotations": {
                "readOnlyHint": True,
                "destructiveHint": False,
                "idempotentHint": True,
                "openWorldHint": False,
            },
            "_meta": {"anthropic/alwaysLoad": True, "anthropic/maxResultSizeChars": 500},
        }
    ]


def test_always_load_can_be_switched_off() -> None:
    @tool(always_load=False)
    def find() -> None: ...

    assert "_meta" not in find.listing()
