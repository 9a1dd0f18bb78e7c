"""The fake CLI and a replayed cassette say what the real CLI says, scenario by scenario.

This is the alarm for an upgrade: where the bundled CLI changes, the fake one has to follow.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.real.drawing import Drawn, Said, drawn, played_by_both
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


_READS = "mcp__notes__(two|fail)"
# Scenarios in which a long drawing once found the fake one to differ.
FOUND = {
    "a tool that is not there behind one that reads": Drawn((Said(calls=("two", "gone")),)),
    "and behind one that waits for one that reads": Drawn((Said(calls=("two", "add", "gone")),)),
    "and behind one that runs alone": Drawn((Said(calls=("add", "two", "gone")),)),
    "a deferred call beside others, and a further prompt": Drawn(
        (Said(calls=("add", "fail")),),
        prompts=2,
        mode="default",
        before_tool="defer",
        only_for=_READS,
        allowed=("mcp__notes",),
    ),
    "two refused side by side": Drawn(
        (Said(calls=("add", "two", "two")),), mode="dontAsk", before_tool="block", only_for="mcp__notes__add"
    ),
    "an interrupt in the last turn there is": Drawn(
        (Said(calls=("add",)),), mode="default", answers="interrupt", max_turns=1
    ),
    "an objection to an end with an output, which counts for nothing": Drawn(
        (Said(("a b c",), output=3), Said(("hello",))), prompts=2, stop_objects=True, wants_output=True
    ),
    "nothing to see, twice": Drawn(
        (Said(calls=("add",)), Said(("~hm",)), Said(calls=("add",)), Said(("~hm",))),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_the_fake_cli_says_what_the_real_cli_says_where_it_once_did_not(name: str) -> None:
    real, fake = asyncio.run(played_by_both(FOUND[name]))
    assert fake == real
