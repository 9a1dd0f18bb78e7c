"""What would stop a run on this machine, what an agent would have in a project, and whether the key works.

The names below are loaded on first use.
"""

from __future__ import annotations

from toolkit._base.lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolkit.doctor.finding import Finding as Finding
    from toolkit.doctor.machine import examine as examine
    from toolkit.doctor.online import examine_key as examine_key
    from toolkit.doctor.project import examine_project as examine_project

_HOMES = {
    "toolkit.doctor.finding": "Finding",
    "toolkit.doctor.machine": "examine",
    "toolkit.doctor.online": "examine_key",
    "toolkit.doctor.project": "examine_project",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
