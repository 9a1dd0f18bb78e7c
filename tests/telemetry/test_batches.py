"""The queue and the rate of a batch are metrics, and all its runs share one way to the collector."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.batches._batches import began, ended, tasks, write_journal
from tests.cli._running import Desk
from tests.sandbox.jails import needs_jail
from tests.telemetry.conftest import Collected
from tests.telemetry.test_otlp import Receiver, receiver as receiver
from toolkit.cli.batches.collected import collected as collecting
from toolkit.runs.batches import Batch
from toolkit.telemetry import Telemetry
from toolkit.testing import ScriptedAPI, text


def points(collected: Collected, name: str) -> dict[str, Any]:
    found = collected.metrics().get(name, [])
    return {str(point.attributes.get("toolkit.batch.state", "")): point.value for point in found}


def test_queue_and_rate_are_collected_as_they_are_then(collected: Collected) -> None:
    batch = Batch.begin("b", tasks(3))
    kept = Telemetry(collected.telemetry.tracer_provider, collected.telemetry.meter_provider)
    with collecting(batch, kept):
        assert points(collected, "toolkit.batch.tasks") == {"waiting": 3, "running": 0, "ok": 0, "failed": 0}
        assert points(collected, "toolkit.batch.rate") == {}
        write_journal(batch, began("t0"), ended("t0", "api_error"))
        lines = [{"why": "begin", "base": 4.0}, {"why": "lowered", "base": 2.0}]
        (batch.folder / "rate.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
        assert points(collected, "toolkit.batch.tasks") == {"waiting": 2, "running": 0, "ok": 0, "failed": 1}
        assert points(collected, "toolkit.batch.rate") == {"": 2.0}
        assert points(collected, "toolkit.batch.rate.lowered") == {"": 1}
        (batch.folder / "journal.jsonl").write_text("nonsense\n", encoding="utf-8")
        assert points(collected, "toolkit.batch.tasks")["failed"] == 1


def test_without_telemetry_nothing_is_looked_at() -> None:
    with collecting(Batch.begin("b", tasks(1)), None):
        pass


@needs_jail
def test_the_command_sends_the_runs_and_the_figures_of_a_batch(tmp_path: Path, receiver: Receiver) -> None:
    (tmp_path / "jobs.jsonl").write_text('"Task 0"\n"Task 1"\n', encoding="utf-8")
    with ScriptedAPI(otherwise=lambda request: [text("Done.")], strict=False) as api:
        desk = Desk(tmp_path, api)
        done = desk.toolkit("batch", "jobs.jsonl", "--otel", env={"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url})
    assert done.code == 0, done.err
    assert receiver.spans.count("invoke_agent claude-code") == 2
    assert {"toolkit.batch.tasks", "gen_ai.client.token.usage"} <= set(receiver.metrics)
