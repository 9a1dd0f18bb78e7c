"""What happens in a run, and what it came to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.outcome.cause import detail_lines as detail_lines, safe_lines as safe_lines
    from toolkit.runs.outcome.codes import (
        LIMIT_CODES as LIMIT_CODES,
        MESSAGES as MESSAGES,
        End as End,
        code_of as code_of,
    )
    from toolkit.runs.outcome.events import KINDS as KINDS, as_line as as_line
    from toolkit.runs.outcome.fold import Fold as Fold, never_began as never_began, result_of as result_of

_HOMES = {
    "toolkit.runs.outcome.cause": "detail_lines safe_lines",
    "toolkit.runs.outcome.codes": "LIMIT_CODES MESSAGES End code_of",
    "toolkit.runs.outcome.events": "KINDS as_line",
    "toolkit.runs.outcome.fold": "Fold never_began result_of",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
