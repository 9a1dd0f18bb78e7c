"""Folders laid over one another by the kernel (overlayfs): what is written goes to the upper one, the lower stay."""

from toolkit._base.layered.mounting import Layers, Mounted, mount_layers
from toolkit._base.layered.support import odd_path, why_no_layers
from toolkit._base.layered.thread import in_a_thread
from toolkit._base.layered.upper import (
    as_origin,
    is_opaque,
    is_whiteout,
    look_below,
    make_above,
    make_opaque,
    make_whiteout,
    origin_of,
)

__all__ = [
    "Layers",
    "Mounted",
    "as_origin",
    "in_a_thread",
    "is_opaque",
    "is_whiteout",
    "look_below",
    "make_above",
    "make_opaque",
    "make_whiteout",
    "mount_layers",
    "odd_path",
    "origin_of",
    "why_no_layers",
]
