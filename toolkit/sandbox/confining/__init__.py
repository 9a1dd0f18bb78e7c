"""A CLI in a jail: what is asked for is checked, then it is opened, proven, watched and closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.sandbox.confining.confine import confine as confine
    from toolkit.sandbox.confining.confinement import Confinement as Confinement, see_through as see_through
    from toolkit.sandbox.confining.environment import checked_env as checked_env
    from toolkit.sandbox.confining.litter import LITTER as LITTER, remove_litter as remove_litter

_HOMES = {
    "toolkit.sandbox.confining.confine": "confine",
    "toolkit.sandbox.confining.confinement": "Confinement see_through",
    "toolkit.sandbox.confining.environment": "checked_env",
    "toolkit.sandbox.confining.litter": "LITTER remove_litter",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
