"""A workspace is a safe copy: allowed host files in a temp dir, and the way back.

The names below are loaded on first use.
"""

from __future__ import annotations

from toolkit._base.lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolkit.errors import (
        WorkspaceBudgetError as WorkspaceBudgetError,
        WorkspaceConflictError as WorkspaceConflictError,
        WorkspaceError as WorkspaceError,
        WorkspaceSecurityError as WorkspaceSecurityError,
    )
    from toolkit_workspace.applying import Applied as Applied, AppliedChange as AppliedChange
    from toolkit_workspace.changes import Change as Change, Changes as Changes
    from toolkit_workspace.copying import Progress as Progress
    from toolkit_workspace.found import clean_workspaces as clean_workspaces, find_workspaces as find_workspaces
    from toolkit_workspace.moments import Snapshot as Snapshot
    from toolkit_workspace.mount import HostMount as HostMount, without_places as without_places
    from toolkit_workspace.section import WorkspaceSection as WorkspaceSection
    from toolkit_workspace.selecting import (
        LeftOut as LeftOut,
        MountPlan as MountPlan,
        Plan as Plan,
        Secret as Secret,
        left_secrets_text as left_secrets_text,
        left_unread_text as left_unread_text,
        secrets_text as secrets_text,
    )
    from toolkit_workspace.shown import Shown as Shown
    from toolkit_workspace.state import layers_of as layers_of
    from toolkit_workspace.travelling.arrived import ArrivedSection as ArrivedSection
    from toolkit_workspace.watching import WatchEvent as WatchEvent, Watching as Watching
    from toolkit_workspace.workspace import Workspace as Workspace, default_parent as default_parent

_HOMES = {
    "toolkit.errors": "WorkspaceBudgetError WorkspaceConflictError WorkspaceError WorkspaceSecurityError",
    "toolkit_workspace.applying": "Applied AppliedChange",
    "toolkit_workspace.changes": "Change Changes",
    "toolkit_workspace.copying": "Progress",
    "toolkit_workspace.moments": "Snapshot",
    "toolkit_workspace.found": "clean_workspaces find_workspaces",
    "toolkit_workspace.mount": "HostMount without_places",
    "toolkit_workspace.section": "WorkspaceSection",
    "toolkit_workspace.selecting": "LeftOut MountPlan Plan Secret left_secrets_text left_unread_text secrets_text",
    "toolkit_workspace.shown": "Shown",
    "toolkit_workspace.state": "layers_of",
    "toolkit_workspace.travelling.arrived": "ArrivedSection",
    "toolkit_workspace.watching": "WatchEvent Watching",
    "toolkit_workspace.workspace": "Workspace default_parent",
}

__getattr__, __dir__, _ = lazy_names(__name__, _HOMES)
# What users may import. `ArrivedSection`, `Shown`, `without_places`, `Workspace` and its functions are for the rooms
# above this one.
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
