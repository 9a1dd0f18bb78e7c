"""What happens where a run is done: a worker takes an order, claims its task, does the run and tells what it used."""

from toolkit.fleets.workers.entry import Worker, work_on
from toolkit.fleets.workers.kept import Keeper
from toolkit.fleets.workers.leaving import left_in
from toolkit.fleets.workers.orders import MARK, Answer, Order, pack_spec
from toolkit.fleets.workers.returning import Sent, drop_run, send_back
from toolkit.fleets.workers.stopping import stop_here
from toolkit.fleets.workers.telling import tell_all

__all__ = [
    "MARK",
    "Answer",
    "Keeper",
    "Order",
    "Sent",
    "Worker",
    "drop_run",
    "left_in",
    "pack_spec",
    "send_back",
    "stop_here",
    "tell_all",
    "work_on",
]
