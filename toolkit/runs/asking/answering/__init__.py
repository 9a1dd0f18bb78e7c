"""What a tool of the run asks goes to the run's approver, so that the same tool works attended and not.

A form is answered with `Decision.allow({"field": value})`; plain approval takes the form's defaults, and is a yes to a
question for yes or no. A refusal is `Declined`, no answer in time `Cancelled`. Unattended, nobody can be asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolkit.errors import ToolError
from toolkit.runs.asking.approvals import UNANSWERED, Approvals
from toolkit.tools.asking import Cancelled, CannotAsk, Declined, Question, Root, Sampled, SampleRequest


class RunAsking:
    """Asks whoever approves the calls of a run."""

    def __init__(self, approvals: Approvals, tool: str, call: str, folder: Path) -> None:
        self._approvals = approvals
        self._tool = tool
        self._call = call
        self._folder = folder

    async def ask(self, question: Question) -> Mapping[str, Any] | Declined | Cancelled:
        """See `toolkit.tools.asking.Asking`."""
        form = question.form
        shown = {"url": question.url} if form is None else {"form": form.schema}
        asked = {"question": question.text, **shown}
        fields = None if form is None else form.schema
        decision = await self._approvals.consult(self._tool, asked, self._call, question.text, fields)
        if decision is None:
            raise CannotAsk(f"nobody attends this run, so nobody can be asked: {question.text}")
        if not decision.allows:
            return Cancelled() if decision.message in UNANSWERED else Declined()
        if decision.arguments is not None:
            return decision.arguments
        if form is None:
            return {}
        fields = form.schema["properties"]
        defaults = form.defaults()
        if defaults is None and form.is_single and fields["answer"].get("type") == "boolean":
            return {"answer": True}
        if defaults is None:
            raise ToolError(f"the question was approved without an answer: {question.text}")
        return defaults

    async def sample(self, request: SampleRequest) -> Sampled:
        """See `toolkit.tools.asking.Asking`."""
        raise CannotAsk("a run lets no tool use its model (sampling)")

    async def roots(self) -> list[Root]:
        """The folder the agent works in, on the host."""
        return [Root(self._folder.absolute().as_uri(), self._folder.name)]
