"""A workspace is a safe copy: allowed host files in a temp dir, and the way back."""

from toolkit.errors import (
    WorkspaceBudgetError,
    WorkspaceConflictError,
    WorkspaceError,
    WorkspaceSecurityError,
)
from toolkit_workspace._copy import Progress
from toolkit_workspace._notes import LeftOut
from toolkit_workspace.mount import HostMount
from toolkit_workspace.plan import MountPlan, Plan
from toolkit_workspace.section import WorkspaceSection

__all__ = [
    "HostMount",
    "LeftOut",
    "MountPlan",
    "Plan",
    "Progress",
    "WorkspaceBudgetError",
    "WorkspaceConflictError",
    "WorkspaceError",
    "WorkspaceSection",
    "WorkspaceSecurityError",
]
