"""Which host files belong to a workspace: allowed roots, mounts, patterns, links."""

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names
from toolkit_workspace.selecting.fingerprint import fingerprint_of
from toolkit_workspace.selecting.plan import MountPlan, Plan, check_budgets, plan_source
from toolkit_workspace.selecting.secrets import Secret, left_secrets_text, secrets_of, secrets_text
from toolkit_workspace.selecting.sources import AllowedRoots, Source, check_landings, close_sources, open_sources
from toolkit_workspace.selecting.tally import LeftBehind, LeftOut, MountSummary, Seen, Tally, over_budget, prompt_text
from toolkit_workspace.selecting.unread import left_unread_text
from toolkit_workspace.selecting.walk import Folder, Walk

if TYPE_CHECKING:
    from toolkit_workspace.selecting.pattern import GitPattern as GitPattern

__getattr__, __dir__, _ = lazy_names(__name__, {"toolkit_workspace.selecting.pattern": "GitPattern"})
__all__ = [
    "AllowedRoots",
    "Folder",
    "GitPattern",
    "LeftBehind",
    "LeftOut",
    "MountPlan",
    "MountSummary",
    "Plan",
    "Secret",
    "Seen",
    "Source",
    "Tally",
    "Walk",
    "check_budgets",
    "check_landings",
    "close_sources",
    "fingerprint_of",
    "left_secrets_text",
    "left_unread_text",
    "open_sources",
    "over_budget",
    "plan_source",
    "prompt_text",
    "secrets_of",
    "secrets_text",
]
