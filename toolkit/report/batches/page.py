"""The page around the data of a batch: the report's own design, with tasks instead of a timeline."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from toolkit.report import in_one_scope, page_of, policy_of, shared_part

_SHARED = ("text.js", "figures.js", "theme.js")
_OWN = ("outcomes.js", "charts.js", "failures.js", "tasks.js", "main.js")


def make_batch_page(data: dict[str, Any]) -> str:
    """The whole page for the data of a batch."""
    return page_of("Batch report", _own("page.html"), _style(), _script(), data, live=False)


def batch_policy() -> str:
    """The content security policy of the page."""
    return policy_of(_style(), _script(), live=False)


@cache
def _style() -> str:
    return shared_part("style.css") + _own("batch.css")


@cache
def _script() -> str:
    return in_one_scope([*map(shared_part, _SHARED), *map(_own, _OWN)])


@cache
def _own(name: str) -> str:
    return files("toolkit.report.batches").joinpath("page", name).read_text(encoding="utf-8")
