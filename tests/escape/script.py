"""The model's side: one attempt per turn, chosen by what a request contains and not by its number."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from toolkit.testing import Turn, text, tool_use

Step = tuple[str, str, dict[str, Any]]
"""The name of an attempt, a tool and its input."""


class Script:
    """Answers every request: the n-th call after n results, and the same for a subagent of its own."""

    def __init__(self, steps: Sequence[Step], subagent_steps: Sequence[Step] = ()) -> None:
        self._steps = steps
        self._subagent_steps = subagent_steps
        self.results: dict[int, str] = {}
        """What came back for each step."""
        self.everything = ""
        """All that the main conversation sent."""
        self.subagent = ""
        """All that a subagent sent."""
        self.was_asked_to_search = False
        """Whether a request for a search by the API itself arrived."""

    def __call__(self, request: Any) -> Any:
        body: dict[str, Any] = request
        messages = body.get("messages", [])
        results = [block for block in _blocks(messages) if block.get("type") == "tool_result"]
        if "SUBAGENT-TRIES" in json.dumps(messages[:1]):
            self.subagent += json.dumps(body)
            return _next(self._subagent_steps, len(results), "sub")
        if any(str(tool.get("type", "")).startswith("web_search") for tool in body.get("tools", [])):
            self.was_asked_to_search = True
            return [text("nothing found")]
        self.everything += json.dumps(body)
        for block in results:
            number = int(str(block["tool_use_id"]).rpartition("_")[2])
            self.results.setdefault(number, json.dumps(block.get("content")))
        return _next(self._steps, len(results), "step")


def _next(steps: Sequence[Step], done: int, prefix: str) -> Any:
    if done >= len(steps):
        return [text("done")]
    _, tool, arguments = steps[done]
    return Turn([{**tool_use(tool, arguments), "id": f"toolu_{prefix}_{done}"}])


def _blocks(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for message in messages:
        if isinstance(message.get("content"), list):
            yield from (block for block in message["content"] if isinstance(block, dict))
