"""A tool made of an entry of a catalogue: the schema goes out as it came in, and arguments are held to it."""

from __future__ import annotations

import copy
import functools
import pickle
from typing import Annotated, Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from pydantic import Field

from toolkit import Tool, Toolbox, ToolContext, ToolError, ToolResult, tool
from toolkit.errors import ToolDefinitionError

SCHEMA: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "title": "Order",
    "properties": {
        "item": {"$ref": "#/$defs/Item"},
        "count": {"type": ["integer", "null"], "exclusiveMinimum": 0, "default": 1},
        "colour": {"oneOf": [{"const": "red"}, {"const": "blue"}]},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}, "uniqueItems": True},
        "when": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    },
    "required": ["item"],
    "additionalProperties": False,
    "$defs": {
        "Item": {
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 1}, "part_of": {"$ref": "#/$defs/Item"}},
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}


def give_back(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


def order(**more: Any) -> Tool[..., Any]:
    given: dict[str, Any] = {"name": "order", "description": "Order it.", "input_schema": SCHEMA, "call": give_back}
    return Tool.from_schema(**{**given, **more})


def test_the_entry_is_passed_on_untouched() -> None:
    before = copy.deepcopy(SCHEMA)
    made = order(
        title="Order",
        annotations={"readOnlyHint": True, "openWorldHint": False, "x-cost": "low"},
        meta={"shop/area": 7, "anthropic/alwaysLoad": False},
        output_schema={"type": "object"},
    )
    assert made.listing() == {
        "name": "order",
        "title": "Order",
        "description": "Order it.",
        "inputSchema": before,
        "outputSchema": {"type": "object"},
        "annotations": {"x-cost": "low", "readOnlyHint": True, "openWorldHint": False},
        "_meta": {"anthropic/alwaysLoad": False, "shop/area": 7},
    }
    assert made.options.read_only is True  # so that a run's policy knows it
    assert before == SCHEMA
    made.input_schema["properties"].clear()
    assert before == SCHEMA


FITS: list[dict[str, Any]] = [
    {"item": {"name": "a"}},
    {"item": {"name": "a", "part_of": {"name": "b"}}, "count": None, "colour": "red", "tags": ["x"], "when": 3},
]


@pytest.mark.parametrize("arguments", FITS)
async def test_arguments_that_fit_reach_the_function_as_they_are(arguments: dict[str, Any]) -> None:
    seen: list[Any] = []
    await order(call=lambda given: seen.append(given)).invoke(arguments)
    assert seen == [arguments]


async def test_a_list_sent_as_json_text_is_read() -> None:
    reply = await order().invoke({"item": '{"name": "a"}', "tags": '["x"]', "when": "[1]"})
    assert reply.text == '{"item":{"name":"a"},"tags":["x"],"when":"[1]"}'


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "- item: missing"),
    ({"item": {}}, "- item.name: missing"),
    ({"item": {"name": "a"}, "cuont": 1}, "- cuont: no such argument; did you mean 'count'?"),
    ({"item": {"name": "a", "nmae": 1}}, "- item.nmae: no such field; did you mean 'name'?"),
    ({"item": {"name": "a"}, "count": "x"}, '- count: should be an integer or null; got "x"'),
    ({"item": {"name": "a"}, "count": 0}, "- count: should be more than 0; got 0"),
    ({"item": {"name": ""}}, '- item.name: should have 1 characters or more; got ""'),
    ({"item": {"name": "a"}, "tags": ["x", "Y"]}, '- tags[1]: should match "^[a-z]+$"; got "Y"'),
    ({"item": {"name": "a"}, "tags": ["x", "x"]}, '- tags: does not fit \'uniqueItems\' in the schema; got ["x", "x"]'),
    ({"item": {"name": "a"}, "colour": "green"}, '- colour: should be "red", or should be "blue"; got "green"'),
    ({"item": {"name": "a"}, "when": []}, "- when: should be a string, or should be an integer; got []"),
    ({"item": {"name": "a", "part_of": {"name": 5}}}, "- item.part_of.name: should be a string; got 5"),
]


@pytest.mark.parametrize(("arguments", "complaint"), WRONG, ids=[row[1] for row in WRONG])
async def test_arguments_that_do_not_fit_are_named_and_the_function_is_not_called(
    arguments: dict[str, Any], complaint: str
) -> None:
    seen: list[Any] = []
    reply = await order(call=lambda given: seen.append(given)).invoke(arguments)
    assert reply.is_error
    assert reply.text == f"order was not called: an argument is wrong\n{complaint}"
    assert seen == []


