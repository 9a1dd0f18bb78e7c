"""--reload with several targets: an edit of any of them is followed, and the others keep what they offer."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.serving._client import BOUND, PRELUDE, Served

FIRST = """
@tool
def search() -> str:
    "First."
    return "first"

box = Toolbox("first", [search])
"""
SECOND = """from toolkit import Toolbox, prompt, resource, tool
from shared import WORD

@tool
def search() -> str:
    "Second."
    return f"second {WORD}"

@resource("words://now")
def now() -> str:
    "The word."
    return WORD

@prompt
def say() -> str:
    "Say it."
    return f"Say {WORD}"

box = Toolbox("second", [search, now, say])
"""


def _served(folder: Path, *options: str) -> Served:
    (folder / "shared.py").write_text("WORD = 'one'\n", encoding="utf-8")
    (folder / "second.py").write_text(SECOND, encoding="utf-8")
    return Served(folder, FIRST, options=["--reload", *options])


def _edit(file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


def _told(served: Served, *wanted: str) -> None:
    """Wait until each of these lists is said to have changed."""
    missing, deadline = {f"notifications/{each}/list_changed" for each in wanted}, time.monotonic() + BOUND
    while missing and time.monotonic() < deadline:
        missing.discard(json.loads(served.read_line()).get("method"))
    assert not missing


def _tools(served: Served) -> set[str]:
    return {tool["name"] for tool in served.request("tools/list")["tools"]}


def _read(served: Served) -> str:
    text: str = served.request("resources/read", {"uri": "words://now"})["contents"][0]["text"]
    return text


def test_an_edit_of_either_target_is_followed(tmp_path: Path) -> None:
    with _served(tmp_path, "second.py") as served:
        served.initialize()
        assert _tools(served) == {"first_search", "second_search"}
        _edit(served.file, PRELUDE + FIRST.replace('return "first"', 'return "edited"'))
        _told(served, "tools")
        assert (served.call("first_search"), served.call("second_search")) == ("edited", "second one")
        _edit(tmp_path / "second.py", SECOND.replace("def search", "def look").replace("[search", "[look"))
        _told(served, "tools")
        assert _tools(served) == {"search", "look"}  # nothing clashes any more
        assert served.call("search") == "edited"


def test_a_module_behind_one_of_them_is_followed_and_its_resources_and_prompts_too(tmp_path: Path) -> None:
    with _served(tmp_path, "second.py") as served:
        capabilities = served.initialize()["capabilities"]
        assert [capabilities[each]["listChanged"] for each in ("tools", "resources", "prompts")] == [True] * 3
        assert _read(served) == "one"
        _edit(tmp_path / "shared.py", "WORD = 'two'\n")
        _told(served, "tools", "resources", "prompts")
        assert _read(served) == "two"
        got: Any = served.request("prompts/get", {"name": "say"})
        assert got["messages"][0]["content"]["text"] == "Say two"
        assert served.call("second_search") == "second two"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("def search(:\n", "second.py:1"),
        (SECOND.replace('"second"', '"first"'), "two tools would be called 'first_search'"),
    ],
)
def test_an_edit_that_does_not_load_or_clashes_keeps_them_all(tmp_path: Path, broken: str, said: str) -> None:
    with _served(tmp_path, "second.py") as served:
        served.initialize()
        _edit(tmp_path / "second.py", broken)
        deadline = time.monotonic() + BOUND
        while said not in served.stderr and time.monotonic() < deadline:
            assert served.call("first_search") == "first"
        assert "not reloaded, the tools from before are still served" in served.stderr
        assert said in served.stderr
        assert _tools(served) == {"first_search", "second_search"}
        _edit(tmp_path / "second.py", SECOND.replace("second {WORD}", "mended {WORD}"))
        _told(served, "tools")
        assert served.call("second_search") == "mended one"


def test_targets_of_a_configuration_are_followed_from_wherever_it_is_started(tmp_path: Path) -> None:
    elsewhere = tmp_path / "config"
    elsewhere.mkdir()
    (elsewhere / "shared.py").write_text("WORD = 'one'\n", encoding="utf-8")
    (elsewhere / "second.py").write_text(SECOND, encoding="utf-8")
    (elsewhere / "third.py").write_text(SECOND.replace("second", "third").replace("words:", "others:"), "utf-8")
    config = elsewhere / "servers.toml"
    config.write_text('name = "both"\ntargets = ["second.py", "third.py:box"]\n', encoding="utf-8")
    with Served(tmp_path, FIRST, options=["--reload"], config=config) as served:
        assert served.initialize()["serverInfo"]["name"] == "both"
        before = _tools(served)
        _edit(elsewhere / "shared.py", "WORD = 'two'\n")
        _told(served, "tools")
        assert _tools(served) == before >= {"second_search", "third_search"}
        assert (served.call("second_search"), served.call("third_search")) == ("second two", "third two")
