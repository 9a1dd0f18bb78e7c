"""Folders laid over one another by the kernel (overlayfs): what is written goes to the upper one, the lower stay."""

from toolkit._base.layered.mounting import Layers, Mounted, mount_layers
from toolkit._base.layered.support import odd_path, why_no_layers
from toolkit._base.layered.thread import in_a_thread
from toolkit._base.layered.upper import is_opaque, is_whiteout, look_below, make_above, make_opaque, make_whiteout

__all__ = [
    "Layers",
    "Mounted",
    "in_a_thread",
    "is_opaque",
    "is_whiteout",
    "look_below",
    "make_above",
    "make_opaque",
    "make_whiteout",
    "mount_layers",
    "odd_path",
    "why_no_layers",
]
