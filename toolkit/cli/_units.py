"""Numbers as people type them: durations (90s, 10m, 1h30m) and amounts."""

from __future__ import annotations

import re
from typing import Any

import click

_PART = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Duration(click.ParamType[float]):
    """A length of time in seconds: 90, 90s, 10m, 1h30m, 30d."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        text = str(value).strip().lower()
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return float(text)
        parts = _PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            self.fail(f"{value!r} is no length of time: write 90s, 10m or 1h30m", param, ctx)
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
