"""Dask between a caller and its workers: orders go out, answers come back, and workers reach the caller's store."""

from toolkit.fleets.engine.asking import CallerStore, deliver
from toolkit.fleets.engine.cluster import Client, Cluster, is_lost
from toolkit.fleets.engine.crew import Crew, look_at
from toolkit.fleets.engine.on_dask import do_order, give_run
from toolkit.fleets.engine.stopping import stop_there

__all__ = [
    "CallerStore",
    "Client",
    "Cluster",
    "Crew",
    "deliver",
    "do_order",
    "give_run",
    "is_lost",
    "look_at",
    "stop_there",
]
