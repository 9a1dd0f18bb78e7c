"""Git for the host's repository: everything is made in a private git folder, and landed at the very end."""

from toolkit_workspace.quarantine.landing import land
from toolkit_workspace.quarantine.names import checked_name, free_place
from toolkit_workspace.quarantine.plumbing import Git, GitFailed
from toolkit_workspace.quarantine.private import Entry, Quarantine, Tree, quarantined, refs_of, sweep

__all__ = [
    "Entry",
    "Git",
    "GitFailed",
    "Quarantine",
    "Tree",
    "checked_name",
    "free_place",
    "land",
    "quarantined",
    "refs_of",
    "sweep",
]
