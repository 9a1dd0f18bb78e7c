"""`toolkit doctor` itself: what was found, a line each."""

from __future__ import annotations

import os

from toolkit.cli.quick.saying import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolkit.doctor import Finding


def is_project() -> bool:
    """Whether this folder is one that a run would be started in: then what an agent would have there is looked at."""
    return any(map(os.path.exists, (".git", "toolkit.toml")))


def show(found: Iterable[Finding]) -> int:
    """Print each finding as soon as it is there, and return the exit code."""
    stops = False
    for finding in found:
        mark = "ok" if finding.ok else "stops" if finding.stops else "note"
        say(f"{mark:<6}{finding.name:<20}{finding.found}")
        if not finding.ok and finding.fix:
            say(f"{'':<26}→ {finding.fix}")
        stops = stops or would_stop(finding)
    return int(stops)


def would_stop(finding: Finding) -> bool:
    """Whether no run can start with this."""
    return finding.stops and not finding.ok
