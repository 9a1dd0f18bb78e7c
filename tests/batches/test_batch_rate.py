"""A batch against an API that refuses: its requests wait in the gates, and no run notices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.batches.limited import LimitedModel
from tests.sandbox.jails import needs_jail
from toolkit.runs import load_run
from toolkit.runs.batches import find_batch
from toolkit.testing import ScriptedAPI


@needs_jail
def test_a_batch_keeps_to_the_limit_of_the_api_and_no_cli_sees_a_refusal(tmp_path: Path, toolkit_home: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(
        "".join(json.dumps({"id": f"t{n}", "prompt": f"Task {n}"}) + "\n" for n in range(4)), encoding="utf-8"
    )
    model = LimitedModel(1.0, refuses=1)
    with ScriptedAPI(otherwise=model, strict=False) as api:
        env = {**os.environ, "ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "none"}
        command = [sys.executable, "-m", "toolkit", "batch", str(file), "--parallel", "4", "--priority", "t3=5"]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr
    assert model.asked - model.refused == 16
    batch = find_batch("tasks")
    decisions = batch.rate_history
    lowered = [decision for decision in decisions if decision["why"] == "lowered"]
    assert decisions[0]["why"] == "begin"
    assert lowered
    assert {decision["status"] for decision in lowered} == {429}
    assert 0 < model.refused <= model.asked / 2
    for standing in batch.standings().values():
        [run] = standing.runs
        assert [event.kind for event in load_run(run).events() if event.kind == "retry"] == []
        assert standing.state == "ok"


@needs_jail
def test_a_priority_that_is_about_no_task_is_said_before_there_is_a_batch(tmp_path: Path, toolkit_home: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('"Go."\n', encoding="utf-8")
    command = [sys.executable, "-m", "toolkit", "batch", str(file), "--priority", "nobody=3"]
    env = {**os.environ, "ANTHROPIC_API_KEY": "none"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "about no task" in done.stderr
    assert not (toolkit_home / "batches").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these priorities")
def test_what_a_batch_starts_leaves_the_processor_to_others() -> None:
    code = (
        "import os, subprocess, sys\n"
        "from toolkit.runs.batches import step_back\n"
        "step_back(); step_back()\n"
        "print(subprocess.run([sys.executable, '-c', 'import os; print(os.nice(0))'], capture_output=True).stdout)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == repr(f"{max(10, os.nice(0))}\n".encode())
