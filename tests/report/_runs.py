"""Runs to report on: one that really worked, played by a FakeCLI, and any that a test writes down itself."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolkit import Toolbox, tool
from toolkit.runs import Event, Limits, RunResult, StoredRun, load_run, run
from toolkit.runs.storage import FORMAT, runs_home
from toolkit.testing import FakeCLI, Turn, text, thinking, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

INVOICE = '''"""Invoices: lines, totals and what is still open."""

from dataclasses import dataclass


@dataclass
class Line:
    text: str
    cents: int
    count: int = 1


def total(lines: list[Line]) -> int:
    """The total in cents."""
    return sum(line.cents for line in lines)
'''
FIXED = INVOICE.replace("line.cents for", "line.cents * line.count for")
TEST = """from invoice import Line, total


def test_total_counts_every_piece() -> None:
    # three pieces at 2.50 and one at 10.00
    assert total([Line("pen", 250, 3), Line("book", 1000)]) == 1750
"""
FAILED = """\x1b[31mF\x1b[0m                                                                        [100%]
=================================== FAILURES ===================================
________________________ test_total_counts_every_piece _________________________

    def test_total_counts_every_piece() -> None:
        # three pieces at 2.50 and one at 10.00
>       assert total([Line("pen", 250, 3), Line("book", 1000)]) == 1750
E       AssertionError: assert 1250 == 1750
E        +  where 1250 = total([Line(text='pen', cents=250, count=3), Line(text='book', cents=1000, count=1)])

test_invoice.py:6: AssertionError
=========================== short test summary info ============================
FAILED test_invoice.py::test_total_counts_every_piece - AssertionError: assert 1250 == 1750
1 failed in 0.02s"""
ANSWER = """The failing test passes now.

`total` added up the price of each line and forgot how many pieces it has:

```python
return sum(line.cents * line.count for line in lines)
```

- `shop/invoice.py`: multiply by `count`
- `shop/CHANGES.md`: a line about the fix
"""
PASSED = ".                                            [100%]\n1 passed in 0.01s"
PROMPT = "Make the failing test in shop/ pass. Change as little as you can, and say in one sentence what was wrong."


@tool
def note_decision(title: str, why: str) -> str:
    """Keep a decision for the people who review the run."""
    return f"noted: {title}"


def usage(fresh: int, out: int, read: int = 0, write: int = 0) -> dict[str, int]:
    return {
        "input_tokens": fresh,
        "output_tokens": out,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
    }


def _turns(pace: float) -> list[Turn]:
    """What the model says: look, read, try something it may not, fix, test, answer."""
    fix = {"old_string": "line.cents for", "new_string": "line.cents * line.count for"}
    noted = {"title": "Fix total, not the test", "why": "The docstring says total in cents; the test is right."}
    said: list[tuple[list[dict[str, Any]], dict[str, int]]] = [
        (
            [
                thinking("Run the test first.\nThen read what it says, before touching anything."),
                text("I'll run the test to see how it fails."),
                tool_use("Bash", command="python -m pytest -q shop", description="Run the tests"),
            ],
            usage(412, 96, 0, 9120),
        ),
        (
            [
                text("The total ignores `count`. Let me look at the code."),
                tool_use("Read", file_path="shop/invoice.py"),
                tool_use("Read", file_path="shop/test_invoice.py"),
            ],
            usage(640, 118, 9120, 1210),
        ),
        (
            [text("Is this known?"), tool_use("WebFetch", url="https://example.com/issues", prompt="find it")],
            usage(1220, 74, 10330, 900),
        ),
        ([tool_use("Edit", file_path="shop/invoice.py", **fix)], usage(310, 142, 11230, 420)),
        (
            [
                tool_use(
                    "Write", file_path="shop/CHANGES.md", content="- `total` multiplies by the number of pieces.\n"
                ),
                tool_use("mcp__desk__note_decision", noted),
            ],
            usage(280, 190, 11650, 310),
        ),
        (
            [tool_use("Bash", command="python -m pytest -q shop", description="Run them again")],
            usage(260, 66, 11960, 280),
        ),
        ([text(ANSWER)], usage(220, 164, 12240, 120)),
    ]
    return [
        Turn(blocks, id=f"msg_{place}", usage=used, delay=pace * (1 + place % 3))
        for place, (blocks, used) in enumerate(said, 1)
    ]


async def worked_run(folder: Path, *, pace: float = 0.0) -> StoredRun:
    """A run that fixed a bug in a copy of a small project, and was refused one thing; each answer takes `pace` seconds."""
    shop = folder / "shop"
    shop.mkdir(parents=True)
    (shop / "invoice.py").write_text(INVOICE, encoding="utf-8")
    (shop / "test_invoice.py").write_text(TEST, encoding="utf-8")
    section = WorkspaceSection([HostMount(shop)], allowed_host_roots=[folder])

    def edit(given: dict[str, Any]) -> str:
        file = section.temp_dir / given["file_path"]
        before = file.read_text(encoding="utf-8")
        file.write_text(before.replace(given["old_string"], given["new_string"]), encoding="utf-8")
        return f"The file {given['file_path']} has been updated."

    def write(given: dict[str, Any]) -> str:
        (section.temp_dir / given["file_path"]).write_text(given["content"], encoding="utf-8")
        return f"File created successfully at: {given['file_path']}"

    def read(given: dict[str, Any]) -> str:
        lines = (section.temp_dir / given["file_path"]).read_text(encoding="utf-8").splitlines()
        return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, 1))

    def bash(given: dict[str, Any]) -> str:
        time.sleep(pace * 0.8)
        return PASSED if "line.count for" in read({"file_path": "shop/invoice.py"}) else FAILED

    cli = FakeCLI(*_turns(pace), tools={"Bash": bash, "Read": read, "Edit": edit, "Write": write, "WebFetch": str})
    limits = Limits(seconds=600, turns=20, tokens=200_000, usd=2, memory_bytes=2 << 30)
    done = await run(
        PROMPT,
        workspace=section,
        tools=[Toolbox("desk", [note_decision])],
        limits=limits,
        native=("Bash", "Read", "Edit", "Write", "WebFetch"),
        policy={"WebFetch": "deny"},
        transport=cli,
        run_id="run-7f3a90c1d2e4",
    )
    assert done.code == "ok", done.debug
    return load_run(done.run)


def finished(result: RunResult[Any], turn: int = 1) -> dict[str, Any]:
    """The event with which a turn of that result ends."""
    data = result.to_data()
    figures = ("ms", "cost", "known_cost", "total", "unattributed")
    names = ("ok", "code", "message", "text", "stop", "cause", "denied", *figures)
    return {"name": "lifecycle.finished", "data": {"turn": turn, **{name: data[name] for name in names}}}


def write_run(
    events: Sequence[dict[str, Any]],
    *,
    id: str = "run-written",
    facts: dict[str, Any] | None = None,
    result: dict[str, Any] | None = None,
) -> StoredRun:
    """A stored run made of these events (`{"name": "tool.ended", "id": …, "data": {…}}`)."""
    folder = runs_home() / id
    folder.mkdir(parents=True)
    began = time.time() - len(events)
    lines = []
    for place, event in enumerate(events):
        stream, kind = event["name"].split(".")
        when = event.get("t", began + place * 0.4)
        lines.append(
            Event(stream, kind, when, id, event.get("id", id), event.get("parent"), event.get("data", {})).to_json()
        )
    (folder / "events.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    known = {
        "format": FORMAT,
        "run": id,
        "began": began,
        "ended": began + len(events),
        "prompt": "go",
        "profile": "offline",
        "domains": [],
        "limits": {},
        "mode": "yolo",
        "confined": True,
    }
    (folder / "lock").touch()
    (folder / "run.json").write_text(json.dumps({**known, **(facts or {})}), encoding="utf-8")
    if result is not None:
        (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return load_run(id)
