"""The fake CLI and a replayed cassette say what the real CLI says, scenario by scenario.

This is the alarm for an upgrade: where the bundled CLI changes, the fake one has to follow.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.scenarios import SCENARIOS, Recorded, play
from toolkit.testing import FakeCLI, RealCLI, ScriptedAPI, replay


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_fake_cli_and_a_replay_say_what_the_real_cli_says(name: str, tmp_path: Path) -> None:
    scenario = SCENARIOS[name]
    cassette = tmp_path / "run.jsonl"
    async with ScriptedAPI(*scenario.turns) as api, RealCLI(api) as cli:
        with Recorded(cli, cassette) as recorded:
            real = await play(scenario, recorded)
        told_real = api.tool_results()

    with FakeCLI(*scenario.turns) as fake:
        assert await play(scenario, fake) == real
        assert fake.tool_results() == told_real
    assert await play(scenario, replay(cassette)) == real
