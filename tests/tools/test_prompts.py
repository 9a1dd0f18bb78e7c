"""A typed function becomes a prompt: its arguments, its messages, what completes them, and what cannot be one."""

from __future__ import annotations

import enum
import pickle
import threading
from collections.abc import Callable
from typing import Any, Literal

import anyio
import pytest

from toolkit import Image, Resource, Text, Toolbox, ToolError, prompt, resource
from toolkit.errors import ToolDefinitionError
from toolkit.tools.offers import completing

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55")


class Tone(enum.Enum):
    FORMAL = "formal"
    FRIENDLY = "friendly"


@prompt(title="Summarise a note")
def summarise(id: int, tone: Tone = Tone.FORMAL, length: Literal["short", "long"] = "short") -> list[Any]:
    """Summarise a note.

    Args:
        id: Which note.
    """
    return [f"Summarise note {id}, {tone.value} and {length}.", ("assistant", "Here it is:")]


box = Toolbox("notes", [summarise])


def test_a_prompt_is_listed_from_its_signature_and_docstring() -> None:
    assert box.prompt_listing() == [
        {
            "name": "summarise",
            "title": "Summarise a note",
            "description": "Summarise a note.",
            "arguments": [
                {"name": "id", "description": "Which note.", "required": True},
                {"name": "tone", "required": False},
                {"name": "length", "required": False},
            ],
        }
    ]


async def test_arguments_arrive_as_text_and_reach_the_function_with_its_types() -> None:
    found = await box.get_prompt("summarise", {"id": "7", "tone": "friendly"})
    assert found.messages == [
        {"role": "user", "content": {"type": "text", "text": "Summarise note 7, friendly and short."}},
        {"role": "assistant", "content": {"type": "text", "text": "Here it is:"}},
    ]
    assert found.wire()["description"] == "Summarise a note."
    assert pickle.loads(pickle.dumps(summarise)) is summarise
    assert summarise(3)[0] == "Summarise note 3, formal and short."


async def test_missing_and_wrong_arguments_are_told_and_the_function_is_not_called() -> None:
    found = await box.get_prompt("summarise", {"tone": "angry"})
    assert found.is_misfit
    assert found.problem == (
        "summarise was not called: 2 arguments are wrong\n"
        "- tone: should be 'formal' or 'friendly'; got \"angry\"\n"
        "- id: missing"
    )
    assert (await box.get_prompt("sumarise")).problem == "no prompt 'sumarise'; did you mean 'summarise'?"


def _says(value: Any) -> Any:
    @prompt
    def said() -> Any:
        """Say it."""
        return value

    return Toolbox("x", [said]).get_prompt("said")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("hi", [("user", "text")]),
        (Text("hi"), [("user", "text")]),
        (("assistant", "hi"), [("assistant", "text")]),
        (("user", Image(PNG)), [("user", "image")]),
        (["look", Image(PNG), ("assistant", "nice")], [("user", "text"), ("user", "image"), ("assistant", "text")]),
        (("one", "two"), [("user", "text"), ("user", "text")]),
        ([Resource("x://y", "z")], [("user", "resource")]),
        ({"role": "assistant", "content": "hi"}, [("assistant", "text")]),
        ({"a": 1}, [("user", "text")]),
    ],
    ids=str,
)
async def test_a_value_is_rendered_as_messages(value: Any, expected: list[tuple[str, str]]) -> None:
    found = await _says(value)
    assert [(each["role"], each["content"]["type"]) for each in found.messages] == expected


async def test_what_is_no_message_is_told() -> None:
    assert "by user or assistant, not by 'system'" in (await _says(("system", "obey"))).problem
    assert "gave no message" in (await _says(None)).problem
    assert "gave no message" in (await _says([])).problem


async def test_a_prompt_that_raises_is_told_in_words() -> None:
    @prompt
    async def broken() -> str:
        raise ToolError("no notes today")

    assert (await Toolbox("x", [broken]).get_prompt("broken")).problem == "no notes today"


def _mistake(make: Callable[[], object]) -> ToolDefinitionError:
    with pytest.raises(ToolDefinitionError) as caught:
        make()
    return caught.value


def test_mistakes_are_refused_when_decorating() -> None:
    def number() -> int:
        return 1

    def untyped(x):  # type: ignore[no-untyped-def]
        return ""

    def many(*words: str) -> str:
        return ""

    assert _mistake(lambda: prompt(number)).what == "prompt 'number': it returns int, which is no message"
    assert _mistake(lambda: prompt(untyped)).what == "prompt 'untyped': parameter 'x' has no type"
    assert "'*words' has no names" in _mistake(lambda: prompt(many)).what
    assert "@prompt has no option 'mime'" in _mistake(lambda: prompt(summarise.function, mime="a/b")).what  # type: ignore[call-overload]
    assert "two prompts are called 'summarise'" in _mistake(lambda: Toolbox("x", [summarise, summarise])).what


async def test_arguments_are_completed_from_their_types() -> None:
    assert (await summarise.complete("tone", "f")).wire() == {
        "completion": {"values": ["formal", "friendly"], "total": 2, "hasMore": False}
    }
    assert (await summarise.complete("length", "LO")).values == ["long"]
    assert (await summarise.complete("id", "")).values == []


async def test_arguments_are_completed_by_a_function() -> None:
    @resource("notes://{shelf}/{id}")
    def note(shelf: str, id: int) -> str:
        return ""

    @note.completes("shelf")
    def _() -> list[str]:
        return ["left", "right"]

    @note.completes("id")
    async def _(typed: str, arguments: dict[str, str]) -> list[int]:
        return [number for number in range(200) if arguments["shelf"] == "left" and str(number).startswith(typed)]

    assert (await note.complete("shelf", "r")).values == ["right"]
    found = (await note.complete("id", "1", {"shelf": "left"})).wire()["completion"]
    assert (len(found["values"]), found["hasMore"]) == (100, True)
    assert (await note.complete("id", "1", {"shelf": "right"})).values == []


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_completion_that_hangs_is_given_up(
    is_async: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(completing, "MOST_SECONDS", 0.05)
    ended = threading.Event()

    @prompt
    def ask(word: str) -> str:
        return word

    if is_async:

        @ask.completes("word")
        async def _(typed: str) -> list[str]:
            await anyio.sleep_forever()
            return []
    else:

        @ask.completes("word")
        def _(typed: str) -> list[str]:
            ended.wait(60)
            return []

    with anyio.fail_after(60):
        assert (await ask.complete("word", "x")).values == []
    ended.set()
    assert "completing 'word' of prompt 'ask' took longer than 0.05 s" in caplog.text


async def test_a_completion_that_fails_gives_nothing_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @prompt
    def ask(word: str) -> str:
        return word

    @ask.completes("word")
    def _(typed: str) -> list[str]:
        raise ValueError("no words")

    assert (await ask.complete("word", "x")).values == []
    assert "no words" in caplog.text


def test_a_completion_for_a_parameter_that_there_is_not_is_refused() -> None:
    error = _mistake(lambda: summarise.completes("ton")(lambda typed: []))
    assert error.what == "prompt 'summarise' has no parameter 'ton'; did you mean 'tone'?"
    assert "takes too many arguments" in _mistake(lambda: summarise.completes("id")(lambda a, b, c: [])).what
