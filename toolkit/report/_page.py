"""The page around the data: one file in which nothing runs but our own script.

The policy names our script and our style by their hashes and allows nothing else: no
other script, no handler in an attribute, no picture, no frame, no form, no request
(the live page may ask its own server for events). Markup made from text is refused
too (Trusted Types): the script could not do it by mistake. The data is JSON in a block
no browser executes, with every character escaped that could end that block.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from functools import cache
from importlib.resources import files
from typing import Any

SCRIPTS = (
    *("text", "model", "figures", "chart", "colour", "prose", "rows", "timeline"),
    *("changes", "details", "header", "finder", "keys", "follow", "main"),
)
"""The parts of the script, in the order in which they build on one another."""


def make_page(data: dict[str, Any]) -> str:
    """The whole page for the data of a run."""
    page = _part("page.html")
    for name, text in (
        ("policy", policy(live=data["live"])),
        ("style", style()),
        ("script", script()),
        ("data", embedded(data)),
    ):
        before, found, after = page.partition("{{" + name + "}}")
        assert found, f"page.html has no place for its {name}"
        page = before + text + after
    return page


def policy(*, live: bool) -> str:
    """The content security policy of the page."""
    rules = [
        "default-src 'none'",
        f"script-src {_hash(script())}",
        f"style-src {_hash(style())}",
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
    parts = "\n".join(_part(f"{name}.js") for name in SCRIPTS)
    return f'(function () {{\n"use strict";\n{parts}\n}})();'


@cache
def style() -> str:
    """Our style sheet."""
    return _part("style.css")


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
