"""What the agent reads between two attempts, and what the owner reads of the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolkit._base.words import safe_line, safe_name

if TYPE_CHECKING:
    from toolkit.runs.attempts.judging import Judgement
    from toolkit.runs.job.verify import Verify

GO_ON = "The work was interrupted by a failure that is not yours. Go on where you stopped."
_LIMITS = {"memory": "memory", "cpu_seconds": "processor time", "workspace_bytes": "disk space"}


def to_mend(verify: Verify, found: Judgement, attempt: int, protected: Sequence[str]) -> str:
    """The next prompt after a verification that failed."""
    left = verify.attempts - attempt
    tries = "This is the last try." if left == 1 else f"{left} tries are left."
    lines = [f"The work is not done yet. It was verified outside of your control: {_how(verify, found)}."]
    if found.output:
        lines.append(f"The end of the output:\n\n```\n{found.output}\n```")
    if protected:
        lines.append(f"Read-only, and not to be changed: {', '.join(map(safe_name, protected))}.")
    lines.append(f"Find the cause and mend it. Processes that you had left running have ended. {tries}")
    return "\n\n".join(lines)


def why_unverified(verify: Verify, found: Judgement, attempts: int) -> str:
    """Why the work counts as not done, in one line."""
    if found.error is not None:
        return f"it could not be verified: {found.error}"
    times = "" if attempts == 1 else f", {attempts} attempts"
    last = [line.strip() for line in found.output.splitlines() if line.strip()][-1:]
    return f"{_how(verify, found)}{times}{': ' + safe_line(last[0], 160) if last else ''}"


def _how(verify: Verify, found: Judgement) -> str:
    name = f"`{verify.name}`" if isinstance(verify.check, str) else verify.name
    if found.ended_by == "deadline":
        return f"{name} was ended because it took too long"
    if found.ended_by is not None:
        return f"{name} was ended because it used too much: {_LIMITS.get(found.ended_by, found.ended_by)}"
    return f"{name} failed" if found.exit_code is None else f"{name} ended with exit code {found.exit_code}"
