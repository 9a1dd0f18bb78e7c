"""A run's work as git: what its commits say, how they get out of the jail, and a summary for a pull request.

The names below are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.delivery.deliver import (
        DeliveryOptions as DeliveryOptions,
        default_name as default_name,
        deliver_run as deliver_run,
        why_not as why_not,
    )
    from toolkit.runs.delivery.pull_request import pull_request as pull_request

_HOMES = {
    "toolkit.runs.delivery.deliver": "DeliveryOptions default_name deliver_run why_not",
    "toolkit.runs.delivery.pull_request": "pull_request",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
