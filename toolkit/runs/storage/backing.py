"""Why a run needs all files in the folder of its workspace, so that this cannot be an overlay.

Inside a jail nobody can tell the two apart. What runs outside of it, by the host's paths, sees only what was written.
"""

from __future__ import annotations

from toolkit.runs.spec import RunSpec

_THROUGH_HANDLES = ("toolkit_servers.ready.files", "toolkit_servers.ready.planning", "toolkit_servers.ready.notes")
"""Our own tools that reach files through handles, or none at all: for them an overlay's folder is as good."""


def why_whole(spec: RunSpec) -> str:
    """The reason in words; empty where an overlay does."""
    if spec.transport is not None:
        return "a transport works without a jail"
    if spec.tools and not _can_reach_through(spec):
        return "tools of yours work outside of the jail, on the folder itself"
    if spec.protect:
        return "protected paths are compared on the host"
    if spec.verify is not None and not isinstance(spec.verify.check, str):
        return "a function verifies the folder itself"
    return ""


def _can_reach_through(spec: RunSpec) -> bool:
    from toolkit.tools import Toolbox

    boxes = [box for box in spec.tools if isinstance(box, Toolbox)]
    if len(boxes) < len(spec.tools):
        return False  # what is loaded later may do anything
    return all(tool.function.__module__.startswith(_THROUGH_HANDLES) for box in boxes for tool in box)
