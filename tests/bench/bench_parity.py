"""Drawn scenarios through the real CLI and the fake one: how often a host or the model could tell them apart."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Iterator

from hypothesis import HealthCheck, Phase, given, settings

from tests.bench._common import Row
from tests.real.drawing import Drawn, drawn, played_by_both

_SCENARIOS = 1000


def main() -> Iterator[Row]:
    different: list[Drawn] = []

    @settings(
        max_examples=_SCENARIOS,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn())
    def draw(one: Drawn) -> None:
        real, fake = asyncio.run(played_by_both(one))
        if fake != real:
            different.append(one)
            print(one, file=sys.stderr, flush=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the SDK says which callbacks a drawn scenario can never call
        draw()
    yield Row(f"scenarios the fake CLI plays differently, of {_SCENARIOS:,}", len(different), None, 0, "")
