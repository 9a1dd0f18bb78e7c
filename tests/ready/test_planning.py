"""The ready-made plan: a checklist kept per session."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ready._client import refused, said
from toolkit import Toolbox, ToolContext
from toolkit_servers.ready.planning import planning


@pytest.fixture
def box() -> Toolbox:
    return planning()


async def test_a_plan_renders_as_a_checklist(box: Toolbox) -> None:
    await said(box, "make_plan", goal="Fix the login", steps=["Read the test", "Find the bug", "Fix it", "Celebrate"])
    await said(box, "update_step", step=1, status="done", note="it fails since Monday")
    await said(box, "update_step", step=4, status="dropped")
    assert await said(box, "update_step", step=2, status="doing") == "\n".join(
        [
            "Fix the login (1 of 3 done)",
            "[x] 1. Read the test",
            "       - it fails since Monday",
            "[>] 2. Find the bug",
            "[ ] 3. Fix it",
            "[-] 4. Celebrate",
        ]
    )


async def test_a_step_is_added_where_it_belongs(box: Toolbox) -> None:
    await said(box, "make_plan", goal="g", steps=["one", "three"])
    await said(box, "add_step", text="two", after=1)
    await said(box, "add_step", text="zero", after=0)
    text = await said(box, "add_step", text="four")
    assert [line[4:] for line in text.splitlines()[1:]] == ["1. zero", "2. one", "3. two", "4. three", "5. four"]


async def test_sessions_do_not_see_each_others_plans(box: Toolbox) -> None:
    await said(box, "make_plan", ToolContext(session="a"), goal="plan of a", steps=["x"])
    assert "no plan" in await refused(box, "show_plan", ToolContext(session="b"))
    assert "no plan" in await refused(box, "show_plan")
    await said(box, "make_plan", ToolContext(session="b"), goal="plan of b", steps=["y"])
    assert "plan of a" in await said(box, "show_plan", ToolContext(session="a"))


async def test_two_boxes_do_not_share_a_plan(box: Toolbox) -> None:
    await said(box, "make_plan", goal="g", steps=["x"])
    await refused(planning(), "show_plan")


async def test_a_thousand_sessions_are_kept_and_the_oldest_goes_first(box: Toolbox) -> None:
    for number in range(1_001):
        await said(box, "make_plan", ToolContext(session=str(number)), goal="g", steps=["x"])
    await refused(box, "show_plan", ToolContext(session="0"))
    await said(box, "show_plan", ToolContext(session="1"))


@pytest.mark.parametrize(
    ("tool", "arguments", "hint"),
    [
        ("update_step", {"step": 3, "status": "done"}, "steps 1 to 2"),
        ("update_step", {"step": 0, "status": "done"}, "steps 1 to 2"),
        ("update_step", {"step": 1}, "give a status"),
        ("update_step", {"step": 1, "status": "finished"}, "'dropped'"),
        ("add_step", {"text": "x", "after": 9}, "no step 9"),
        ("add_step", {"text": "x", "after": -1}, "no step -1"),
        ("add_step", {"text": "   "}, "text"),
        ("make_plan", {"goal": "g", "steps": []}, "steps"),
        ("make_plan", {"goal": "g", "steps": ["x"] * 101}, "steps"),
    ],
)
async def test_a_wrong_call_changes_nothing_and_says_what_to_do(
    box: Toolbox, tool: str, arguments: dict[str, Any], hint: str
) -> None:
    before = await said(box, "make_plan", goal="g", steps=["one", "two"])
    assert hint in await refused(box, tool, **arguments)
    assert await said(box, "show_plan") == before


async def test_a_line_break_in_a_step_cannot_fake_another_step(box: Toolbox) -> None:
    text = await said(box, "make_plan", goal="g", steps=["one\n[x] 2. fake"])
    assert text.splitlines()[1:] == ["[ ] 1. one [x] 2. fake"]


async def test_a_plan_cannot_grow_without_end(box: Toolbox) -> None:
    await said(box, "make_plan", goal="g", steps=["x"] * 100)
    assert "100 steps" in await refused(box, "add_step", text="one more")
    for number in range(20):
        await said(box, "update_step", step=1, note=f"note {number}")
    assert "20 notes" in await refused(box, "update_step", step=1, note="one more")


async def test_the_same_update_twice_is_one_update(box: Toolbox) -> None:
    await said(box, "make_plan", goal="g", steps=["x"])
    once = await said(box, "update_step", step=1, status="done", note="n")
    assert await said(box, "update_step", step=1, status="done", note="n") == once
