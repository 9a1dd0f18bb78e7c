"""The fake CLI and a replayed cassette say what the real CLI says, scenario by scenario.

This is the alarm for an upgrade: where the bundled CLI changes, the fake one has to follow.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.real.drawing import Drawn, drawn, played_by_both
from tests.real.playing import Recorded, play
from tests.real.scenarios import SCENARIOS
from toolkit.testing import FakeCLI, RealCLI, ScriptedAPI, replay


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_fake_cli_and_a_replay_say_what_the_real_cli_says(name: str, tmp_path: Path) -> None:
    scenario = SCENARIOS[name]
    cassette = tmp_path / "run.jsonl"
    async with ScriptedAPI(*scenario.turns) as api, RealCLI(api) as cli:
        with Recorded(cli, cassette) as recorded:
            real = await play(scenario, recorded)
        told_real = api.tool_results()
        thought_real = [request.get("thinking") for request in api.requests]

    with FakeCLI(*scenario.turns, tools=scenario.stand_ins) as fake:
        assert await play(scenario, fake) == real
        assert fake.tool_results() == told_real
        if scenario.options.get("model") is None:
            assert [request.get("thinking") for request in fake.requests] == thought_real
    assert await play(scenario, replay(cassette)) == real


# The same scenarios every time, so that a change fails for what it changed; `./dev bench parity` draws others.
@settings(
    max_examples=30,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(drawn())
@pytest.mark.filterwarnings("ignore:can_use_tool will not be invoked")
def test_the_fake_cli_says_what_the_real_cli_says_in_scenarios_nobody_wrote(one: Drawn) -> None:
    real, fake = asyncio.run(played_by_both(one))
    assert fake == real
