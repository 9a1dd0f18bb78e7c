"""Mistakes at the doors beside `run`'s options: each is said in words, and what cannot be is refused before a start."""

from __future__ import annotations

import dataclasses
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from toolkit import Conversation, Limits, RunSpec, ToolkitError, run, run_many, run_sync, start
from toolkit.runs import (
    OptionError,
    ProjectFile,
    ProjectFileError,
    Retry,
    Setup,
    Verify,
    list_runs,
    load_run,
)
from toolkit.runs.outcome.accepted import refused_by_cli
from toolkit.runs.views import listener
from toolkit.runs.views.cogni import Cogni
from toolkit.runs.views.openclaw import caller
from toolkit.testing import FakeCLI, Turn, text
from toolkit.tools import Image

HUGE = 10**400
NO_PROGRAM = "which no program takes"
HALF = "half of a character"
TOO_LONG = "longer than the 131000 bytes that a program can be given at once"


def made(kind: Any, *given: Any, **options: Any) -> Any:
    return lambda: kind(*given, **options)


@pytest.mark.parametrize(
    ("door", "says"),
    [
        (made(Conversation, None), "messages=None: it is a list of messages"),
        (made(Conversation, 5), "messages=5: it is a list of messages"),
        (made(Conversation, "Hello."), "it is a list of messages"),
        (made(Conversation, [5]), "message 1 has the role None"),
        (made(load_run, 5), "a run is named by its id as a text, not by int(…)"),
        (made(load_run, b"x"), "not by bytes(…)"),
        (made(load_run, Path("x")), "not by PosixPath(…)"),
        (made(load_run, "last", 5), "home=5: it is a path"),
        (made(load_run, "last", "a\0b"), NO_PROGRAM),
        (made(list_runs, 5), "home=5: it is a path"),
        (made(Retry, on=[["x"]]), "there is no such code"),
        (made(Retry, attempts=3), "Retry has no 'attempts'; write times=…"),
        (made(Retry, tims=3), "Retry has no 'tims'; did you mean 'times'?"),
        (made(Retry, wait=HUGE), "it is a number up to"),
        (made(Verify, command="x"), "Verify has no 'command'; write Verify("),
        (made(Verify, "x", atempts=3), "Verify has no 'atempts'; did you mean 'attempts'?"),
        (made(Verify, "\ud800"), HALF),
        (made(Setup, cmd="x"), "Setup has no 'cmd'; write command=…"),
        (made(Setup, "a\0b"), "NUL"),
        (made(Limits, max_usd=3), "Limits has no 'max_usd'; write usd=…"),
        (made(Limits, memory=3), "write memory_bytes=…"),
        (made(Limits, secnds=3), "Limits has no 'secnds'; did you mean 'seconds'?"),
        (made(Limits, 3), "a limit has a name"),
        (made(Limits, tokens=10**5000), "a limit is 9223372036854775807 at most"),
        (made(ProjectFile, "x"), "Write ProjectFile.read(path)"),
        (made(ProjectFile.read, 5), "it is a path"),
        (made(ProjectFile.find, 5), "it is a path"),
        (made(caller, 5), "callbacks are a mapping of names to functions"),
        (made(caller, {"onBlockReply": 5}), "the callback 'onBlockReply' is a function, not int(…)"),
        (made(caller, {5: print}), "there is no callback '5'"),
        (made(listener, None, None), "a listener needs a view"),
        (made(listener, Cogni(), None), "a listener hands things to a function, not to NoneType(…)"),
    ],
)
def test_a_mistake_is_said_in_words(door: Any, says: str) -> None:
    with pytest.raises(ToolkitError) as caught:
        door()
    assert says in str(caught.value)


def test_a_project_file_made_of_a_path_names_it() -> None:
    with pytest.raises(ProjectFileError) as caught:
        ProjectFile("x/toolkit.toml")  # type: ignore[arg-type]
    assert caught.value.file == Path("x/toolkit.toml")


@pytest.mark.parametrize("name", [limit.name for limit in dataclasses.fields(Limits)])
def test_a_limit_beyond_what_a_counter_takes_is_refused(name: str) -> None:
    with pytest.raises(ToolkitError, match="a limit is 9223372036854775807 at most"):
        Limits(**{name: HUGE})
    assert getattr(Limits(**{name: 2**63 - 1}), name) == 2**63 - 1