async def test_what_a_schema_forbids_is_said_in_words() -> None:
    made = order(
        input_schema={
            "type": "object",
            "properties": {"a": False, "b": {"items": False}, "c": {"properties": {"d": False}}},
        }
    )
    assert (await made.invoke({"a": 1})).text.endswith("- a: nothing may stand here; got 1")
    assert (await made.invoke({"b": [2]})).text.endswith("- b: should have 0 items or fewer; got [2]")
    assert (await made.invoke({"c": {"d": 3}})).text.endswith("- c.d: nothing may stand here; got 3")
    assert not (await made.invoke({"b": [], "c": {"e": 1}})).is_error


PRICE: dict[str, Any] = {"type": "number", "multipleOf": 0.01}
"""Divided as floats, most prices are no multiple of it."""


@pytest.mark.parametrize("draft", [{}, {"$schema": "http://json-schema.org/draft-07/schema#"}])
@pytest.mark.parametrize(
    ("price", "fits"),
    [(19.99, True), (4.35, True), (0.07, True), (-1.1, True), (3, True), (1e300, True), (0.075, False), (1e-3, False)],
)
async def test_a_multiple_is_told_by_the_digits_of_a_number(draft: dict[str, Any], price: float, fits: bool) -> None:
    properties = {"price": PRICE, "again": {"$ref": "#"}}
    made = order(input_schema={**draft, "type": "object", "properties": properties})
    for arguments in ({"price": price}, {"again": {"price": price}}):
        reply = await made.invoke(arguments)
        assert reply.is_error is not fits, reply.text


async def test_a_result_is_held_to_a_multiple_in_the_same_way() -> None:
    @tool(structured=True)
    def price() -> Annotated[float, Field(multiple_of=0.01)]:
        return 19.99

    assert (await price.invoke()).structured == {"result": 19.99}


async def test_everything_wrong_is_named_at_once() -> None:
    reply = await order().invoke({"count": "x", "more": 1})
    assert reply.text.splitlines() == [
        "order was not called: 3 arguments are wrong",
        "- item: missing",
        "- more: no such argument; there are: item, count, colour, tags, when",
        '- count: should be an integer or null; got "x"',
    ]


class Runner:
    """Carries out the tools of a catalogue by their ids."""

    async def execute(self, tool_id: str, arguments: dict[str, Any], ctx: ToolContext) -> str:
        if tool_id == "broken":
            raise ToolError("no such article")
        return f"{tool_id} {arguments} for {ctx.call_id}"

    def __call__(self, arguments: dict[str, Any]) -> str:
        return f"called with {arguments}"


async def test_one_runner_carries_out_a_whole_catalogue() -> None:
    runner = Runner()
    anything = {"type": "object"}
    tools = [
        Tool.from_schema(name=each, input_schema=anything, call=functools.partial(runner.execute, each))
        for each in ("first", "broken")
    ]
    box = Toolbox("__lace-tools", [*tools, Tool.from_schema(name="object", input_schema=anything, call=runner)])
    context = ToolContext(call_id="toolu_1")
    assert (await box.call("first", {"a": 1}, context)).text == "first {'a': 1} for toolu_1"
    broken = await box.call("broken", {}, context)
    assert (broken.text, broken.is_error) == ("no such article", True)
    assert (await box.call("object", {"a": 1})).text == "called with {'a': 1}"


async def test_results_are_rendered_and_held_to_the_output_schema() -> None:
    output = {"type": "object", "properties": {"sum": {"type": ["number", "null"]}}, "required": ["sum"]}
    values: list[Any] = [{"sum": 1.5}, ToolResult({"sum": float("nan")}), {"sun": 1}, "no object"]
    made = order(output_schema=output, call=lambda given: values[given["count"] - 1], render=lambda value: f"<{value}>")
    replies = [await made.invoke({"item": {"name": "a"}, "count": number}) for number in (1, 2, 3, 4)]
    assert [reply.structured for reply in replies] == [{"sum": 1.5}, {"sum": None}, None, None]
    assert replies[0].text == "<{'sum': 1.5}>"
    assert [reply.is_error for reply in replies] == [False, False, True, True]
    assert "sum: missing" in replies[2].text
    assert "its output_schema is an object" in replies[3].text


async def test_the_validator_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = order()
    monkeypatch.setattr(jsonschema.Draft7Validator, "check_schema", None)
    assert not (await made.invoke({"item": {"name": "a"}})).is_error
    assert (await made.invoke({"item": 5})).is_error


async def test_a_tool_of_a_catalogue_can_be_pickled() -> None:
    again = pickle.loads(pickle.dumps(Toolbox("box", [order(timeout=3)])))
    assert again.tools["order"].options.timeout == 3
    assert again.listing() == Toolbox("box", [order(timeout=3)]).listing()
    assert (await again.call("order", {"item": 5})).is_error


