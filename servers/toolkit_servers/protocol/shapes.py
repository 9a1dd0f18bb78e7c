"""Which messages the kernel answers itself: those whose shape leaves no doubt about what mcp would say.

Every question here is narrower than the protocol's own rules. A message that does not fit goes to mcp,
which knows all the rules, so that a doubt costs time and never a different answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit_servers.protocol.offer import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    LEVELS,
    LOG_LEVEL_KEY,
    MODERN_VERSION,
    VERSION_KEY,
)

Params = Mapping[str, Any] | None

SPEC_METHODS = frozenset(
    {
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "subscriptions/listen",
        "tools/call",
        "tools/list",
    }
)
"""What a client may ask for in any version: mcp looks at their params before anything else."""
LISTS = frozenset({"prompts/list", "resources/list", "resources/templates/list"})
"""What many clients ask for, whether the server offers it or not."""

_DEEPEST = 8
_CAPABILITIES: dict[str, tuple[str, ...]] = {"elicitation": ("form", "url"), "sampling": ("context", "tools")}
_TEXTS = ("title", "description", "websiteUrl")


def has_envelope(params: Params) -> bool:
    """Whether a request says that it belongs to 2026-07-28, as mcp tells it."""
    meta = (params or {}).get("_meta")
    return type(meta) is dict and VERSION_KEY in meta


def is_greeting(params: Params) -> bool:
    """Whether these are params of `initialize`."""
    given = params or {}
    return (
        given.keys() <= {"protocolVersion", "capabilities", "clientInfo", "_meta"}
        and type(given.get("protocolVersion")) is str
        and _is_client(given.get("clientInfo"))
        and _are_capabilities(given.get("capabilities"))
        and _is_plain_meta(given)
    )


def is_listing(params: Params, *, modern: bool) -> bool:
    """Whether these are params of a list, or of a request that takes none."""
    given = params or {}
    return given.keys() <= {"_meta", "cursor"} and type(given.get("cursor", "")) is str and _is_met(given, modern)


def is_call(params: Params, *, modern: bool) -> bool:
    """Whether these are params of `tools/call`."""
    given = params or {}
    return (
        given.keys() <= {"name", "arguments", "_meta"}
        and type(given.get("name")) is str
        and type(given.get("arguments")) in (dict, type(None))
        and _is_met(given, modern)
    )


def is_log_level(params: Params) -> bool:
    """Whether these are params of `logging/setLevel`."""
    given = params or {}
    return given.keys() <= {"level", "_meta"} and _is_level(given.get("level")) and _is_plain_meta(given)


def is_ready(params: Params) -> bool:
    """Whether these are params of `notifications/initialized`."""
    return type((params or {}).get("_meta")) in (dict, type(None))


def _is_met(params: Mapping[str, Any], modern: bool) -> bool:
    return _is_envelope(params) if modern else _is_plain_meta(params)


def _is_plain_meta(params: Mapping[str, Any]) -> bool:
    """Whether `_meta` is left out, or an object that holds at most a progress token that mcp looks at."""
    if "_meta" not in params:
        return True
    meta = params["_meta"]
    if type(meta) is not dict or "progress_token" in meta or VERSION_KEY in meta:
        return False
    return type(meta.get("progressToken", "")) in (str, int)


def _is_envelope(params: Mapping[str, Any]) -> bool:
    """Whether `_meta` is the envelope of 2026-07-28, with nothing in it that mcp could refuse."""
    meta = params.get("_meta")
    if type(meta) is not dict or meta.get(VERSION_KEY) != MODERN_VERSION or "progress_token" in meta:
        return False
    return (
        type(meta.get("progressToken", "")) in (str, int)
        and _are_capabilities(meta.get(CAPABILITIES_KEY))
        and (CLIENT_KEY not in meta or _is_client(meta[CLIENT_KEY]))
        and (LOG_LEVEL_KEY not in meta or _is_level(meta[LOG_LEVEL_KEY]))
    )


def _is_level(value: object) -> bool:
    return type(value) is str and value in LEVELS


def _is_client(value: object) -> bool:
    if type(value) is not dict or value.keys() & {"icons"}:
        return False
    texts = (value[key] for key in _TEXTS if key in value)
    return all(type(text) is str for text in (value.get("name"), value.get("version"), *texts))


def _are_capabilities(value: object) -> bool:
    if type(value) is not dict or "tasks" in value:
        return False
    for name, parts in _CAPABILITIES.items():
        given = value.get(name, {})
        if type(given) is not dict or not all(_is_simple_object(given[part]) for part in parts if part in given):
            return False
    roots = value.get("roots", {})
    if type(roots) is not dict or type(roots.get("listChanged", True)) is not bool:
        return False
    maps = [value[name] for name in ("experimental", "extensions") if name in value]
    return all(type(given) is dict and all(map(_is_simple_object, given.values())) for given in maps)


def _is_simple_object(value: object) -> bool:
    return type(value) is dict and _is_shallow(value, _DEEPEST)


def _is_shallow(value: object, depth: int) -> bool:
    if type(value) is dict or type(value) is list:
        inner = value.values() if type(value) is dict else value
        return depth > 0 and all(_is_shallow(item, depth - 1) for item in inner)
    return True
