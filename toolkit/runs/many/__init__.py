"""Many runs at once: side by side here or in workers, under one spend limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.many.purse import Purse as Purse, as_limits as as_limits, used_of as used_of

_HOMES = {"toolkit.runs.many.purse": "Purse as_limits used_of"}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
