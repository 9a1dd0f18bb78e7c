"""Workers of a cluster share one rate: real runs in two processes against an API that refuses."""

from __future__ import annotations

import asyncio

import pytest

from tests.batches.limited import LimitedModel
from tests.fleets.conftest import Processes
from tests.sandbox.jails import needs_jail
from toolkit.fleets.caller import Fleet, work_off_on
from toolkit.runs import RunSpec, load_run
from toolkit.runs.batches import Batch, Task, find_batch
from toolkit.testing import ScriptedAPI

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers have a key of their own."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")


@needs_jail
async def test_workers_slow_down_together_and_no_cli_sees_a_refusal(fleet: Processes) -> None:
    tasks = [Task("t0", "Task 0"), Task("t1", "Task 1"), Task("t2", "Task 2", priority=1)]
    batch, model = Batch.begin("b", tasks), LimitedModel(1.0, refuses=1)
    with ScriptedAPI(otherwise=model, strict=False) as api:
        work = work_off_on(
            batch,
            lambda task: RunSpec(task.prompt, api_url=api.url),
            Fleet(fleet.address, lease=30.0, patience=30, on_word=print),
        )
        standings = await asyncio.wait_for(work, 150)
    assert {standing.state for standing in standings.values()} == {"ok"}, fleet.log("w1")
    assert model.asked - model.refused == 12
    decisions = find_batch("b").rate_history
    assert [decision["number"] for decision in decisions] == list(range(1, len(decisions) + 1))
    assert {decision["status"] for decision in decisions if decision["why"] == "lowered"} == {429}
    assert all(decision["machine"] for decision in decisions)
    for standing in standings.values():
        assert not [event for event in load_run(standing.runs[-1]).events() if event.kind == "retry"]
