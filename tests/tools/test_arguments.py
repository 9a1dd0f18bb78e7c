"""From JSON to Python values: what is accepted, what is refused, and in which words."""

from __future__ import annotations

import base64
import datetime
import typing
from collections import abc
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
import typing_extensions
from pydantic import BaseModel, ConfigDict, Field

from toolkit import Toolbox, tool


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int = 0


class Pair(NamedTuple):
    left: int
    raw: bytes = b""


class Options(typing.TypedDict, total=False):
    depth: typing.Required[int]
    data: bytes


class Model(BaseModel):
    name: str
    data: bytes = b""


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class OpenDict(typing_extensions.TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    a: int


class Sent(BaseModel):
    data: bytes = Field(alias="theData")


Blob = typing.NewType("Blob", bytes)
BlobAlias = typing_extensions.TypeAliasType("BlobAlias", list[bytes])


@dataclass
class Tree:
    value: bytes
    children: list[Tree] | None = None


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


async def arrives_as(annotation: Any, sent: Any) -> Any:
    """The value the function gets when a client sends `sent`."""
    got: list[Any] = []

    async def probe(value: Any) -> str:
        got.append(value)
        return "ok"

    probe.__annotations__["value"] = annotation
    reply = await Toolbox("box", [tool(probe)]).call("probe", {"value": sent})
    assert not reply.is_error, reply.text
    return got[0]


ACCEPTED: list[tuple[Any, Any, Any]] = [
    (int, "5", 5),
    (int, 5.0, 5),
    (float, "1.5", 1.5),
    (bool, "true", True),
    (int | None, "5", 5),
    (int | None, None, None),
    (str, "5", "5"),
    (str, '["a"]', '["a"]'),
    (str | None, '{"a": 1}', '{"a": 1}'),
    (str | list[str], '["a"]', '["a"]'),
    (Any, "[1]", "[1]"),
    (list[int], "[1, 2]", [1, 2]),
    (list[int] | None, "[1]", [1]),
    (list[int] | None, "null", None),
    (dict[str, int], '{"a": "1"}', {"a": 1}),
    (Point, '{"x": 1}', Point(1)),
    (list[Point], '[{"x": 1}]', [Point(1)]),
    (Point, {"x": "1", "y": 2}, Point(1, 2)),
    (Options, {"depth": 1}, {"depth": 1}),
    (Model, {"name": "n", "data": b64(b"\xff")}, Model(name="n", data=b"\xff")),
    (Open, {"a": 1, "b": 2}, Open.model_validate({"a": 1, "b": 2})),
    (Pair, {"left": 1, "raw": b64(b"r")}, Pair(1, b"r")),
    (Pair, [1, b64(b"r")], Pair(1, b"r")),
    (Literal["a", 1], 1, 1),
    (Colour, "red", Colour.RED),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[int, ...], ["1", 2], (1, 2)),
    (set[int], [1, 1, 2], {1, 2}),
    (abc.Iterable[int], ["1", 2], [1, 2]),
    (Sent, {"theData": b64(b"\xff")}, Sent(theData=b"\xff")),
    (Blob, b64(b"\xff"), b"\xff"),
    (BlobAlias, [b64(b"\xff")], [b"\xff"]),
    (bytes | int, b64(b"\xff"), b"\xff"),
    (OpenDict, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
    (datetime.datetime, "2026-01-02T03:04:05Z", datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)),
    (datetime.date, "2026-01-02", datetime.date(2026, 1, 2)),
    (datetime.timedelta, "PT90S", datetime.timedelta(seconds=90)),
    (datetime.timedelta, 90, datetime.timedelta(seconds=90)),
    (Path, "src/a.py", Path("src/a.py")),
    (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
    (Decimal, "1.10", Decimal("1.10")),
    (bytes, b64(b"\x00\xff"), b"\x00\xff"),
    (bytes, "_w==", b"\xff"),
    (bytes, "/w==", b"\xff"),
    (bytes | None, None, None),
    (list[bytes], [b64(b"a"), b64(b"b")], [b"a", b"b"]),
    (dict[str, bytes], {"k": b64(b"a")}, {"k": b"a"}),
    (tuple[int, bytes], [1, b64(b"a")], (1, b"a")),
    (Options, {"depth": 1, "data": b64(b"a")}, {"depth": 1, "data": b"a"}),
    (
        Tree,
        {"value": b64(b"a"), "children": [{"value": b64(b"b")}]},
        Tree(b"a", [Tree(b"b")]),
    ),
    (Annotated[int, Field(ge=1)], "3", 3),
]


@pytest.mark.parametrize(("annotation", "sent", "value"), ACCEPTED, ids=[f"{r[0]} {r[1]}" for r in ACCEPTED])
async def test_a_client_may_send(annotation: Any, sent: Any, value: Any) -> None:
    got = await arrives_as(annotation, sent)
    assert got == value
    assert type(got) is type(value)


REFUSED: list[tuple[Any, Any, str]] = [
    (int, "five", 'value: should be a valid integer, unable to parse string as an integer; got "five"'),
    (int, None, "value: should be a valid integer; got null"),
    (list[int], '["a"]', 'value[0]: should be a valid integer, unable to parse string as an integer; got "a"'),
    (list[int], "[1", 'value: should be a valid list; got "[1"'),
    (Point, {"y": 1}, "value.x: missing"),
    (Point, {"x": 1, "z": 1}, "value.z: no such field"),
    (list[Point], [{"x": 1}, {"x": []}], "value[1].x: should be a valid integer; got []"),
    (int | list[int], {"a": 1}, 'value: should be a valid integer, or should be a valid list; got {"a": 1}'),
    (Literal["a", "b"], "c", "value: should be 'a' or 'b'; got \"c\""),
    (bytes, "not base64!", 'value: should be base64 text; got "not base64!"'),
    (Annotated[int, Field(le=9)], 10, "value: should be less than or equal to 9; got 10"),
    (str, 5, "value: should be a valid string; got 5"),
    (tuple[int, str], [1], "value[1]: missing"),
    (
        dict[str, dict[int, str]],
        {"a": {"b": "c"}},
        'value.a: the key "b" should be a valid integer, unable to parse string as an integer; got {"b": "c"}',
    ),
    (
        abc.Iterable[int],
        ["x"],
        'value[0]: should be a valid integer, unable to parse string as an integer; got "x"',
    ),
]


@pytest.mark.parametrize(("annotation", "sent", "complaint"), REFUSED, ids=[str(r[1]) for r in REFUSED])
async def test_a_wrong_argument_is_named_in_words(annotation: Any, sent: Any, complaint: str) -> None:
    called: list[Any] = []

    def probe(value: Any) -> None:
        called.append(value)

    probe.__annotations__["value"] = annotation
    reply = await Toolbox("box", [tool(probe)]).call("probe", {"value": sent})

    assert reply.is_error
    assert reply.text == f"probe was not called: an argument is wrong\n- {complaint}"
    assert called == []


async def test_every_wrong_argument_is_named_at_once() -> None:
    @tool
    def find(folder: str, limit: int = 3) -> str:
        raise AssertionError("not reached")

    reply = await Toolbox("box", [find]).call("find", {"foldr": "src", "limit": "x" * 200})

    shown = '"' + "x" * 79 + "… (202 characters)"
    assert reply.text == (
        "find was not called: 3 arguments are wrong\n"
        "- foldr: no such argument; did you mean 'folder'?\n"
        f"- limit: should be a valid integer, unable to parse string as an integer; got {shown}\n"
        "- folder: missing"
    )


async def test_an_unknown_argument_without_a_near_name_lists_all() -> None:
    @tool
    def find(folder: str) -> str:
        return folder

    reply = await Toolbox("box", [find]).call("find", {"folder": "a", "zzz": 1})
    assert reply.text.endswith("- zzz: no such argument; there are: folder")


async def test_a_parameter_left_out_keeps_the_default_of_the_function() -> None:
    marker = object()

    @tool
    async def find(value: Any = marker) -> str:
        return "default" if value is marker else "given"

    assert (await Toolbox("box", [find]).call("find", None)).text == "default"
