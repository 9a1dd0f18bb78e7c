"""The schemas that are written without pydantic are those that pydantic makes, to the letter."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies as st

from toolkit.tools import WorkspacePath
from toolkit.tools.schema.compiling.compile import _compile
from toolkit.tools.schema.compiling.types import spelled_out
from toolkit.tools.schema.plain import plain_schema


class Colour(enum.Enum):
    """The colour."""

    RED = "red"
    BLUE = "blue"


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


class Mixed(enum.Enum):
    A = 1
    B = "x"


class Alone(enum.StrEnum):
    ONLY = "only"


class Blank(enum.Enum):
    """ """

    A = "a"


class Twice(enum.Enum):
    A = 1
    B = 1


class Bits(enum.Flag):
    A = 1
    B = 2


@dataclass
class Bare:
    x: int


@dataclass
class Item:
    """One item.

    Attributes:
        count: How many there are.
        bare: Without anything.
        place: Where it is.
    """

    name: Annotated[str, "the name"]
    bare: Bare
    tags: list[Annotated[str, "not read here"]] = field(default_factory=list)
    count: int = 3
    more: int | None = None
    colour: Colour = Colour.RED
    other: Annotated[Colour, "the other"] = Colour.BLUE
    place: WorkspacePath | None = None
    at: Annotated[WorkspacePath, "where"] = Path()  # a default that only pydantic writes
    weight: float = 1e16


@dataclass
class Written:
    """One item.

    Attributes:
        count: How many there are.
        bare: Without anything.
        place: Where it is.
    """

    name: Annotated[str, "the name"]
    bare: Bare
    place: WorkspacePath
    tags: list[Annotated[str, "not read here"]] = field(default_factory=list)
    count: int = 3
    more: int | None = None
    colour: Colour = Colour.RED
    other: Annotated[Colour, "the other"] = Colour.BLUE
    either: Annotated[int, "a number"] | str = "é".encode().hex()
    weight: float = 1e16
    whole: float = 3
    flag: bool = True
    colours: list[Colour] | None = None


@dataclass(kw_only=True, slots=True)
class Below(Bare):
    """Attributes:
    y: Only parameters.
    """

    y: str = ""


@dataclass
class Odd:
    default: Colour
    properties: int = 3


@dataclass
class Counted:
    start: int
    seen: int = field(default=0, init=False)


@dataclass
class Unfinished:
    weight: float = float("inf")


LEAVES: list[Any] = [
    *(str, int, float, bool, bytes, type(None), Any, list, dict, tuple, set, frozenset),
    *(Path, datetime, date, time, timedelta, UUID, WorkspacePath, tuple[()]),
    *(Colour, Number, Mixed, Alone, Blank, Twice, Bits, Bare, Item, Written, Below, Counted, Odd, Unfinished, object),
    *(Literal["a"], Literal["a", "b"], Literal[1, "a", True], Literal[True], Literal[1, 2], Literal["a", None]),
]
CERTAIN = [
    each
    for each in LEAVES
    if each not in (Item, Twice, Bits, Counted, Odd, Unfinished, object, tuple[()], Literal["a", None])
]


def _made(annotation: Any) -> tuple[Any, ...]:
    # Not the shared one: types that differ in the order of their alternatives only are equal.
    compiled = _compile(spelled_out(annotation))
    return json.dumps(compiled.schema), compiled.definitions


def _around(annotation: Any, inside: str) -> Any:
    ways: dict[str, Callable[[], Any]] = {
        "itself": lambda: annotation,
        "list": lambda: _of(list, annotation),
        "dict": lambda: _of(dict, (str, annotation)),
        "optional": lambda: _of(Optional, annotation),
        "union": lambda: _of(Union, (annotation, tuple[int, Annotated[str, "second"]], None)),
        "described": lambda: _of(list, _of(Annotated, (annotation, "what it is"))),
        "field": lambda: make_dataclass("Made", [("it", _of(Annotated, (annotation, "a field"))), ("last", int, 3)]),
    }
    return ways[inside]()


@pytest.mark.parametrize(
    "annotation", CERTAIN, ids=lambda each: getattr(each, "__name__", "") + str(each)[:40].split(" at ")[0]
)
@pytest.mark.parametrize("inside", ["itself", "list", "dict", "optional", "union", "described", "field"])
def test_it_is_pydantics(annotation: Any, inside: str) -> None:
    written = plain_schema(around := _around(annotation, inside))
    assert written is not None
    assert (json.dumps(written), {}) == _made(around)


def _types() -> st.SearchStrategy[Any]:
    def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        texts = st.sampled_from(["a text", "another", "a\nlonger one"])
        return st.one_of(
            st.tuples(st.sampled_from([list, set, frozenset, Optional]), inner).map(lambda pair: _of(*pair)),
            inner.map(lambda each: _of(tuple, (each, ...))),
            st.lists(inner, min_size=1, max_size=3).map(lambda some: _of(tuple, tuple(some))),
            st.tuples(st.sampled_from([str, int]), inner).map(lambda pair: _of(dict, pair)),
            st.lists(inner, min_size=1, max_size=4).map(lambda some: _of(Union, tuple(some))),
            st.tuples(inner, texts).map(lambda pair: _of(Annotated, pair)),
            st.lists(st.tuples(inner, st.sampled_from([..., None, 3, "x", True])), min_size=1, max_size=3).map(
                _dataclass
            ),
        )

    return st.recursive(st.sampled_from(LEAVES), around, max_leaves=6)


def _of(generic: Any, arguments: Any) -> Any:
    return generic[arguments]


def _dataclass(fields: list[tuple[Any, Any]]) -> Any:
    required = [(f"f{at}", hint) for at, (hint, default) in enumerate(fields) if default is ...]
    rest = [(f"f{at}", hint, default) for at, (hint, default) in enumerate(fields) if default is not ...]
    return make_dataclass("Drawn", [*required, *rest])


@settings(max_examples=400, deadline=None)
@given(_types())
def test_what_is_written_of_any_type_is_pydantics(annotation: Any) -> None:
    written = plain_schema(annotation)
    if written is not None:
        assert (json.dumps(written), {}) == _made(annotation)
