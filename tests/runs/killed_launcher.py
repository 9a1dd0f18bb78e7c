"""Kill a launcher after each event it has shown, and tell what is left: `python -m tests.runs.killed_launcher HOME`.

One process for all the kills: each launcher is a fork, so that the imports are made once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from toolkit import Toolbox, tool
from toolkit.runs import Event, load_run, start
from toolkit.testing import FakeCLI, Turn, text, tool_use

_LAST = "four five six"


@tool
def add(title: str) -> str:
    """Add a note."""
    return f"added {title}"


async def launch(home: Path, run: str, shown: int) -> None:
    """A run that shows every event on a pipe, and then waits for a model that says no more."""
    cli = FakeCLI(
        Turn(
            [text("one two three"), tool_use("mcp__notes__add", title="x")],
            id="msg_1",
            chunk=4,
            usage={"input_tokens": 7},
        ),
        Turn([text(_LAST), text("never")], id="msg_2", chunk=4, stall_after=1),
        strict=False,
    )
    async with start("go", tools=[Toolbox("notes", [add])], transport=cli, home=home, run_id=run) as live:
        async for event in live:
            os.write(shown, event.to_json().encode() + b"\n")


def kill_after(home: Path, events: int) -> dict[str, Any] | None:
    """What is stored of a launcher that was killed when it had shown so many events; None when it has no more."""
    reading, writing = os.pipe()
    run = f"killed-after-{events}"
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            asyncio.run(launch(home, run, writing))
        finally:
            os._exit(1)
    os.close(writing)
    shown: list[Event] = []
    with os.fdopen(reading, "rb") as pipe:
        while len(shown) < events and (line := pipe.readline()):
            shown.append(Event.from_json(line))
            if shown[-1].name == "assistant.block" and shown[-1].data["text"] == _LAST:
                break  # the model says no more
        os.kill(child, signal.SIGKILL)
        shown += [Event.from_json(line) for line in pipe if line.endswith(b"\n")]
    os.waitpid(child, 0)
    stored = load_run(run, home)
    kept, result = list(stored.events()), stored.result()
    return {
        "is_last": len(shown) < events,
        "lost": shown != kept[: len(shown)],
        "state": stored.state,
        "code": result.code,
        "text": result.text,
        "cost": result.cost,
        "cause": result.cause,
        "said": "".join(event.data["text"] for event in kept if event.name == "assistant.text"),
        "input": result.total.input,
        "calls": [event.id for event in kept if event.name == "usage.call"] == [call.id for call in result.calls],
        "tools": [use.name for use in result.tools],
        "started": [event.data["name"] for event in kept if event.name == "tool.started"],
    }


def main(home: str) -> None:
    """Kill after 1, 2, 3, … events until the run shows no more."""
    told: list[Any] = []
    for events in range(1, 60):
        told.append(kill_after(Path(home), events))
        if told[-1]["is_last"]:
            break
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
