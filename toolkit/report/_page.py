"""The page around the data: one file in which nothing runs but our own script.

The policy names our script and our style by their hashes and allows nothing else: no
other script, no handler in an attribute, no frame, no form, no request, and no picture
but those that the page itself holds (the live page may ask its own server for events). Markup made from text is refused
too (Trusted Types): the script could not do it by mistake. The data is JSON in a block
no browser executes, with every character escaped that could end that block.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit._base.files import refused_at, write_whole
from toolkit.errors import RunError
from toolkit.report._data import run_data

if TYPE_CHECKING:
    from toolkit.runs import StoredRun

SCRIPTS = (
    *("text", "model", "figures", "chart", "colour", "prose", "job", "rows", "timeline"),
    *("changes", "details", "header", "finder", "theme", "keys", "follow", "main"),
)
"""The parts of the script, in the order in which they build on one another."""


def render_report(run: StoredRun) -> str:
    """The whole page for a run; for one that is still running, what there is so far.

    Raises:
        RunError: the run cannot be read.
    """
    return make_page(run_data(run))


def write_report(run: StoredRun, file: Path | str | None = None) -> Path:
    """Write the page to a file (`report.html` in the run's own folder if not given) and give its path.

    The file is replaced whole, and only its owner may read it: a run can hold secrets.

    Raises:
        RunError: the run cannot be read, or the file cannot be written.
    """
    target = Path(file).absolute() if file is not None else run.folder / "report.html"
    page = render_report(run)
    try:
        write_whole(target, page)
    except OSError as error:
        raise RunError(
            f"the report cannot be written: {error.strerror}",
            where=[refused_at(target, error)],
            fix="Name another file: -o FILE",
        ) from error
    return target


def make_page(data: dict[str, Any]) -> str:
    """The whole page for the data of a run."""
    return page_of("Run report", _part("page.html"), _part("style.css"), script(), data, live=data["live"])


def policy(*, live: bool) -> str:
    """The content security policy of a run's page."""
    return policy_of(_part("style.css"), script(), live=live)


def page_of(title: str, body: str, style: str, code: str, data: Any, *, live: bool) -> str:
    """A page in which nothing runs but `code`; `live` lets it ask its own server."""
    frame = _part("frame.html")
    parts = {"policy": policy_of(style, code, live=live), "title": title, "style": style, "body": body, "script": code}
    # The data comes last: what it holds is never searched for a place.
    for name, text in (parts | {"data": embedded(data)}).items():
        before, found, after = frame.partition("{{" + name + "}}")
        assert found, f"the page has no place for its {name}"
        frame = before + text + after
    return frame


def policy_of(style: str, code: str, *, live: bool) -> str:
    """The content security policy of a page with this style and this script."""
    rules = [
        "default-src 'none'",
        f"script-src {_hash(code)}",
        f"style-src {_hash(style)}",
        "img-src data:",
        *(["connect-src 'self'"] if live else []),
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    return "; ".join(rules)


def embedded(data: Any) -> str:
    """JSON that can stand inside a script element: pure ASCII without `<`, `>` and `&`."""
    try:
        text = json.dumps(data, separators=(",", ":"), allow_nan=False, default=str)
    except ValueError:  # a tool may answer NaN, which no browser reads
        text = json.dumps(_finite(data), separators=(",", ":"), allow_nan=False, default=str)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def script() -> str:
    """Our script: all parts, in one scope of their own."""
    return in_one_scope(_part(f"{name}.js") for name in SCRIPTS)


def in_one_scope(parts: Iterable[str]) -> str:
    """The parts of a script as one, which leaves nothing behind in the page."""
    code = "\n".join(parts)
    return f'(function () {{\n"use strict";\n{code}\n}})();'


def shared_part(name: str) -> str:
    """A part of the page's style or script that other pages of ours use."""
    return _part(name)


@cache
def _part(name: str) -> str:
    return files("toolkit.report").joinpath("page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _finite(value: Any) -> Any:
    """The same value with numbers that JSON does not have written out."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
