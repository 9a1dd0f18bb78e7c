"""Which Toolbox is served right now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolkit.tools import Toolbox


class Live:
    """The Toolbox being served; put another one in `current` and the next request uses it."""

    def __init__(self, current: Toolbox) -> None:
        self.current = current
