"""The page itself: the report's own design, with a list instead of a timeline."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from toolkit.report import in_one_scope, page_of, policy_of, shared_part

_SHARED = ("text.js", "figures.js", "theme.js")
_OWN = ("batches.js", "costs.js", "list.js", "drawer.js", "questions.js", "main.js")


def make_ui_page(rows: list[dict[str, Any]], batches: list[dict[str, Any]], *, live: bool) -> str:
    """The page with these rows and lines; `live` lets it follow its server and act on runs."""
    data = {"rows": rows, "batches": batches, "live": live}
    return page_of("Runs", _own("page.html"), _style(), _script(), data, live=live)


def ui_policy() -> str:
    """The content security policy of the live page."""
    return policy_of(_style(), _script(), live=True)


@cache
def _style() -> str:
    return shared_part("style.css") + _own("ui.css")


@cache
def _script() -> str:
    return in_one_scope([*map(shared_part, _SHARED), *map(_own, _OWN)])


@cache
def _own(name: str) -> str:
    return files("toolkit.ui").joinpath("page", name).read_text(encoding="utf-8")