def test_what_answers_for_names_can_still_be_copied_and_sent() -> None:
    for one in (Limits(usd=2), Verify("x", attempts=2), Retry(2), Setup("x")):
        assert pickle.loads(pickle.dumps(one)) == one
        assert dataclasses.replace(one) == one


@pytest.mark.parametrize("to", ["x", None, True, 1.5])
async def test_a_checkpoint_has_a_number(to: Any) -> None:
    result = await run("Go.", transport=FakeCLI(Turn([text("Hi.")])))
    with pytest.raises(ToolkitError, match="a checkpoint has a number"):
        load_run(result.run).rewind(to)


@pytest.mark.parametrize("listens", [5, None, "x", lambda: None])
async def test_a_listener_is_a_function_of_one_argument(listens: Any) -> None:
    async with start("Go.", transport=FakeCLI(Turn([text("Hi.")]))) as live:
        with pytest.raises(OptionError, match="listener="):
            live.bus.subscribe(listens)
        assert (await live.result()).ok


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"limits": Limits(usd=1)}, "write usd=… or tokens=… for all runs together"),
        ({"model": "x"}, r"write RunSpec\(prompt, model=…\) for each run"),
        ({"seconds": 3}, r"write RunSpec\(prompt, limits=Limits\(seconds=…\)\) for each run"),
        ({"workers": 2}, "write concurrency=…"),
        ({"concurency": 3}, "did you mean 'concurrency'"),
        ({"usd": HUGE}, "at most"),
        ({"executor": print}, "it makes no executor, but None"),
        ({"executor": lambda: 5}, "it makes no executor, but 5"),
        ({"executor": lambda one: 5}, "it raises TypeError"),
    ],
)
async def test_many_runs_are_refused_in_words_before_one_has_started(options: Any, says: str) -> None:
    with pytest.raises(OptionError if "usd" not in options else ToolkitError, match=says):
        await run_many(["Go."], **options)
    assert list_runs() == []


async def test_a_function_that_makes_an_executor_is_called_once_for_each_place_that_works() -> None:
    asked: list[int] = []

    def make() -> ThreadPoolExecutor:
        asked.append(1)
        return ThreadPoolExecutor(1)

    specs = [RunSpec("Go.", transport=FakeCLI(Turn([text("Hi.")]))) for _ in range(3)]
    results = await run_many(specs, concurrency=2, executor=make)
    assert [result.code for result in results] == ["ok"] * 3
    assert 1 <= len(asked) <= 2


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        *((name, "a\0b", NO_PROGRAM) for name in ("model", "fallback_model", "system", "cli_path", "api_url", "at")),
        *((name, "a\0b", NO_PROGRAM) for name in ("home", "api_key_file")),
        *((name, "\ud800", HALF) for name in ("model", "fallback_model", "system", "cli_path", "verify", "branch")),
        ("env", {"A": "\ud800"}, HALF),
        *((name, "é" * 65_501, TOO_LONG) for name in ("model", "system", "verify", "setup")),
        ("env", {"A": "x" * 131_001}, TOO_LONG),
        ("readable", ["a\0b"], NO_PROGRAM),
        ("listener_timeout", HUGE, "it is a number up to"),
        ("prompt", ["x", Image(1)], "a picture is the path of its file, or its bytes"),  # type: ignore[arg-type]
        ("output", {"type": "object", "foo": 1}, "the CLI knows no keyword 'foo'"),
        ("output", {"type": "object", "properties": {"a": {"$ref": "#/$defs/X"}}}, "leads to '#/$defs/X'"),
        ("output", tuple[int, str], "the CLI knows no keyword 'prefixItems'"),
        ("output", {"type": "object", "properties": {"a": {"maximum": float("nan")}}}, "it is not JSON"),
        ("output", {"type": "object", "properties": {5: {}}}, "the key 5 in it is no text"),
    ],
)
async def test_what_no_program_can_be_given_is_refused_before_anything_starts(
    option: str, value: Any, says: str
) -> None:
    options = {"prompt": "Go.", "transport": FakeCLI(Turn([text("Hi.")])), option: value}
    with pytest.raises(OptionError) as caught:
        await run(options.pop("prompt"), **options)
    assert says in str(caught.value)
    assert list_runs() == []


