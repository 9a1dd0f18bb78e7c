"""Runs played by a FakeCLI, for tests that read their events."""

from __future__ import annotations

import dataclasses
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions

from toolkit import Toolbox, ToolContext, ToolError, tool
from toolkit.runs import Event, RunResult, start
from toolkit.testing import FakeCLI, Turn, text, thinking, tool_use


@tool
def add(title: str) -> str:
    """Add a note."""
    if not title:
        raise ToolError("a note needs a title")
    return f"added {title!r}"


@tool
async def count(context: ToolContext) -> int:
    """Count the notes."""
    context.progress(1, 2, "half")
    return 2


SOON = 1.5
"""Seconds to a deadline that a test waits for: enough for what a busy machine has to do before it."""


class Generous(FakeCLI):
    """A CLI that offers the tools of its own also where it was told not to."""

    def take_options(self, options: ClaudeAgentOptions) -> None:
        super().take_options(dataclasses.replace(options, tools=None))


BOX = Toolbox("notes", [add, count])
ADD, COUNT = "mcp__notes__add", "mcp__notes__count"

RETRY = {
    "type": "system",
    "subtype": "api_retry",
    "attempt": 1,
    "max_retries": 3,
    "retry_delay_ms": 500,
    "error_status": 529,
    "error": "overloaded",
    "session_id": "s",
    "uuid": "u",
}
COMPACTING = {"type": "system", "subtype": "status", "status": "compacting", "session_id": "s", "uuid": "u"}
COMPACTED = {
    "type": "system",
    "subtype": "compact_boundary",
    "compact_metadata": {"trigger": "auto", "pre_tokens": 900, "post_tokens": 90},
    "session_id": "s",
    "uuid": "u",
}


def call(id: str, name: str, **arguments: Any) -> dict[str, Any]:
    """A tool call with an id."""
    return tool_use(name, **arguments) | {"id": id}


async def play(*steps: Any, cli: FakeCLI | None = None, **options: Any) -> tuple[list[Event], RunResult[Any]]:
    """The events and the result of a run of this script; the clock in the events is replaced by a count."""
    options = {"tools": [BOX], "run_id": "run-1", **options}
    async with start("Go.", transport=cli or FakeCLI(*steps, strict=False), **options) as live:
        result = await live.result()
    events = [event async for event in live]
    return [_timeless(number, event) for number, event in enumerate(events)], result


def _timeless(number: int, event: Event) -> Event:
    data = {**event.data, "ms": 5} if "ms" in event.data else event.data
    return dataclasses.replace(event, t=float(number), data=data)


def delegating() -> FakeCLI:
    """A CLI whose Agent tool is a subagent that says something and calls a tool."""

    def frame(kind: str, role: str, *blocks: Any) -> dict[str, Any]:
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "msg_s", "role": role, "model": "m", "content": list(blocks), "usage": usage}
        return {"type": kind, "message": message, "parent_tool_use_id": "toolu_agent"}

    def agent(given: dict[str, Any]) -> str:
        cli.say(frame("assistant", "assistant", text("I am the subagent.")))
        cli.say(frame("assistant", "assistant", call("toolu_inner", "Read", file_path="a")))
        cli.say(frame("user", "user", {"type": "tool_result", "tool_use_id": "toolu_inner", "content": "inside"}))
        return "report"

    cli = FakeCLI(
        Turn([call("toolu_agent", "Agent", prompt="look")], id="msg_1"),
        Turn([text("It looked.")], id="msg_2"),
        tools={"Agent": agent},
    )
    return cli


STORY = (
    Turn(
        [
            thinking("Notes first."),
            text("Filing two."),
            call("toolu_1", ADD, title="a"),
            call("toolu_2", ADD, title=""),
        ],
        id="msg_1",
        usage={"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 50},
    ),
    RETRY,
    COMPACTING,
    COMPACTED,
    Turn(
        [call("toolu_3", COUNT), call("toolu_4", "Bash", command="id")],
        id="msg_2",
        usage={"input_tokens": 10, "output_tokens": 5},
    ),
    Turn(
        [text("All "), text("done.")],
        id="msg_3",
        usage={"input_tokens": 7, "output_tokens": 3, "cache_creation_input_tokens": 9},
    ),
)
"""Thinking, a tool that works, one that fails, one that reports progress, one that is refused; a retry, a compaction."""


async def story() -> tuple[list[Event], RunResult[Any]]:
    """The events and the result of the whole story."""
    cli = Generous(*STORY, tools={"Bash": "never"})
    return await play(cli=cli, native=[])
