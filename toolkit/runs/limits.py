"""What a run may use up: time, turns, tokens, money, and the machine."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from toolkit.errors import RunError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one run. Time, turns, tokens and money are unlimited unless given; the machine has the jail's defaults.

    Raises:
        RunError: a limit that is negative, zero or not a number.
    """

    seconds: float | None = None
    """Wall-clock time from the prompt on."""
    turns: int | None = None
    """Model calls of the main conversation that ask for tools."""
    tokens: int | None = None
    """All tokens of all model calls, read from cache or not."""
    usd: float | None = None
    """Cost as the CLI counts it."""
    memory_bytes: int | None = None
    processes: int | None = None
    file_bytes: int | None = None
    """The largest single file."""
    workspace_bytes: int | None = None
    """All files of the workspace together."""
    cpu_seconds: int | None = None
    tmp_bytes: int | None = None
    """The size of /tmp inside the jail."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            whole = "int" in str(field.type) and "float" not in str(field.type)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not value > 0 or not math.isfinite(value) or (whole and value != int(value)):
                kind = "a whole number above zero" if whole else "a number above zero"
                raise RunError(f"Limits({field.name}={value!r}): a limit is {kind}", fix="Leave it out for no limit")

    def of_the_machine(self) -> dict[str, int]:
        """The limits that were given and that the jail holds."""
        names = ("memory_bytes", "processes", "file_bytes", "workspace_bytes", "cpu_seconds", "tmp_bytes")
        return {name: int(value) for name in names if (value := getattr(self, name)) is not None}
