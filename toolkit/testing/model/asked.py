"""What a test asks of a scripted model afterwards: what it was told, and whether the script fitted.

Shared by everything that is driven by a script, so that a test reads the same
whether the model, or the whole CLI, was played.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolkit.errors import TestingError
from toolkit.testing.model.request import Request, plain_result
from toolkit.testing.model.script import Script


class Asked:
    """The model calls that a script has answered."""

    def __init__(self, script: Script, *, strict: bool) -> None:
        self._script = script
        self._strict = strict

    @property
    def requests(self) -> Sequence[Request]:
        """The model calls so far, oldest first (without side calls)."""
        return tuple(self._script.requests)

    @property
    def side_requests(self) -> Sequence[Request]:
        """The calls that take no turn: side calls of the CLI (titles and the like) and token counts."""
        return tuple(self._script.side_requests)

    def tool_results(self) -> list[str | list[dict[str, Any]]]:
        """What the model read of every tool call, in order: a text, or blocks where there is more than text."""
        return [plain_result(block) for block in self.tool_result_blocks()]

    def tool_result_blocks(self) -> list[dict[str, Any]]:
        """The raw `tool_result` blocks (with `tool_use_id` and `is_error`), each call once."""
        found: dict[str, dict[str, Any]] = {}
        for request in self.requests:
            for block in request.tool_results():
                found.setdefault(str(block.get("tool_use_id")), block)
        return list(found.values())

    def system_prompt(self) -> str:
        """The system prompt of the last model call."""
        return self._last().system_prompt

    def tools(self) -> dict[str, dict[str, Any]]:
        """The tools offered in the last model call, by name."""
        return self._last().tools

    def verify(self) -> None:
        """Raise if a call had no turn or a turn no call; leaving the `with` block does this too."""
        __tracebackhide__ = True  # pytest shows the test, not this
        problem = self._script.problem()
        if problem is not None:
            raise problem.with_traceback(None)

    def _last(self) -> Request:
        if not self._script.requests:
            raise TestingError("no model call has reached the scripted API", fix="Run the agent first.")
        return self._script.requests[-1]

    def raise_problem(self, error: BaseException | None = None) -> None:
        """Check the script at the end of a test that raised `error`, or none.

        Another error stays as it is, unless the script ran out: then that is its cause.
        """
        __tracebackhide__ = True
        if not self._strict:
            return
        if error is None:
            self.verify()
        elif self._script.failure is not None and isinstance(error, Exception) and error is not self._script.failure:
            raise self._script.failure.with_traceback(None) from error
