"""Priorities decide what is begun first; tasks that share the beginning of their prompt follow one another."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from toolkit.errors import RunError
from toolkit.fleets.rate import Rate, paced, project_of
from toolkit.runs import RunSpec
from toolkit.runs.batches import (
    Batch,
    Task,
    find_batch,
    in_order,
    keep_decision,
    priority_of,
    read_tasks,
    read_wishes,
    work_off,
)
from toolkit.runs.batches.standing import Standing
from toolkit.testing import FakeCLI, Turn, text


@pytest.fixture(autouse=True)
def _private_home(toolkit_home: Path) -> None:
    """Every test here keeps its runs to itself."""


def order(*tasks: Task, wishes: list[tuple[str, int]] | None = None) -> list[str]:
    return [standing.task.id for standing in in_order(map(Standing, tasks), wishes or ())]


def test_a_higher_priority_is_begun_first_and_equals_keep_their_order() -> None:
    assert order(Task("a", "x"), Task("b", "x", priority=2), Task("c", "x"), Task("d", "x", priority=-1)) == [
        "b", "a", "c", "d",
    ]  # fmt: skip


def test_tasks_with_the_same_model_and_system_text_follow_one_another() -> None:
    tasks = [
        Task("a", "x", "m"),
        Task("b", "x", "n"),
        Task("c", "x", "m"),
        Task("d", "x", "m", "s"),
        Task("e", "x", "n"),
    ]
    assert order(*tasks) == ["a", "c", "b", "e", "d"]


def test_a_wish_replaces_the_priority_of_the_tasks_it_is_about_and_the_last_one_counts() -> None:
    tasks = [Task("docs-1", "x", priority=3), Task("docs-2", "x"), Task("shop", "x")]
    wishes = read_wishes(["docs-*=1", "shop=9", "docs-2=10"], tasks)
    assert [priority_of(task, wishes) for task in tasks] == [1, 10, 9]
    assert order(*tasks, wishes=wishes) == ["docs-2", "shop", "docs-1"]
    assert read_wishes(["4"], tasks) == [("*", 4)]


@pytest.mark.parametrize("wrong", ["high", "a=", "=3", "a=1.5", "a=1001", "nobody=1", ""])
def test_a_priority_that_cannot_be_or_is_about_nothing_is_refused(wrong: str) -> None:
    with pytest.raises(RunError, match="priority"):
        read_wishes([wrong], [Task("a", "x")])


@pytest.mark.parametrize("wrong", ['"high"', "1.5", "true", "null", "-1001"])
def test_a_priority_in_the_file_is_a_whole_number(tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(f'{{"prompt": "a", "priority": {wrong}}}\n', encoding="utf-8")
    with pytest.raises(RunError, match="whole number"):
        read_tasks(file)


def test_another_priority_makes_no_other_task(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"prompt": "a"}\n', encoding="utf-8")
    [before] = read_tasks(file)
    file.write_text('{"prompt": "a", "priority": 7}\n', encoding="utf-8")
    [after] = read_tasks(file)
    assert (before.id, before.priority, after.priority) == (after.id, 0, 7)
    file.write_text(after.to_line() + "\n", encoding="utf-8")
    assert read_tasks(file) == [after]


async def test_a_batch_begins_with_what_is_urgent() -> None:
    begun: list[str] = []

    def make(task: Task) -> RunSpec:
        begun.append(task.id)
        return RunSpec(task.prompt, transport=FakeCLI(Turn([text("done")])))

    tasks = [Task("a", "x"), Task("b", "x", priority=1), Task("c", "x")]
    await work_off(Batch.begin("b", tasks), make, parallel=1, wishes=[("c", 5)])
    assert begun == ["c", "b", "a"]


def test_runs_with_the_same_beginning_of_their_prompts_are_one_project(tmp_path: Path) -> None:
    one = RunSpec("A", model="m")
    assert project_of(one) == project_of(dataclasses.replace(one, prompt="B"))
    others = [
        dataclasses.replace(one, model="n"),
        dataclasses.replace(one, system="s"),
        dataclasses.replace(one, native=("Read",)),
    ]
    assert len({project_of(spec) for spec in (one, *others)}) == 4
    rate = Rate()
    assert paced(lambda task: one, rate)(Task("a", "x", priority=3)).pace is not None


def test_the_decisions_on_the_rate_are_data_of_the_batch() -> None:
    batch = Batch.begin("b", [Task("a", "x")])
    assert batch.rate_history == []
    rate = Rate(on_decision=lambda decision: keep_decision(batch.folder, dataclasses.asdict(decision)))
    with (batch.folder / "rate.jsonl").open("ab") as out:
        out.write(b'{"number": 2, "w')
    [said] = find_batch("b").rate_history
    assert (said["why"], said["base"]) == ("begin", rate.history[0].base)
