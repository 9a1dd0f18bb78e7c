"""An agent's changes as commits: a branch of the host's repository, or mails for `git am`."""

from toolkit_workspace.delivering.commits import Packer
from toolkit_workspace.delivering.deliver import (
    Delivered,
    DeliveredBranch,
    Delivery,
    check_branch,
    deliver_branch,
    deliver_mailbox,
)
from toolkit_workspace.delivering.messages import Signature, subject_of
from toolkit_workspace.quarantine import checked_name

__all__ = [
    "Delivered",
    "DeliveredBranch",
    "Delivery",
    "Packer",
    "Signature",
    "check_branch",
    "checked_name",
    "deliver_branch",
    "deliver_mailbox",
    "subject_of",
]
