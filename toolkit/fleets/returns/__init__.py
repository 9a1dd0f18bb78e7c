"""A run that was done on a worker comes back to its caller, as a stored run like any other.

    bring(run, store)                     on the worker: what the caller needs of it goes into the store
    take_in(brought, store, home=…)       on the caller's machine: the same run, stored there

What comes back is not believed: it is bounded, compared with its hash, and read as data. What it is compared with and
applied to is what the caller packed itself.
"""

from toolkit.fleets.returns.bring import MOST_RETURNED, Brought, bring
from toolkit.fleets.returns.take_in import forget_brought, take_in

__all__ = ["MOST_RETURNED", "Brought", "bring", "forget_brought", "take_in"]
