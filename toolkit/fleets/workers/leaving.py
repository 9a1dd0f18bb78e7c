"""What a worker leaves in the store that was named when its caller is gone: how a task ended, and where its run is.

    BASE/left/TASK/N      the answer that nobody was there to hear

So a run that has ended outlives its worker, and whoever goes on with the batch takes it in instead of doing it again.
"""

from __future__ import annotations

import contextlib

from toolkit.errors import RunError
from toolkit.fleets.store import Store, StoreError, open_store
from toolkit.fleets.workers.orders import Answer, Order


def leave(order: Order, answer: Answer) -> None:
    """Leave an answer in the store that the order names, where it names one that can be written."""
    if order.store is None:
        return
    number = str(answer.said["run"]).rpartition(".")[2]
    with contextlib.suppress(StoreError):  # the run's folder tells it, too, as long as the worker is there
        open_store(order.store).create(f"{order.base}/left/{order.task}/{number}", answer.to_bytes())


def left_in(store: Store, base: str) -> dict[str, Answer]:
    """The answers that were left, by the name of their record; what cannot be read is left out.

    Raises:
        StoreError: the store cannot be read.
    """
    found = {}
    for name in store.names(f"{base}/left"):
        with contextlib.suppress(RunError):
            answer = Answer.of(store.read(name) or b"")
            if answer.kind == "unsaid" and str(answer.said.get("run")).endswith(".".join(name.split("/")[-2:])):
                found[name] = answer
    return found
