"""What an agent may touch, and the proof that it holds.

The names below are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolkit.sandbox.gate import Gate as Gate
    from toolkit.sandbox.gate_usage import GateUsage as GateUsage
    from toolkit.sandbox.gate_usage import ModelCall as ModelCall
    from toolkit.sandbox.gate_usage import SpendLimit as SpendLimit

_HOMES = {
    "toolkit.sandbox.gate": ("Gate",),
    "toolkit.sandbox.gate_usage": ("GateUsage", "ModelCall", "SpendLimit"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [*_HOME_OF]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'toolkit.sandbox' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
