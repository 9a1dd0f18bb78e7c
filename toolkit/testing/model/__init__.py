"""The model's side of a conversation, written down beforehand: turns, a script of them, and an API that says them.

The names are loaded on first use: writing turns needs no server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.testing.model.request import Request as Request
    from toolkit.testing.model.script import Scripted as Scripted
    from toolkit.testing.model.scripted_api import ScriptedAPI as ScriptedAPI
    from toolkit.testing.model.turns import Status as Status
    from toolkit.testing.model.turns import Turn as Turn
    from toolkit.testing.model.turns import text as text
    from toolkit.testing.model.turns import thinking as thinking
    from toolkit.testing.model.turns import tool_use as tool_use

_HOMES = {
    "toolkit.testing.model.script": ("Scripted",),
    "toolkit.testing.model.request": ("Request",),
    "toolkit.testing.model.scripted_api": ("ScriptedAPI",),
    "toolkit.testing.model.turns": ("Status", "Turn", "text", "thinking", "tool_use"),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
