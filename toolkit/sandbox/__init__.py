"""What an agent may touch, and the proof that it holds.

The names below are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.sandbox._folders import python_environment as python_environment
    from toolkit.sandbox.checks import CheckReport as CheckReport
    from toolkit.sandbox.checks import CheckRow as CheckRow
    from toolkit.sandbox.checks import check as check
    from toolkit.sandbox.confinement import Confinement as Confinement
    from toolkit.sandbox.confinement import confine as confine
    from toolkit.sandbox.explain import Problem as Problem
    from toolkit.sandbox.explain import explain_file as explain_file
    from toolkit.sandbox.explain import explain_text as explain_text
    from toolkit.sandbox.gate import Gate as Gate
    from toolkit.sandbox.gate import Refusal as Refusal
    from toolkit.sandbox.gate_usage import GateUsage as GateUsage
    from toolkit.sandbox.gate_usage import ModelCall as ModelCall
    from toolkit.sandbox.gate_usage import SpendLimit as SpendLimit
    from toolkit.sandbox.jail import Jail as Jail
    from toolkit.sandbox.limits import JailLimits as JailLimits
    from toolkit.sandbox.limits import LimitState as LimitState
    from toolkit.sandbox.profiles import PROFILES as PROFILES
    from toolkit.sandbox.profiles import profile as profile
    from toolkit.sandbox.settings import SandboxSettings as SandboxSettings
    from toolkit.sandbox.shell import ShellOptions as ShellOptions
    from toolkit.sandbox.shell import ShellRun as ShellRun
    from toolkit.sandbox.shell import run_confined as run_confined

_HOMES = {
    "toolkit.sandbox._folders": ("python_environment",),
    "toolkit.sandbox.checks": ("CheckReport", "CheckRow", "check"),
    "toolkit.sandbox.confinement": ("Confinement", "confine"),
    "toolkit.sandbox.explain": ("Problem", "explain_file", "explain_text"),
    "toolkit.sandbox.gate": ("Gate", "Refusal"),
    "toolkit.sandbox.gate_usage": ("GateUsage", "ModelCall", "SpendLimit"),
    "toolkit.sandbox.jail": ("Jail",),
    "toolkit.sandbox.limits": ("JailLimits", "LimitState"),
    "toolkit.sandbox.profiles": ("PROFILES", "profile"),
    "toolkit.sandbox.settings": ("SandboxSettings",),
    "toolkit.sandbox.shell": ("ShellOptions", "ShellRun", "run_confined"),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
