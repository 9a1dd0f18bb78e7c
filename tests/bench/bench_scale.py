"""A simulated batch of 100,000 runs on 500 machines: the real claims, purse and rate, with a simulated clock and network.

Printed beside the rows: how many were refused, how fair it was, how long requests waited. Nothing here is a timing of
the machine that it runs on, but the last row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.bench._common import Row
from tests.scale.full import full_size
from tests.scale.model_api import TOKENS_A_CALL

_MOST_SECONDS = 120.0


def main() -> Iterator[Row]:
    began = time.perf_counter()
    figures = full_size().run()
    taken = time.perf_counter() - began
    print(*figures.lines(), sep="\n", flush=True)
    missing = figures.tasks - figures.ok - figures.aside - figures.out_of_budget
    yield Row("100,000 runs on 500 machines: tasks lost", missing, None, 0, "tasks")
    yield Row("100,000 runs on 500 machines: tasks done by two at a time", len(figures.doubled), None, 0, "tasks")
    yield Row(
        "100,000 runs on 500 machines: most over its part in one run", figures.most_over, None, TOKENS_A_CALL, "tokens"
    )
    yield Row(
        "100,000 runs on 500 machines: rate of the API left unused", 100 * (1 - figures.utilisation), None, 10, "%"
    )
    yield Row("100,000 runs on 500 machines: the simulation", taken, None, _MOST_SECONDS, "s")
