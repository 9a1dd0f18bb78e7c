"""16 real runs against an API that takes 2 requests a second: with one rate, and each by itself as without a batch.

The time is held against what the API's limit alone would need. Beside it: a run of somebody else on the same machine.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator

from tests.batches.limited import LimitedModel
from tests.bench._common import Row
from toolkit.fleets.rate import Rate
from toolkit.runs import RunSpec, run, run_many
from toolkit.testing import ScriptedAPI

_RUNS = 16
_PER_SECOND = 2.0


def main() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as home:
        os.environ["TOOLKIT_HOME"] = home
        alone, _, model = asyncio.run(_batch(None))
        print(f"each by itself: {alone:.0f} s, {model.refused} of {model.asked} requests refused", flush=True)
        together, own, model = asyncio.run(_batch(Rate()))
        print(f"one rate: {together:.0f} s, {model.refused} of {model.asked} requests refused", flush=True)
        floor = (model.asked - model.refused) / _PER_SECOND
        yield Row("16 runs, 2 requests a second: one rate / each by itself", together, alone, 1.0, "s")
        yield Row("16 runs, 2 requests a second: one rate / the API's limit alone", together, floor, 2.0, "s")
        yield Row("16 runs, 2 requests a second: requests refused", 100 * model.refused / model.asked, None, 25, "%")
        yield Row("a run of one's own meanwhile", own, None, 60, "s")


async def _batch(rate: Rate | None) -> tuple[float, float, LimitedModel]:
    """Seconds of 16 runs, those of a run that begins in the midst of them, and what the API saw."""
    model = LimitedModel(_PER_SECOND)
    with ScriptedAPI(otherwise=model, strict=False) as api:
        paces = [None if rate is None else rate.of_run() for _ in range(_RUNS)]
        specs = [RunSpec(f"Task {n}", api_url=api.url, api_key="none", pace=pace) for n, pace in enumerate(paces)]
        began = time.perf_counter()
        batch = asyncio.ensure_future(run_many(specs, concurrency=_RUNS))
        await asyncio.sleep(10)
        started = time.perf_counter()
        await run("My own.", api_url=api.url, api_key="none")
        own = time.perf_counter() - started
        await batch
        return time.perf_counter() - began, own, model
