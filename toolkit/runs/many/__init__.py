"""Many runs side by side, under one spend limit, here or in the workers of an executor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.many.purse import Purse as Purse

_HOMES = {
    "toolkit.runs.many.purse": ("Purse",),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
