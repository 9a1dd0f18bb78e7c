"""Whoever calls for a batch, as a process that can be killed: python -m tests.fleets.calling BATCH ADDRESS LEASE [STORE]."""

from __future__ import annotations

import asyncio
import sys

from tests.fleets.play import make
from toolkit.fleets.caller import Fleet, work_off_on
from toolkit.runs.batches import find_batch


def main() -> None:
    name, address, lease = sys.argv[1:4]
    store = sys.argv[4] if len(sys.argv) > 4 else None
    fleet = Fleet(
        address, lease=float(lease), patience=60, store=store, on_word=lambda word: print(word, file=sys.stderr)
    )
    standings = asyncio.run(work_off_on(find_batch(name), make, fleet))
    states = {standing.state for standing in standings.values()}
    print(*sorted(states), flush=True)
    sys.exit(states != {"ok"})


if __name__ == "__main__":
    main()
