"""Batches as the tests need them: worked off with a fake CLI, or written down by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolkit.runs import RunSpec
from toolkit.runs.batches import Batch, Task
from toolkit.testing import FakeCLI, Turn, text

THOUSAND = {"input_tokens": 900, "output_tokens": 100}


def tasks(count: int) -> list[Task]:
    return [Task(f"t{number}", f"Task {number}") for number in range(count)]


def make(task: Task) -> RunSpec:
    """A run that does its task with one call of a thousand tokens."""
    return RunSpec(task.prompt, transport=FakeCLI(Turn([text(f"did {task.id}")], usage=THOUSAND)))


def write_journal(batch: Batch, *lines: dict[str, Any]) -> None:
    """Add lines to the journal of a batch that nobody works on."""
    with (batch.folder / "journal.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def began(task: str, number: int = 1, *, name: str = "b", at: float = 1000.0, **more: Any) -> dict[str, Any]:
    return {"task": task, "run": f"{name}.{task}.{number}", "began": at, **more}


def ended(task: str, code: str = "ok", number: int = 1, *, name: str = "b", **more: Any) -> dict[str, Any]:
    facts = {"code": code, "tokens": 1000, "cost": 0.25, "known_cost": 0.25, "cause": None, "verified": None}
    return {"task": task, "run": f"{name}.{task}.{number}", "ended": 1060.0, **facts, "lost": False, **more}


def folder_of(home: Path, run: str) -> Path:
    return home / "runs" / run
