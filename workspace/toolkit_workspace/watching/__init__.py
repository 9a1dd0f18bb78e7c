"""Follow a workspace and its host while an agent works."""

from toolkit_workspace.watching.from_host import HostToWorkspace
from toolkit_workspace.watching.once import bring_in
from toolkit_workspace.watching.to_events import WorkspaceToEvents
from toolkit_workspace.watching.watch import Direction, WatchEvent, Watching, Work

__all__ = ["Direction", "HostToWorkspace", "WatchEvent", "Watching", "Work", "WorkspaceToEvents", "bring_in"]
