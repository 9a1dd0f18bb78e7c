"""Schemas are made when a client asks for them, and mistakes in types are told all the same when a box is made."""

from __future__ import annotations

import enum
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field

from toolkit.errors import ToolDefinitionError
from toolkit.tools import Toolbox, ToolContext, WorkspacePath, tool
from toolkit.tools.schema.compiling import compile_type, output, parse
from toolkit.tools.schema.plain import plain_schema

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"


class Odd(enum.Enum):
    THING = object()


@dataclass
class Item:
    """One item."""

    name: str
    tags: list[str] = field(default_factory=list)


@dataclass
class Order:
    """What is ordered."""

    items: list[Item]
    at: datetime | None = None
    colour: Colour = Colour.RED


@dataclass
class Node:
    next: Node | None = None


@dataclass
class Held:
    socket: subprocess.Popen[bytes]


@dataclass
class Box(Generic[T]):
    inside: T


class Model(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    socket: subprocess.Popen[bytes]


PLAIN = [
    *(str, int, float, bool, bytes, list, dict, tuple, set, Path, Any, None, date, timedelta, UUID),
    *(list[str], dict[str, list[int]], tuple[int, ...], tuple[int, str], set[str], int | None, list[Item] | str),
    *(Literal["a", 1, True], Annotated[int, "how many"], list[Annotated[str, "a word"]]),
    *(Colour, Item, Order, WorkspacePath, Annotated[WorkspacePath, "where"]),
]
NOT_PLAIN = [
    *(Odd, Node, Held, Box, Box[int], Model, BaseModel, object, subprocess.Popen[bytes], list[Held], type),
    *(Annotated[int, Field(ge=1)], dict[bytes, int], Literal[b"x"], Iterator[int], T, "Item", list[Model]),
]


def _named(annotation: Any) -> str:
    """A name that is the same in every process: without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(annotation))


@pytest.mark.parametrize("annotation", PLAIN, ids=_named)
def test_what_is_plain_has_a_schema(annotation: Any) -> None:
    assert plain_schema(type(None) if annotation is None else annotation) is not None
    assert compile_type(annotation).schema is not None


@pytest.mark.parametrize("annotation", NOT_PLAIN, ids=_named)
def test_what_may_have_no_schema_is_not_plain(annotation: Any) -> None:
    assert plain_schema(annotation) is None


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The types that were compiled meanwhile."""
    seen: list[Any] = []
    for module, name in ((parse, "compile_type"), (output, "compile_output")):
        real = getattr(module, name)

        def noted(annotation: Any, real: Any = real) -> Any:
            seen.append(annotation)
            return real(annotation)

        monkeypatch.setattr(module, name, noted)
    return seen


@tool(structured=True)
def count(order: Order, times: Annotated[int, "how often"] = 1, ctx: ToolContext | None = None) -> dict[str, int]:
    """Count."""
    return {"items": len(order.items) * times}


@tool
def look(at: WorkspacePath, depth: int | None = None) -> str:
    """Look."""
    return f"{at} {depth}"


def _again() -> Toolbox:
    """The same tools as if they had just been decorated."""
    return Toolbox("box", [tool(structured=True)(count.function), tool(look.function)])


async def test_making_and_calling_compiles_only_what_is_called(compiled: list[Any]) -> None:
    box = _again()
    assert compiled == []
    reply = await box.call("count", {"order": {"items": [{"name": "a"}]}})
    assert reply.structured == {"items": 1}
    assert WorkspacePath not in compiled
    assert compiled
    before = len(compiled)
    assert [entry["name"] for entry in box.listing()] == ["count", "look"]
    assert len(compiled) == before
    assert box.listing() is box.listing()


@pytest.mark.parametrize("annotation", [Held, Odd, Box, subprocess.Popen, Annotated[int, Field(default=1)]], ids=_named)
def test_a_type_without_a_schema_is_refused_when_the_box_is_made(annotation: Any) -> None:
    def work(given: Any) -> str:
        """Work."""
        return str(given)

    work.__annotations__["given"] = annotation
    made = tool(work)
    try:
        expected: object = made.listing()
    except Exception as error:
        expected = error
    if isinstance(expected, Exception):
        with pytest.raises(type(expected)) as caught:
            Toolbox("box", [tool(work)])
        assert str(caught.value) == str(expected)
    else:
        assert Toolbox("box", [tool(work)]).listing() == [expected]


def test_a_structured_result_without_a_type_is_refused_when_the_box_is_made() -> None:
    def work():  # type: ignore[no-untyped-def]
        """Work."""

    with pytest.raises(ToolDefinitionError, match="needs a return type"):
        Toolbox("box", [tool(structured=True)(work)])
