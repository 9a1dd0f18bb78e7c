"""Whoever works a batch off on a cluster: sends orders, answers workers, keeps the journal, collects what is done."""

from toolkit.fleets.caller.doing import Fleet, reach, work_off_on
from toolkit.fleets.caller.records import JournalStore

__all__ = ["Fleet", "JournalStore", "reach", "work_off_on"]
