"""A hook's matcher: about the same tools before a call as after it, where the CLI itself reads it, or refused."""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import Any
from unittest.mock import AsyncMock

import pytest
from claude_agent_sdk import HookMatcher

from tests.runs.play import ADD, BOX
from toolkit.runs import OptionError, RunSpec, run
from toolkit.testing import FakeCLI, ScriptedAPI, Turn, text, tool_use

pytestmark = pytest.mark.usefixtures("toolkit_home")

NAMED = {
    "Task": {"Agent"},
    "^Task$": {"Agent"},
    "Task|Bash": {"Agent", "Bash"},
    "Bash, Read": {"Bash"},
    " Bash|Read": {"Bash"},
    f"Read , {ADD}": {ADD},
    "mcp__notes__.*": {ADD},
    "[AB].*": {"Agent", "Bash"},
    "*": {"Agent", "Bash", ADD},
}


async def test_a_matcher_is_about_the_same_tools_before_a_call_as_after_it() -> None:
    seen: dict[tuple[str, str], set[str]] = defaultdict(set)

    async def hook(matcher: str, given: Any, call: Any, context: Any) -> Any:
        seen[given["hook_event_name"], matcher].add(given["tool_name"])
        return {}

    matchers = [HookMatcher(matcher=one, hooks=[functools.partial(hook, one)]) for one in NAMED]
    asked: dict[str, Any] = {"description": "d", "prompt": "Do it.", "subagent_type": "h", "run_in_background": False}
    calls = [tool_use("Bash", command="true"), tool_use(ADD, title="x"), tool_use("Agent", **asked)]
    done = Turn([text("done")], when=lambda request: request.prompt == "Do it.")
    with ScriptedAPI(calls, [text("ok")], done) as api:
        result = await run(
            "Go.",
            tools=[BOX],
            agents={"h": {"description": "Helps.", "prompt": "You help."}},
            hooks={"PreToolUse": matchers, "PostToolUse": matchers},
            api_url=api.url,
            api_key="none",
        )
    assert result.ok
    assert {matcher: seen["PostToolUse", matcher] for matcher in NAMED} == NAMED
    assert {matcher: seen["PreToolUse", matcher] for matcher in NAMED} == NAMED


async def hook(given: Any, call: Any, context: Any) -> Any:
    return {}


async def test_a_function_with_something_bound_to_it_and_a_mock_are_hooks() -> None:
    mock = AsyncMock(return_value={})
    hooks = {"PreToolUse": [functools.partial(hook, context=None), mock]}
    with pytest.raises(OptionError, match="a hook is an async function"):
        RunSpec("Go.", hooks={"PreToolUse": [functools.partial(str)]})
    assert RunSpec("Go.", hooks=hooks).hooks
    await run("Go.", tools=[BOX], hooks={"PreToolUse": mock}, transport=FakeCLI([tool_use(ADD, title="x")], [text("")]))
    mock.assert_awaited_once()


@pytest.mark.parametrize(
    ("matcher", "says"),
    [
        ({"matcher": ["Bash", "Read"]}, "a matcher is a text"),
        ({"matcher": "Bash", "hooks": hook}, "the hooks of a HookMatcher are a list"),
        ({"matcher": "Bash", "hooks": (each for each in [hook])}, "the hooks of a HookMatcher are a list"),
        ({"timeout": "5"}, r"timeout='5': it is a number above zero"),
        ({"timeout": -1}, r"timeout=-1: it is a number above zero"),
        ({"on_failure": "blok"}, "did you mean 'block'"),
    ],
)
def test_what_cannot_be_a_matcher_is_refused_in_words(matcher: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        RunSpec("Go.", hooks={"PostToolUse": [HookMatcher(**{"hooks": [hook], **matcher})]})


@pytest.mark.parametrize("matcher", ["mcp__notes", "Bash|mcp__notes", "Bash, Raed", ",", " "])
def test_a_name_in_a_matcher_that_means_no_tool_is_refused_and_a_whole_box_is_a_pattern(matcher: str) -> None:
    with pytest.raises(OptionError, match="no tool of this run is called"):
        RunSpec("Go.", tools=[BOX], hooks={"PreToolUse": [HookMatcher(matcher=matcher, hooks=[hook])]}).check_tools()