@pytest.mark.parametrize("jailed", ["system", "verify"])
def test_the_longest_text_that_is_taken_reaches_the_program(jailed: str, scripted_api: Any) -> None:
    api = scripted_api([text("Done.")])
    longest: dict[str, Any] = {"system": "x" * 131_000, "verify": ": " + "x" * 130_998}
    result = run_sync("Go.", api_url=api.url, api_key="none", **{jailed: longest[jailed]})
    assert result.code == "ok", result.debug


def test_a_path_may_hold_bytes_that_are_no_text() -> None:
    assert RunSpec("Go.", readable=["/opt/\udcff"]).readable == ("/opt/\udcff",)


ANY_KEYWORD: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "title": "t",
    "description": "d",
    "$comment": "c",
    "properties": {
        "foo": {"type": "array", "items": {"$ref": "#/$defs/a~1b%20c"}, "minItems": 1, "contains": {"const": 1}},
        "if": {"if": {"type": "null"}, "then": {}, "else": {"enum": [1]}},
        "again": {"$ref": "#"},
        "all": {"anyOf": [{"type": "string", "nullable": True}], "not": {"type": "null"}},
    },
    "dependencies": {"foo": ["if"]},
    "additionalProperties": False,
    "$defs": {"a/b c": {"type": "string", "format": "date"}, "unused": {"x-note": 1}},
}


def test_a_schema_that_the_cli_takes_is_not_refused() -> None:
    assert refused_by_cli(ANY_KEYWORD) is None
    assert RunSpec("Go.", output=ANY_KEYWORD).output == ANY_KEYWORD


@pytest.mark.parametrize(
    ("part", "where"),
    [
        ({"x-note": 1}, "properties.a"),
        ({"items": [{"prefixItems": []}]}, "properties.a.items[0]"),
        ({"anyOf": [{"unevaluatedProperties": False}]}, "properties.a.anyOf[0]"),
        ({"$ref": "#/$defs/X"}, "#/$defs/X"),
        ({"if": {}}, "'if' stands without"),
        ({"then": {}}, "'then' stands without"),
        ({"$ref": "https://e.example/s"}, "leads to 'https://e.example/s'"),
    ],
)
def test_what_the_cli_refuses_is_found_where_it_stands(part: Any, where: str) -> None:
    refused = refused_by_cli({"type": "object", "properties": {"a": part}, "$defs": {"X": {"foo": 1}}})
    assert refused is not None
    assert where in refused[0]


@pytest.mark.parametrize("draft", ["https://json-schema.org/draft/2020-12/schema", "http://x.example/y"])
def test_a_draft_that_the_cli_does_not_know_is_refused(draft: str) -> None:
    assert refused_by_cli({"$schema": draft, "type": "object"}) is not None


NESTED: dict[str, Any] = {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#"}]}}
NAMED: dict[str, Any] = {
    "type": "array",
    "items": {"$ref": "#/definitions/n"},
    "definitions": {"n": {"type": "integer"}},
}
LIKE_THE_FIRST: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}},
    "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
}


@pytest.mark.parametrize(
    ("wanted", "fits", "does_not"),
    [(NESTED, [1, [2]], [1, ["x"]]), (NAMED, [1], ["x"]), (LIKE_THE_FIRST, {"b": 1}, {"b": "x"})],
)
def test_no_output_has_alternatives_at_its_top_and_its_references_still_lead_where_they_led(
    wanted: dict[str, Any], fits: Any, does_not: Any
) -> None:
    shape = RunSpec("Go.", output=wanted).shape()
    assert shape is not None
    sent = shape.format()["schema"]
    assert set(sent) <= {"type", "properties", "required", "additionalProperties", "definitions"}
    assert [Draft7Validator(sent).is_valid({"result": value}) for value in (fits, does_not)] == [True, False]


def test_an_output_type_with_literals_lists_and_models_is_taken() -> None:
    assert RunSpec("Go.", output=list[dict[str, Literal["a"]]]).shape() is not None
