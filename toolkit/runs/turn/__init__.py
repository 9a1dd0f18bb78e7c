"""One process of the CLI: started in its jail, asked turn by turn, its messages made into events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.turn.engine import Engine as Engine
    from toolkit.runs.turn.translate import Meter as Meter, Translator as Translator

_HOMES = {
    "toolkit.runs.turn.engine": ("Engine",),
    "toolkit.runs.turn.translate": (
        "Meter",
        "Translator",
    ),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
