"""May this tool call run? The policy decides, or a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.asking.guard import Guard as Guard
    from toolkit.runs.asking.modes import CLI_MODES as CLI_MODES, MODES as MODES, OWN_MODES as OWN_MODES
    from toolkit.runs.asking.patterns import Offer as Offer
    from toolkit.runs.asking.policy import Policy as Policy
    from toolkit.runs.asking.remembered import Remembered as Remembered
    from toolkit.runs.asking.run_socket import SOCKET_NAME as SOCKET_NAME, RunClient as RunClient
    from toolkit.runs.asking.subjects import subject_of as subject_of

_HOMES = {
    "toolkit.runs.asking.run_socket": "SOCKET_NAME RunClient",
    "toolkit.runs.asking.guard": "Guard",
    "toolkit.runs.asking.modes": "CLI_MODES MODES OWN_MODES",
    "toolkit.runs.asking.patterns": "Offer",
    "toolkit.runs.asking.policy": "Policy",
    "toolkit.runs.asking.remembered": "Remembered",
    "toolkit.runs.asking.subjects": "subject_of",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
