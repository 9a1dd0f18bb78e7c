"""An option of a wrong type is refused where it is written; a client would lose the whole list over it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from toolkit import Tool, Toolbox, tool
from toolkit.errors import ToolDefinitionError
from toolkit.tools import prompt, resource
from toolkit.tools.offers.options import PromptOptions, ResourceOptions
from toolkit.tools.options import EntryOptions, ToolOptions

WRONG: list[dict[str, Any]] = [
    *({"title": value} for value in (1, ["x"], b"x", True)),
    *({"description": value} for value in (1, b"x")),
    *({"read_only": "no"}, {"read_only": 0}, {"destructive": [1]}, {"structured": "no"}, {"always_load": "no"}),
    *({"name": True}, {"name": float("nan")}),
    *({"timeout": "30"}, {"timeout": True}, {"max_chars": "5"}, {"max_chars": 0.5}, {"max_chars": True}),
]
OFFERED: list[dict[str, Any]] = [
    *({"title": 1}, {"description": b"x"}, {"name": True}, {"timeout": "30"}, {"meta": {1: "x"}}, {"meta": [1]}),
    {"icons": {"src": "https://example.org/a.png", "mimeType": 1}},
]
OF_RESOURCES: list[dict[str, Any]] = [
    *({"mime": 1}, {"ttl": True}, {"ttl": float("nan")}, {"ttl": float("inf")}, {"max_bytes": 1.5}),
    *({"any_path": "path"}, {"any_path": 5}, {"any_path": [1]}),
    *({"annotations": {"audience": "user"}}, {"annotations": {"priority": 5}}, {"annotations": {"lastModified": 1}}),
]


def told() -> str:
    """Say it."""
    return "x"


def as_tool(**options: Any) -> object:
    return tool(told, **options)


def as_entry(**options: Any) -> object:
    return Tool.from_schema(name="told", input_schema={"type": "object"}, call=lambda arguments: {}, **options)


def as_prompt(**options: Any) -> object:
    return prompt(told, **options)


def as_resource(**options: Any) -> object:
    return resource("told://it", **options)(told)


def _id(value: object) -> str:
    return getattr(value, "__name__", str(value))


@pytest.mark.parametrize(
    ("make", "options"),
    [
        *((as_tool, options) for options in WRONG),
        *((make, options) for make in (as_prompt, as_resource) for options in OFFERED),
        *((as_resource, options) for options in OF_RESOURCES),
    ],
    ids=_id,
)
def test_an_option_of_another_type_is_refused_when_decorating(
    make: Callable[..., object], options: dict[str, Any]
) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        make(**options)
    assert caught.value.where[0].endswith("def told() -> str")
    assert caught.value.fix


@pytest.mark.parametrize(
    ("make", "declared"),
    [(as_tool, ToolOptions), (as_entry, EntryOptions), (as_prompt, PromptOptions), (as_resource, ResourceOptions)],
    ids=_id,
)
def test_no_option_there_is_takes_just_anything(make: Callable[..., object], declared: Any) -> None:
    for name in declared.__annotations__:
        with pytest.raises(ToolDefinitionError):
            make(**{name: object()})
        if name != "description" or make is not as_entry:
            make(**{name: None})  # the same as not given


def test_no_option_of_a_box_takes_just_anything() -> None:
    options = [each for each in inspect.signature(Toolbox).parameters.values() if each.kind is each.KEYWORD_ONLY]
    assert options
    for option in options:
        with pytest.raises(ToolDefinitionError):
            Toolbox("box", [tool(told)], **{option.name: object()})  # type: ignore[arg-type]


def test_what_the_refusal_says() -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        as_tool(max_chars="5")
    what, where, fix = str(caught.value).splitlines()
    assert what == "tool 'told': max_chars='5' cannot be used: it must be a whole number"
    assert where.endswith("def told() -> str")
    assert fix.strip() == "Write max_chars=1000 in @tool(...)"


def test_values_that_are_what_is_declared_are_taken() -> None:
    made = tool(told, title="Told", read_only=True, timeout=3, max_chars=10, structured=False, name="said")
    assert (made.name, made.options.timeout, made.options.max_chars) == ("said", 3, 10)
    assert made.listing()["annotations"] == {"readOnlyHint": True}
    noted = resource("told://it", ttl=0, any_path=(), annotations={"audience": ("user",), "priority": 1})(told)
    assert noted.listing()["annotations"] == {"audience": ("user",), "priority": 1}


def test_decorating_with_options_loads_neither_pydantic_nor_an_event_loop() -> None:
    code = (
        "import sys\nfrom toolkit import tool, Toolbox\n"
        "@tool(title='x', timeout=1.5, read_only=True)\ndef told() -> str:\n    return 'x'\n"
        "Toolbox('b', [told], version='1', instructions='x')\n"
        "print([name for name in ('pydantic', 'pydantic_core', 'asyncio', 'mcp', 'jsonschema') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
