"""What the launcher does around the agent: before the first prompt, a setup.

The names below are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.job.setting_up import SettingUp as SettingUp
    from toolkit.runs.job.setup import Setup as Setup, SetupFailedError as SetupFailedError

_HOMES = {
    "toolkit.runs.job.setting_up": "SettingUp",
    "toolkit.runs.job.setup": "Setup SetupFailedError",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
