"""`Retry`: what is tried again because it is not the agent's fault, how often, and after how long."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit._base.words import did_you_mean
from toolkit.runs.kinds import OptionError, check_names, number, shown, wrong
from toolkit.runs.outcome.codes import MESSAGES, Code

CAN_BE_RETRIED: tuple[Code, ...] = ("throttled", "api_error", "crashed", "internal")
"""Ends that another try may mend. All others would be the same again, or are a limit or a decision of the caller's."""
_USUAL: tuple[Code, ...] = ("throttled", "api_error", "crashed")
_EXAMPLE = 'Write for example: retry=3, or retry=Retry(times=3, on=("throttled", "crashed"))'


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again, in the same workspace and conversation, when something failed that is not the agent's fault.

    Raises:
        OptionError: an argument that is not what it may be, or a code that another try cannot mend.
    """

    times: int = 3
    """How often at most, for one prompt with all its attempts."""
    on: Sequence[str] = _USUAL
    """The codes of ends after which it is tried again."""
    _: dataclasses.KW_ONLY
    wait: float = 5.0
    """Seconds before the first time; twice as many before each further one. The model API may ask for more."""
    longest_wait: float = 600.0
    """Where the model API asks for more than this, it is not tried again."""

    def __new__(cls, *args: Any, **options: Any) -> Retry:
        """Answer a name that is no argument's in words, before Python does."""
        known = [one.name for one in dataclasses.fields(cls)]
        check_names("Retry", options, known, dict.fromkeys(("attempts", "retries", "tries", "max"), "times=…"))
        return object.__new__(cls)

    def __post_init__(self) -> None:
        if isinstance(self.times, bool) or not isinstance(self.times, int) or self.times < 1:
            raise wrong("retry times", self.times, "it is a whole number above zero", _EXAMPLE)
        if isinstance(self.on, str) or not isinstance(self.on, Sequence) or not self.on:
            raise wrong("retry on", self.on, "it is a list of codes", _EXAMPLE)
        for code in self.on:
            if not isinstance(code, str) or code not in CAN_BE_RETRIED:
                raise _never(code)
        object.__setattr__(self, "on", tuple(self.on))
        number("retry wait", self.wait)
        number("retry longest_wait", self.longest_wait)

    def delay(self, before: int, asked: float | None) -> float | None:
        """Seconds to wait after so many tries again, where the API asked for this; None where it asked for too long."""
        if asked is not None and asked > self.longest_wait:
            return None
        # A little apart from others that failed at the same moment.
        own = min(self.longest_wait, self.wait * 2.0**before) * random.uniform(1.0, 1.2)
        return max(own, asked or 0.0)


def _never(code: Any) -> OptionError:
    known = isinstance(code, str) and code in MESSAGES
    why = (
        "trying again does not mend it" if known else f"there is no such code{did_you_mean(str(code), CAN_BE_RETRIED)}"
    )
    return OptionError("retry", f"retry on={shown(code)}: {why}", fix=f"It can be: {', '.join(CAN_BE_RETRIED)}")


def as_retry(name: str, value: Any) -> Retry | None:
    """The rule for the option: a Retry, how often, or a mapping with the same names."""
    if value is None or isinstance(value, Retry):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Retry(value)
    if isinstance(value, Mapping):
        known = [one.name for one in dataclasses.fields(Retry) if one.name != "_"]
        for key in value:
            if key not in known:
                raise wrong(name, value, f"it has no '{key}'{did_you_mean(str(key), known)}", _EXAMPLE)
        return Retry(**value)
    raise wrong(name, value, "it is Retry(…), or how often to try again", _EXAMPLE)
