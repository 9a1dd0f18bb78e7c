"""What a tool of a run asks goes to the run's approver: the same tool works attended and not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from toolkit import Toolbox, ToolContext, tool
from toolkit.runs import Decision, Question, run
from toolkit.testing import FakeCLI, text, tool_use

told: list[str] = []


@dataclass
class Choice:
    branch: str
    push: bool = False


@tool(read_only=True)
async def choose(ctx: ToolContext) -> str:
    """Ask for a branch."""
    told.append(str(await ctx.ask("Which branch?", Choice)))
    return told[-1]


@tool(read_only=True)
async def sure(ctx: ToolContext) -> str:
    """Ask for yes or no, or take no."""
    told.append(str(await ctx.ask("Really?", bool, default="nobody")))
    return told[-1]


@tool(read_only=True)
async def where(ctx: ToolContext) -> str:
    """Say where the agent works."""
    told.append(str((await ctx.roots())[0].path == ctx.workspace.absolute()))
    return told[-1]


box = Toolbox("asking", [choose, sure, where])


async def _ran(name: str, **options: Any) -> str:
    told.clear()
    cli = FakeCLI([tool_use(f"mcp__asking__{name}")], [text("bye")], strict=False)
    await asyncio.wait_for(run("go", tools=[box], transport=cli, **options), 60)
    return told[0] if told else ""


async def test_the_approver_fills_in_the_form() -> None:
    asked: list[Question] = []

    def approve(question: Question) -> Decision:
        asked.append(question)
        return Decision.allow({"branch": "main", "push": True})

    assert await _ran("choose", approve=approve) == "Choice(branch='main', push=True)"
    [question] = asked
    assert question.tool == "mcp__asking__choose"
    assert question.title == "mcp__asking__choose asks: Which branch?"
    assert question.input["form"]["required"] == ["branch"]
    assert question.suggestions == ("ALLOW_ONCE", "DENY")


@pytest.mark.parametrize(
    ("name", "decision", "expected"),
    [
        ("choose", Decision.deny("not now"), "Declined()"),
        ("sure", True, "True"),
        ("sure", False, "Declined()"),
    ],
)
async def test_a_plain_decision_is_an_answer_where_it_can_be(name: str, decision: Any, expected: str) -> None:
    assert await _ran(name, approve=lambda question: decision) == expected


async def test_approval_without_an_answer_is_told_to_the_model() -> None:
    assert await _ran("choose", approve=lambda question: True) == ""


async def test_nobody_answers_in_time() -> None:
    async def approve(question: Question) -> bool:
        await asyncio.Event().wait()
        return True

    assert await _ran("sure", approve=approve, approval_timeout=0.1) == "Cancelled()"


async def test_unattended_the_default_is_taken_or_the_model_is_told() -> None:
    assert await _ran("sure") == "nobody"
    assert await _ran("choose") == ""


async def test_the_folder_of_a_run_is_the_agents() -> None:
    assert await _ran("where") == "True"
