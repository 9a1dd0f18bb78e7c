"""Which resource a URI means, and the values in it. mcp matches templates and knows unsafe paths."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mcp.shared.path_security import contains_path_traversal, is_absolute_path
from mcp.shared.uri_template import UriTemplate

from toolkit._base.words import nearest, safe_name
from toolkit.tools import Contents

if TYPE_CHECKING:
    from toolkit.tools import ServedResource, Toolbox, ToolContext


async def read_resource(box: Toolbox, uri: str, context: ToolContext | None = None) -> Contents:
    """What is behind a URI, or why there is nothing."""
    found = find_resource(box, uri)
    if found is None:
        near = nearest(uri, box.resources)
        hint = f"; did you mean {near}?" if near else ""
        return Contents(problem=f"there is no resource {safe_name(uri)}{hint}", is_missing=True)
    resource, values = found
    if unsafe := _unsafe(resource, values):
        return Contents(
            problem=f"{safe_name(uri)} was not read: '{unsafe}' is an absolute path, or leads out by ..",
            is_missing=True,
        )
    return await resource.read(uri, values, context)


def find_resource(box: Toolbox, uri: str) -> tuple[ServedResource[..., Any], dict[str, Any]] | None:
    """The resource that a URI means and the values in it, decoded; one without parameters goes first."""
    fixed = box.resources.get(uri)
    if fixed is not None and not fixed.is_template:
        return fixed, {}
    for resource in box.resources.values():
        if resource.is_template:
            values = _parsed(resource.uri).match(uri)
            if values is not None:
                return resource, dict(values)
    return None


@lru_cache(maxsize=2048)
def _parsed(template: str) -> UriTemplate:
    return UriTemplate.parse(template)


def _unsafe(resource: ServedResource[..., Any], values: dict[str, Any]) -> str | None:
    """The first value that a function should not use as a path below some folder."""
    for name, value in values.items():
        if name in resource.options.any_path:
            continue
        for text in value if isinstance(value, list) else [value]:
            if "\0" in text or contains_path_traversal(text) or is_absolute_path(text):
                return name
    return None
