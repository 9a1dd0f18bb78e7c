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


class Menu(typing.TypedDict):
    below: list[Menu]


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
    d: int | None = 4


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


class Line(BaseModel):
    kind: Literal["line"]
    points: list[Point]


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
}
TREE = {
    "properties": {
        "value": {"type": "integer"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
    },
    "required": ["value"],
    "type": "object",
}
NULL = {"type": "null"}
CIRCLE = {
    "properties": {"kind": {"type": "string", "enum": ["circle"]}, "radius": {"type": "number"}},
    "required": ["kind", "radius"],
    "type": "object",
}
LINE = {
    "properties": {"kind": {"type": "string", "enum": ["line"]}, "points": {"type": "array", "items": POINT}},
    "required": ["kind", "points"],
    "type": "object",
}

GOLDEN: list[tuple[Any, dict[str, Any]]] = [
    (str, {"type": "string"}),
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (None, NULL),
    (Any, {}),
    (list, {"type": "array", "items": {}}),
    (list[int], {"type": "array", "items": {"type": "integer"}}),
    (list[list[str]], {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    (tuple[int, int], {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}),
    (
        tuple[int, str],
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
    ),
    (set[str], {"type": "array", "items": {"type": "string"}}),
    (frozenset[int], {"type": "array", "items": {"type": "integer"}}),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    (dict[str, Any], {"type": "object"}),
    (Optional[int], {"anyOf": [{"type": "integer"}, NULL]}),  # noqa: UP045
    (int | None, {"anyOf": [{"type": "integer"}, NULL]}),
    (list[int] | None, {"anyOf": [{"type": "array", "items": {"type": "integer"}}, NULL]}),
    (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
    (int | str | None, {"anyOf": [{"type": "integer"}, {"type": "string"}, NULL]}),
    (int | list[str], {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal["a"], {"type": "string", "enum": ["a"]}),
    (Literal["a", 1], {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "integer", "enum": [1]}]}),
    (Literal["a", None], {"anyOf": [{"type": "string", "enum": ["a"]}, NULL]}),
    (Literal["a", "b"] | None, {"anyOf": [{"type": "string", "enum": ["a", "b"]}, NULL]}),
    (Literal["a"] | None, {"anyOf": [{"type": "string", "enum": ["a"]}, NULL]}),
    (Colour, {"type": "string", "enum": ["red", "blue"]}),
    (Level, {"type": "integer", "enum": [1, 2]}),
    (Colour | None, {"anyOf": [{"type": "string", "enum": ["red", "blue"]}, NULL]}),
    (Point, POINT),
    (Point | None, {"anyOf": [POINT, NULL]}),
    (list[Point], {"type": "array", "items": POINT}),
    (Annotated[Circle | Line, Field(discriminator="kind")], {"anyOf": [CIRCLE, LINE]}),
    (
        Size,
        {
            "properties": {
                "width": {"type": "integer", "minimum": 1, "description": "In pixels."},
                "title": {"type": "string", "default": "untitled"},
            },
            "required": ["width"],
            "type": "object",
        },
    ),
    (Open, {"properties": {"a": {"type": "integer"}}, "required": ["a"], "type": "object"}),
    (
        Options,
        {
            "properties": {"depth": {"type": "integer"}, "point": POINT},
            "required": ["depth"],
            "type": "object",
        },
    ),
    (OptionsExt, {"properties": {"depth": {"type": "integer"}}, "required": ["depth"], "type": "object"}),
    (
        Pair,
        {
            "properties": {"left": {"type": "integer"}, "right": {"type": "string", "default": "r"}},
            "required": ["left"],
            "type": "object",
        },
    ),
    (datetime.datetime, {"type": "string", "format": "date-time"}),
    (datetime.date, {"type": "string", "format": "date"}),
    (datetime.timedelta, {"type": "string", "format": "duration"}),
    (Path, {"type": "string"}),
    (UUID, {"type": "string", "format": "uuid"}),
    (Decimal, {"anyOf": [{"type": "number"}, {"type": "string"}]}),
    (bytes, {"type": "string", "description": "base64"}),
    (bytes | None, {"anyOf": [{"type": "string", "description": "base64"}, NULL]}),
    (Annotated[bytes, "A picture."], {"type": "string", "description": "A picture. (base64)"}),
    (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
    (
        Annotated[int, Field(ge=1, le=9, description="one digit")],
        {"type": "integer", "minimum": 1, "maximum": 9, "description": "one digit"},
    ),
    (Annotated[int, Field(gt=0, lt=10)], {"type": "integer", "minimum": 1, "maximum": 9}),
    (Annotated[float, Field(gt=0)], {"type": "number", "exclusiveMinimum": 0}),
    (Annotated[Point, "where to go"], {**POINT, "description": "where to go"}),
    (Annotated[int | None, "how many"], {"anyOf": [{"type": "integer"}, NULL], "description": "how many"}),
    (Annotated[int, "how many"] | None, {"anyOf": [{"type": "integer", "description": "how many"}, NULL]}),
    (list[Annotated[int, "a year"]], {"type": "array", "items": {"type": "integer", "description": "a year"}}),
    (
        Told,
        {
            "properties": {
                "a": {"type": "integer", "description": "The a."},
                "bB": {"type": "integer", "description": "The b."},
                "c": {"type": "integer", "description": "The c."},
                "d": {"anyOf": [{"type": "integer"}, NULL], "default": 4},
            },
            "required": ["a", "bB"],
            "type": "object",
        },
    ),
    (Counted, {"properties": {"start": {"type": "integer"}}, "required": ["start"], "type": "object"}),
]


@pytest.mark.parametrize(("annotation", "expected"), GOLDEN, ids=[str(row[0]) for row in GOLDEN])
def test_the_schema_of_a_parameter_is_exactly(annotation: Any, expected: dict[str, Any]) -> None:
    def probe(value: Any) -> None: ...

    probe.__annotations__["value"] = annotation
    schema = tool(probe).input_schema
    assert schema == {"type": "object", "properties": {"value": expected}, "required": ["value"]}


OPTIONAL: list[tuple[Any, dict[str, Any]]] = [
    (int, {"type": "integer"}),
    (int | None, {"type": "integer"}),
    (list[int] | None, {"type": "array", "items": {"type": "integer"}}),
    (int | str | None, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    (Literal["a", None], {"type": "string", "enum": ["a"]}),
    (Colour | None, {"type": "string", "enum": ["red", "blue"]}),
    (Point | None, POINT),
    (bytes | None, {"type": "string", "description": "base64"}),
    (Annotated[int | None, "how many"], {"type": "integer", "description": "how many"}),
    (Annotated[int, "how many"] | None, {"type": "integer", "description": "how many"}),
    (Any, {}),
]


@pytest.mark.parametrize(("annotation", "expected"), OPTIONAL, ids=[str(row[0]) for row in OPTIONAL])
async def test_a_default_of_none_gives_the_plain_type_and_null_is_taken(
    annotation: Any, expected: dict[str, Any]
) -> None:
    def probe(value: Any = None) -> str:
        return repr(value)

    probe.__annotations__["value"] = annotation
    optional = tool(probe)
    assert optional.input_schema == {"type": "object", "properties": {"value": expected}}
    assert (await optional.invoke({"value": None})).text == (await optional.invoke({})).text == "None"


async def test_null_is_taken_where_a_field_is_none_when_left_out() -> None:
    @tool
    def tell(told: Told) -> str:
        return f"{told.c} {told.d}"

    given = {"a": 1, "bB": 2, "c": None, "d": None}
    assert (await tell.invoke({"told": given})).text == "None None"


# The words of JSON Schema that every client of the table in docs/tools.md takes.
COMMON = {
    *("type", "properties", "required", "items", "enum", "anyOf", "additionalProperties"),
    *("description", "default", "format", "title", "minimum", "maximum", "minItems", "maxItems"),
}
MORE_BY_ROW = {
    str(tuple[int, str]): {"prefixItems"},
    str(Annotated[float, Field(gt=0)]): {"exclusiveMinimum"},
}
"""Where the common words cannot say it, the words that are used beside them."""


def words_in(schema: Any) -> set[str]:
    """The keywords of a schema, and what is odd about their values."""
    if not isinstance(schema, dict):
        return {f"a schema that is {schema!r}"}
    words = set(schema)
    if isinstance(schema.get("type"), list):
        words.add("a list of types")
    if "anyOf" in schema and "type" in schema:
        words.add("anyOf beside type")
    inside = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *schema.get("prefixItems", ())]
    inside += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    return words.union(*map(words_in, inside))


@pytest.mark.parametrize("default", [..., None], ids=["required", "none"])
@pytest.mark.parametrize("annotation", [row[0] for row in GOLDEN], ids=[str(row[0]) for row in GOLDEN])
def test_a_schema_has_only_words_that_strict_clients_take(annotation: Any, default: Any) -> None:
    def probe(value: Any) -> None: ...

    probe.__annotations__["value"] = annotation
    if default is None:
        probe.__defaults__ = (None,)
    assert words_in(tool(probe).input_schema) - COMMON == MORE_BY_ROW.get(str(annotation), set())


def test_a_recursive_type_is_the_only_reference_left() -> None:
    @tool
    def grow(tree: Tree, other: Tree | None = None) -> None: ...

    assert grow.input_schema == {
        "type": "object",
        "properties": {
            "tree": {"$ref": "#/$defs/Tree"},
            "other": {"$ref": "#/$defs/Tree"},
        },
        "required": ["tree"],
        "$defs": {"Tree": TREE},
    }


def test_a_typed_dict_may_hold_itself() -> None:
    @tool
    def grow(menu: Menu) -> None: ...

    items = {"type": "array", "items": {"$ref": "#/$defs/Menu"}}
    assert grow.input_schema == {
        "type": "object",
        "properties": {"menu": {"$ref": "#/$defs/Menu"}},
        "required": ["menu"],
        "$defs": {"Menu": {"type": "object", "properties": {"below": items}, "required": ["below"]}},
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
        "point": "left out",
        "raw": "/w==",
        "odd": "left out",
        "most": "left out",
    }
    assert "required" not in go.input_schema


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
            "inputSchema": {"type": "object", "properties": {}},
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
