"""A plan the agent keeps while it works: steps with a status and notes, shown as a checklist.

Every session has one plan of its own; outside a run there is a single one. Plans
live in memory and end with the process. Each tool answers with the whole checklist,
so that the model always has the current one at hand.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from toolkit.errors import ToolError
from toolkit.tools import Toolbox, ToolContext, tool
from toolkit_servers.ready.answers import one_line

Status = Literal["pending", "doing", "done", "dropped"]
Line = Annotated[str, Field(pattern=r"\S", max_length=500)]

_BOXES: dict[Status, str] = {"pending": "[ ]", "doing": "[>]", "done": "[x]", "dropped": "[-]"}
_MOST_STEPS = 100
_MOST_NOTES = 20
_MOST_SESSIONS = 1_000


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan."""

    text: str
    status: Status = "pending"
    notes: tuple[str, ...] = ()

    def render(self, number: int) -> str:
        """The step as lines of a checklist."""
        return "\n".join([f"{_BOXES[self.status]} {number}. {self.text}", *(f"       - {note}" for note in self.notes)])


@dataclass(frozen=True, slots=True)
class Plan:
    """A goal and the steps towards it."""

    goal: str
    steps: tuple[Step, ...]

    def render(self) -> str:
        """The plan as a checklist."""
        wanted = [step for step in self.steps if step.status != "dropped"]
        done = sum(step.status == "done" for step in wanted)
        head = f"{self.goal} ({done} of {len(wanted)} done)"
        return "\n".join([head, *(step.render(number) for number, step in enumerate(self.steps, 1))])

    def with_step(self, step: Step, after: int) -> Plan:
        """The plan with one step more, behind step number `after`; 0 puts it first."""
        return replace(self, steps=(*self.steps[:after], step, *self.steps[after:]))

    def with_change(self, number: int, change: Callable[[Step], Step]) -> Plan:
        """The plan with one step changed."""
        at = number - 1
        return replace(self, steps=(*self.steps[:at], change(self.steps[at]), *self.steps[number:]))


class PlanTools:
    """The plans of all sessions, and the tools on them."""

    def __init__(self) -> None:
        self._plans: OrderedDict[str | None, Plan] = OrderedDict()
        self._lock = threading.Lock()

    @tool(destructive=True, idempotent=True, open_world=False)
    def make_plan(
        self,
        goal: Line,
        steps: Annotated[list[Line], Field(min_length=1, max_length=_MOST_STEPS)],
        context: ToolContext,
    ) -> Plan:
        """Write a plan before work of more than a few steps. Replaces the plan there was.

        Args:
            goal: What is true when all steps are done, in one line.
            steps: What to do, in order; one line each.
        """
        plan = Plan(one_line(goal), tuple(Step(one_line(text)) for text in steps))
        return self._change(context, lambda _: plan)

    @tool(destructive=False, idempotent=True, open_world=False)
    def update_step(
        self, step: int, context: ToolContext, status: Status | None = None, note: Line | None = None
    ) -> Plan:
        """Say how a step stands: doing when you begin it, done when it is finished, dropped when it is not needed.

        Args:
            step: The number of the step, as the checklist shows it.
            status: Its new status.
            note: Something worth keeping about it: a finding, or why it was dropped.
        """
        if status is None and note is None:
            raise ToolError("nothing to update: give a status, a note, or both")

        def changed(old: Step) -> Step:
            notes = old.notes if note is None or one_line(note) in old.notes else (*old.notes, one_line(note))
            if len(notes) > _MOST_NOTES:
                raise ToolError(f"step {step} has {_MOST_NOTES} notes already; add a step instead")
            return Step(old.text, status or old.status, notes)

        return self._change(context, lambda plan: _known(plan, step).with_change(step, changed))

    @tool(destructive=False, idempotent=False, open_world=False)
    def add_step(self, text: Line, context: ToolContext, after: int | None = None) -> Plan:
        """Add a step that was not foreseen. The steps behind it get new numbers.

        Args:
            text: What to do, in one line.
            after: Put it behind the step of this number, 0 for the beginning; at the end if not given.
        """

        def added(plan: Plan | None) -> Plan:
            plan = _made(plan)
            if len(plan.steps) >= _MOST_STEPS:
                raise ToolError(f"the plan has {_MOST_STEPS} steps, more than anybody follows: make a new one")
            if after:
                _known(plan, after)
            return plan.with_step(Step(one_line(text)), len(plan.steps) if after is None else after)

        return self._change(context, added)

    @tool(read_only=True, open_world=False)
    def show_plan(self, context: ToolContext) -> Plan:
        """Show the plan as a checklist."""
        with self._lock:
            return _made(self._plans.get(context.session))

    def _change(self, context: ToolContext, change: Callable[[Plan | None], Plan]) -> Plan:
        with self._lock:
            plan = change(self._plans.get(context.session))
            self._plans[context.session] = plan
            self._plans.move_to_end(context.session)
            if len(self._plans) > _MOST_SESSIONS:
                self._plans.popitem(last=False)
            return plan


def planning() -> Toolbox:
    """A toolbox with which an agent plans its work: make_plan, update_step, add_step, show_plan."""
    planner = PlanTools()
    return Toolbox(
        "planning",
        [planner.make_plan, planner.update_step, planner.add_step, planner.show_plan],
        instructions="For work of more than a few steps: make a plan, and keep the status of its steps up to date.",
    )


def _made(plan: Plan | None) -> Plan:
    if plan is None:
        raise ToolError("there is no plan yet: make one with make_plan")
    return plan


def _known(plan: Plan | None, number: int) -> Plan:
    plan = _made(plan)
    if not 1 <= number <= len(plan.steps):
        raise ToolError(f"there is no step {number}; the plan has steps 1 to {len(plan.steps)}")
    return plan
