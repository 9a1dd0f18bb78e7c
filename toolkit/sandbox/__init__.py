"""What an agent may touch, and the proof that it holds.

The names below are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolkit.sandbox.explain import Problem as Problem
    from toolkit.sandbox.explain import explain_file as explain_file
    from toolkit.sandbox.explain import explain_text as explain_text
    from toolkit.sandbox.gate import Gate as Gate
    from toolkit.sandbox.gate import Refusal as Refusal
    from toolkit.sandbox.gate_usage import GateUsage as GateUsage
    from toolkit.sandbox.gate_usage import ModelCall as ModelCall
    from toolkit.sandbox.gate_usage import SpendLimit as SpendLimit
    from toolkit.sandbox.profiles import PROFILES as PROFILES
    from toolkit.sandbox.profiles import profile as profile
    from toolkit.sandbox.settings import SandboxSettings as SandboxSettings

_HOMES = {
    "toolkit.sandbox.explain": ("Problem", "explain_file", "explain_text"),
    "toolkit.sandbox.gate": ("Gate", "Refusal"),
    "toolkit.sandbox.gate_usage": ("GateUsage", "ModelCall", "SpendLimit"),
    "toolkit.sandbox.profiles": ("PROFILES", "profile"),
    "toolkit.sandbox.settings": ("SandboxSettings",),
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
