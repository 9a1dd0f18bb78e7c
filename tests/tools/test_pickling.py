"""Tools and toolboxes travel to other processes: by name, like functions."""

from __future__ import annotations

import copy
import functools
import pickle
from dataclasses import dataclass

import pytest

from toolkit import Toolbox, tool


@tool(title="Shout")
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


@shout.renders
def _(value: str) -> str:
    return f"{value}!"


def whisper(text: str, end: str) -> str:
    """Say it lower."""
    return text.lower() + end


def dots(value: str) -> str:
    return f"({value})"


@dataclass
class Choir:
    size: int

    @tool
    def sing(self, line: str) -> str:
        """Sing a line."""
        return f"{self.size} sing {line}"

    @tool
    @classmethod
    def hum(cls, line: str) -> str:
        """Hum a line."""
        return f"{cls.__name__} hums {line}"


def test_a_tool_of_a_module_is_the_same_tool_again() -> None:
    assert pickle.loads(pickle.dumps(shout)) is shout
    assert copy.deepcopy(shout) is shout


async def test_a_toolbox_answers_as_before() -> None:
    soft = tool(functools.partial(whisper, end="."), name="whisper", read_only=True)
    soft.renders(dots)
    box = Toolbox("voices", [shout, soft, Choir(3).sing], version="2.0", instructions="Sing.")
    again = pickle.loads(pickle.dumps(box))
    assert (again.name, again.version, again.instructions) == ("voices", "2.0", "Sing.")
    assert again.listing() == box.listing()
    for name, argument in (("shout", "text"), ("whisper", "text"), ("sing", "line")):
        assert await again.call(name, {argument: "La"}) == await box.call(name, {argument: "La"})


def test_a_bound_tool_keeps_its_object_and_leaves_the_class_alone() -> None:
    again = pickle.loads(pickle.dumps(Choir(5).sing))
    assert again("la") == "5 sing la"
    assert pickle.loads(pickle.dumps(Choir.hum))("la") == "Choir hums la"
    assert Choir.sing.is_unbound_method


def test_a_tool_of_a_local_function_cannot_be_sent() -> None:
    @tool
    def here(text: str) -> str:
        return text

    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(here)
