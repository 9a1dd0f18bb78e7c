"""The fleet that the figures are about: 429s, storms, machines that are lost and some that are cut off."""

from __future__ import annotations

import random

from tests.scale.fleet import Faults, SimulatedFleet

SEED = 20_261_118


def full_size(*, runs: int = 100_000, machines: int = 500, per_second: float = 400.0) -> SimulatedFleet:
    """Every tenth machine is lost within the first minutes, a tenth is cut off for 40 s twice, and the API has a bad time
    twice; answers get lost, orders are doubled, and one in a hundred requests to the store is overtaken."""
    dice = random.Random(SEED)
    faults = Faults(
        lost=tuple((dice.uniform(20, 400), dice.randrange(machines)) for _ in range(machines // 10)),
        cuts=((90.0, 40.0, 0, machines // 10), (300.0, 40.0, machines // 2, machines // 10)),
        storms=((150.0, 20.0, 0.5), (400.0, 10.0, 0.2)),
        lost_answers=0.0005,
        overtaken=0.01,
        doubled_orders=0.01,
    )
    return SimulatedFleet(seed=SEED, runs=runs, machines=machines, per_second=per_second, faults=faults)