def deep() -> dict[str, Any]:
    circle: dict[str, Any] = {"type": "object"}
    circle["properties"] = {"again": circle}
    return circle


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def of_draft_7(more: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", **more}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"input_schema": None}, "its input_schema cannot be used: it is of type NoneType, not a dict"),
    ({"input_schema": {"type": "object", "default": {1, 2}}}, "its input_schema cannot be used: it is not JSON: "),
    ({"input_schema": deep()}, "its input_schema cannot be used: it is not JSON: "),
    ({"input_schema": {"type": "array"}}, 'MCP wants "type": "object" at the top'),
    ({"input_schema": {}}, 'MCP wants "type": "object" at the top'),
    ({"input_schema": {"type": "object", "properties": {"a": {"type": "strin"}}}}, "properties.a.type: 'strin' is not"),
    ({"input_schema": {"type": "object", "required": "a"}}, "required: 'a' is not of type 'array'"),
    (
        {"input_schema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}},
        "it refers to '#/$defs/A', which it does not hold",
    ),
    (
        {"input_schema": {"type": "object", "properties": {"a": {"$ref": "https://example.test/a.json"}}}},
        "it refers to 'https://example.test/a.json'; put what is meant under $defs, nothing is loaded",
    ),
    (
        {"input_schema": {"type": "object", "properties": {"a": {"pattern": "["}}}},
        "properties.a.pattern: '[' is not a 'regex'",
    ),
    ({"input_schema": {"type": "object", "properties": {"a b": {}}}}, "the model API takes no argument called 'a b'"),
    ({"output_schema": {"type": "number"}}, "its output_schema cannot be used: it says nothing of an object"),
    ({"call": None}, "call=None is no function"),
    ({"call": lambda: 1}, "its function does not take the arguments as one dict"),
    ({"call": lambda a, b: 1}, "its function does not take the arguments as one dict"),
    ({"call": lambda **names: 1}, "its function does not take the arguments as one dict"),
    ({"name": "2nd"}, "'2nd' cannot be a tool's name"),
    ({"name": ""}, "'' cannot be a tool's name"),
    ({"annotations": ["readOnlyHint"]}, "annotations=['readOnlyHint'] cannot be used: it must be a dict"),
    ({"annotations": {"readOnlyHint": "no"}}, "in its annotations, readOnlyHint='no' cannot be used"),
    ({"annotations": {"title": 1}}, "in its annotations, title=1 cannot be used: it must be a text"),
    ({"meta": {"a": object()}}, "its meta cannot be sent"),
    ({"meta": {1: "x"}}, "meta={1: 'x'} cannot be used: it must be a dict with texts as its keys"),
    ({"meta": {"a": [{1: "x"}]}}, "its meta cannot be sent"),
    ({"render": "x"}, "render='x' cannot be used: it must be a function"),
    ({"description": 1}, "description=1 cannot be used: it must be a text"),
    ({"input_schema": {"type": "object", "properties": {1: {}}}}, "the key 1 in it is no text"),
    ({"structured": True}, "Tool.from_schema has no option 'structured'"),
    ({"readonly": True}, "Tool.from_schema has no option 'readonly'; did you mean 'read_only'?"),
    ({"timeout": 0}, "timeout=0 leaves nothing"),
    ({"input_schema": {"$schema": 5, "type": "object"}}, "$schema: 5 names no draft"),
    ({"output_schema": {"$schema": None, "type": "object"}}, "$schema: null names no draft"),
    ({"input_schema": of_draft_7({"$defs": [1]})}, "$defs: [1] is of the wrong type"),
    ({"input_schema": of_draft_7({"$dynamicRef": 5})}, "$dynamicRef: 5 is of the wrong type"),
    ({"input_schema": of_draft_7({"prefixItems": 5})}, "prefixItems: 5 is of the wrong type"),
    ({"annotations": {"readOnlyHint": False}, "read_only": True}, "its annotations say readOnlyHint=False, and"),
    ({"annotations": {"destructiveHint": True}, "read_only": True}, "it cannot be both read-only and destructive"),
    ({"read_only": True, "destructive": True}, "it cannot be both read-only and destructive"),
    ({"input_schema": nested(250)}, "it is nested too deep"),
]


@pytest.mark.parametrize(("given", "words"), REFUSED, ids=[row[1][:60] for row in REFUSED])
def test_what_cannot_be_a_tool_is_refused_in_words_at_once(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        order(**given)
    assert words in str(caught.value)
    assert caught.value.fix


def test_what_the_model_api_takes_nowhere_else_is_a_warning() -> None:
    made = order(input_schema={"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})
    (warning,) = Toolbox("box", [made]).warnings()
    assert "the model API takes no anyOf at the top of a schema" in warning
