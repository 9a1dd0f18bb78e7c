"""A run of very many events, as a busy agent would leave it."""

from __future__ import annotations

from typing import Any

from tests.report._runs import finished
from toolkit.runs import RunResult

WORDS = [
    "the",
    "agent",
    "reads",
    "a",
    "file,",
    "thinks",
    "about",
    "it,",
    "changes",
    "a",
    "line",
    "and",
    "runs",
    "the",
    "tests",
    "again",
    "until",
    "they",
    "pass.",
]


def many_events(count: int) -> list[dict[str, Any]]:
    """So many events: messages, tool calls with arguments and results, usage, now and then a refusal or a subagent."""
    events: list[dict[str, Any]] = [
        {"name": "lifecycle.started", "data": {"turn": 1, "prompt": "go", "model": "claude"}}
    ]
    step = 0
    while len(events) < count - 1:
        step += 1
        said = " ".join(WORDS[(step + place) % len(WORDS)] for place in range(12 + step % 40))
        message, call = f"msg_{step}", f"call_{step}"
        inside = f"call_{step - step % 25}" if step % 25 in (1, 2, 3) and step > 25 else None
        denied, ok = step % 60 == 7, step % 17 != 5 and step % 60 != 7
        result = "\n".join(f"{line:>4}  {said}" for line in range(step % 30))
        more: list[tuple[str, str, dict[str, Any]]] = [
            ("assistant.started", message, {"model": "claude"}),
            ("assistant.block", message, {"type": "thinking" if step % 9 == 0 else "text", "text": said}),
            (
                "tool.started",
                call,
                {
                    "name": ("Bash", "Read", "mcp__notes__add")[step % 3],
                    "arguments": {"command": f"step {step}", "path": f"src/part_{step % 70}.py"},
                },
            ),
            (
                "usage.call",
                message,
                {
                    "id": message,
                    "run": "run-written",
                    "model": "claude",
                    "input": 300 + step % 90,
                    "output": 90 + step % 50,
                    "cache_read": 40 * (step % 900),
                    "cache_write": step % 700,
                },
            ),
            (
                "tool.ended",
                call,
                {"name": "Bash", "ok": ok, "text": result, "ms": step % 4000, "denied": denied, "interrupted": False},
            ),
            ("assistant.ended", message, {"stop": "tool_use", "text": said}),
        ]
        events += [{"name": name, "id": id, "data": data, "parent": inside} for name, id, data in more]
    return [
        *events[: count - 1],
        finished(RunResult(run="run-written", code="ok", text="done", ms=4_000_000, cost=3.2)),
    ]
