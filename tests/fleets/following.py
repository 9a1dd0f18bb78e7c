"""A caller that may be followed by another: python -m tests.fleets.following NAME ADDRESS STORE COUNT PROMPT [TOKENS].

It begins the batch, goes on with it, or takes it over from the store; how every task stands then is printed as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from tests.fleets.play import make, tasks
from toolkit.errors import RunError
from toolkit.fleets.caller import Fleet, work_off_on
from toolkit.fleets.journals import take_over
from toolkit.runs.batches import Batch, find_batch

LEASE = "FOLLOWING_LEASE"
"""The variable for the lease in seconds; 4 if not given."""


def main() -> None:
    name, address, store, count, prompt = sys.argv[1:6]
    tokens = int(sys.argv[6]) if len(sys.argv) > 6 else None
    wanted = tasks(int(count), prompt)
    try:
        batch = find_batch(name)
    except RunError:
        batch = take_over(store, name, wanted) or Batch.begin(name, wanted)
    fleet = Fleet(
        address,
        lease=float(os.environ.get(LEASE, "4")),
        patience=60,
        store=store,
        on_word=lambda word: print(word, file=sys.stderr),
    )
    standings = asyncio.run(work_off_on(batch, make, fleet, tokens=tokens))
    for one in standings.values():
        print(one.task.id, one.state, one.ends, file=sys.stderr)
    print(json.dumps({one.task.id: [one.state, one.runs, one.tokens] for one in standings.values()}))


if __name__ == "__main__":
    main()
