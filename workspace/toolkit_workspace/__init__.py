"""A workspace is a safe copy: allowed host files in a temp dir, and the way back."""

from toolkit.errors import WorkspaceBudgetError, WorkspaceConflictError, WorkspaceError, WorkspaceSecurityError
from toolkit_workspace.applying import Applied, AppliedChange
from toolkit_workspace.changes import Change, Changes
from toolkit_workspace.copying import Progress
from toolkit_workspace.found import clean_workspaces as clean_workspaces, find_workspaces as find_workspaces
from toolkit_workspace.moments import Snapshot
from toolkit_workspace.mount import HostMount, without_places as without_places
from toolkit_workspace.section import WorkspaceSection
from toolkit_workspace.selecting import (
    LeftOut,
    MountPlan,
    Plan,
    Secret,
    left_secrets_text as left_secrets_text,
    secrets_text as secrets_text,
)
from toolkit_workspace.shown import Shown as Shown
from toolkit_workspace.watching import WatchEvent, Watching
from toolkit_workspace.workspace import Workspace as Workspace, default_parent as default_parent

# What users may import. `Shown`, `without_places`, `Workspace` and its functions are for the rooms above this one.
__all__ = [
    "Applied",
    "AppliedChange",
    "Change",
    "Changes",
    "HostMount",
    "LeftOut",
    "MountPlan",
    "Plan",
    "Progress",
    "Secret",
    "Snapshot",
    "WatchEvent",
    "Watching",
    "WorkspaceBudgetError",
    "WorkspaceConflictError",
    "WorkspaceError",
    "WorkspaceSection",
    "WorkspaceSecurityError",
]
