"""Remember how a workspace looks, and make it look so again."""

from toolkit_workspace.moments.rewrite import rewrite
from toolkit_workspace.moments.snapshot import Snapshot

__all__ = ["Snapshot", "rewrite"]
