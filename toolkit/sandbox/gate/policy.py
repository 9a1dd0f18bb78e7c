"""What passes the gate: which requests, which of their headers, which bodies.

Two paths of the Messages API, by POST, spelt exactly; nothing is decoded or
normalised first, so there is nothing to trick. Headers travel by allow-list in
both directions: no credential from inside gets out, none from outside gets in.

The model API can itself reach the network for a request: server-side tools,
remote MCP servers, containers, images and documents by URL, account files. An
offline agent must not borrow that, so a body is read against lists of what is
known to stay inside the conversation; everything else is refused by name. A
body that two JSON readers could understand differently is refused too.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from toolkit.sandbox.gate.http import Headers, Refused, RequestHead
from toolkit.sandbox.host import BETAS


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MESSAGES = "/v1/messages"
PATHS = frozenset({MESSAGES, "/v1/messages/count_tokens"})

_QUERIES = frozenset({"", "beta=true"})
_VERSION = r"v?[0-9]{1,5}(?:\.[0-9]{1,5}){0,3}(?:[-+.]?(?:a|b|rc|alpha|beta|dev|post)[.-]?[0-9]{0,4})?"
_MEDIA = r"(?:application/json|text/event-stream|\*/\*)"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_AGENT = r"a(?:[a-z]{1,16}(?:_[a-z]{1,16}){0,3}-)?[0-9a-f]{16}"
_BETA_WORD = r"(?:[a-z]{1,16}|[0-9]{1,3}[a-z]?)"
_ONE_BETA = rf"{_BETA_WORD}(?:-{_BETA_WORD}){{0,6}}-20[0-9]{{2}}(?:-[0-9]{{2}}-[0-9]{{2}}|[0-9]{{4}})"
# Names with the shape of their values: none of them is a place for text.
_REQUEST_SHAPES = {
    "accept": rf"{_MEDIA}(?:, ?{_MEDIA}){{0,2}}",
    BETAS: rf"{_ONE_BETA}(?:, ?{_ONE_BETA}){{0,63}}",
    "anthropic-client-platform": "desktop_app|claude_code_(?:cli|vscode|remote|sdk|mcp|github_action|local_agent)",
    "anthropic-client-version": _VERSION,
    "anthropic-dangerous-direct-browser-access": "true|false",
    "anthropic-version": r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "user-agent": (
        rf"(?:claude-cli|claude-code|(?:Async)?Anthropic(?:/(?:JS|Python))?)[/ ]{_VERSION}"
        rf"(?: \((?:external|internal)(?:, ?[a-z-]{{1,16}}(?:/{_VERSION})?){{0,4}}\))?"
    ),
    "x-app": "cli|cli-bg",
    **dict.fromkeys(_words("x-stainless-retry-count x-stainless-timeout x-stainless-read-timeout"), r"[0-9]{1,8}"),
    "x-stainless-arch": "x64|x32|arm|arm64|unknown",
    "x-stainless-async": "false|async:(?:asyncio|trio)",
    "x-stainless-lang": "js|python",
    "x-stainless-os": "Linux|MacOS|Windows|FreeBSD|Unknown",
    "x-stainless-runtime": "node|bun|deno|CPython",
    **dict.fromkeys(_words("x-stainless-helper x-stainless-helper-method"), "[A-Za-z]{1,24}"),
    **dict.fromkeys(_words("x-stainless-package-version x-stainless-runtime-version"), _VERSION),
    **dict.fromkeys(_words("x-claude-code-agent-id x-claude-code-parent-agent-id"), _AGENT),
    **dict.fromkeys(_words("x-claude-code-prompt-id x-claude-code-session-id x-client-request-id"), _UUID),
}
REQUEST_HEADERS = {name: re.compile(shape) for name, shape in _REQUEST_SHAPES.items()}
"""What the API may see of a client's headers."""
_RESPONSE_HEADERS = _words("content-type date request-id x-request-id retry-after retry-after-ms x-should-retry")
_RESPONSE_PREFIX = "anthropic-ratelimit-"
MAX_JSON_ITEMS = 2_000_000
"""Commas and brackets in a body: bounds the memory its parsed form can take."""

_FIELDS = _words(
    """
    model messages max_tokens system tools tool_choice metadata stop_sequences stream temperature top_p top_k
    thinking betas cache_control context_management output_config output_format speed service_tier inference_geo
    fallbacks
    """
)
_FALLBACK_FIELDS = frozenset({"model", "max_tokens", "thinking", "temperature", "output_config", "speed"})
# Tools the client carries out, and the search over the tools of the same request.
_CLIENT_TOOLS = re.compile(
    r"custom|(?:bash|text_editor|computer|memory)_[0-9]{8}|tool_search_tool_(?:regex|bm25)(?:_[0-9]{8})?"
)
_BLOCKS = _words(
    """
    text image document search_result thinking redacted_thinking tool_use tool_result tool_reference compaction
    fallback server_tool_use tool_search_tool_result tool_addition tool_removal
    """
)
_INLINE_SOURCES = {"base64": _words("type media_type data"), "text": _words("type media_type data")}
_INLINE_SOURCES |= {"content": _words("type content")}
_ROLES = frozenset({"user", "assistant", "system"})
_METADATA_FIELDS = frozenset({"user_id"})
# Fields with few values, at the top and in a fallback.
_VALUES = {
    "service_tier": re.compile("auto|standard_only"),
    "inference_geo": re.compile("global|[a-z]{2}"),
    "speed": re.compile("standard|fast"),
}


def check_route(head: RequestHead) -> str:
    """The path of an allowed request; a Refused for everything else."""
    path, question, query = head.target.partition("?")
    if head.method != "POST":
        raise Refused(403, "method", f"{head.method[:20]} is not allowed; only POST {MESSAGES} passes the gate")
    if path not in PATHS:
        raise Refused(403, "path", f"this path is not allowed; only POST {MESSAGES} passes the gate")
    if query not in _QUERIES or (question and not query):
        raise Refused(403, "path", "the query string is not allowed")
    kind = head.headers.get("content-type")
    if kind is not None and kind.partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "content_type", "the body has to be application/json")
    if (head.headers.get("content-encoding") or "identity").lower() != "identity":
        raise Refused(415, "content_type", "the body has to be sent uncompressed")
    if (head.headers.get("expect") or "100-continue").lower() != "100-continue":
        raise Refused(417, "malformed", "the only expectation is 100-continue")
    return path


def forwarded_request_headers(headers: Headers) -> dict[str, str]:
    """What the API may see of the client's headers: known names, each once, with values of the shape they have.

    Of several betas those that look like one: without the others the API would not take a whole request.
    """
    values = {name: headers.all(name)[0] for name in REQUEST_HEADERS if len(headers.all(name)) == 1}
    if BETAS in values:
        betas = (part.strip() for part in values[BETAS].split(","))
        values[BETAS] = ",".join(beta for beta in betas if REQUEST_HEADERS[BETAS].fullmatch(beta))
    return {name: value for name, value in values.items() if REQUEST_HEADERS[name].fullmatch(value)}


def forwarded_response_headers(headers: Headers) -> list[tuple[str, str]]:
    """What the client may see of the API's headers: no cookies, no account, no address to go to."""
    return [
        (name, value) for name, value in headers.pairs if name in _RESPONSE_HEADERS or name.startswith(_RESPONSE_PREFIX)
    ]


def asked_to_wait(headers: Headers) -> float | None:
    """Seconds that the API asks to wait before the next try; None where it does not say, or nothing sensible."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = (headers.get(name) or "").strip()
        if re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", value):
            return float(value) * unit
    date = headers.get("retry-after")
    if not date:
        return None
    from email.utils import parsedate_to_datetime

    try:
        when = parsedate_to_datetime(date)
    except (TypeError, ValueError):
        return None
    return max(0.0, when.timestamp() - time.time())


@dataclass(slots=True)
class Asked:
    """What a request asks of the model, as far as it decides the cost."""

    model: str = ""
    max_tokens: int = 0
    inline_bytes: int = 0
    """Pictures and documents that stand in the body."""
    inline_count: int = 0

    @classmethod
    def of(cls, request: dict[str, Any]) -> Asked:
        """What stands in a request's own fields."""
        fallbacks = request.get("fallbacks")
        wanted = [request, *(fallbacks if isinstance(fallbacks, list) else ())]
        most = [one.get("max_tokens") for one in wanted if isinstance(one, dict)]
        return cls(str(request.get("model", "")), max([0, *(n for n in most if isinstance(n, int))]))


def read_asked(body: bytes) -> Asked:
    """What a body asks for, of whatever form it is; one that is not JSON costs nothing."""
    try:
        return Asked.of(parse_json_object(body))
    except Refused:
        return Asked()


def check_offline_body(body: bytes) -> Asked:
    """What a body asks for; a Refused for one that makes the API reach anything but the conversation in it."""
    request = parse_json_object(body)
    asked = Asked.of(request)
    _check_fields(request, _FIELDS)
    _check_values(request)
    if isinstance(metadata := request.get("metadata"), dict):
        _check_fields(metadata, _METADATA_FIELDS, " in metadata")
    for tool in _objects(request.get("tools"), "tools"):
        _check_tool(tool)
    fallbacks = request.get("fallbacks")
    for fallback in () if isinstance(fallbacks, str) else _objects(fallbacks, "fallbacks"):
        _check_fields(fallback, _FALLBACK_FIELDS, " in a fallback")
        _check_values(fallback)
    _check_content(request.get("system"), "system", asked)
    for message in _objects(request.get("messages"), "messages"):
        if not (isinstance(role := message.get("role"), str) and role in _ROLES):
            raise _refused(f"a message with the role '{_short(role)}'")
        _check_content(message.get("content"), "content", asked)
    return asked


def _check_fields(value: dict[str, Any], known: frozenset[str], where: str = "") -> None:
    for name in value:
        if name not in known:
            raise _refused(f"the field '{_short(name)}'{where}")


def _check_values(value: dict[str, Any]) -> None:
    for name, shape in _VALUES.items():
        given = value.get(name)
        if given is not None and not (isinstance(given, str) and shape.fullmatch(given)):
            raise _refused(f"{name} '{_short(given)}'")


def parse_json_object(body: bytes) -> dict[str, Any]:
    """The body as one JSON object without repeated names, or a Refused."""
    # Every item takes a byte, so only a larger body can have too many.
    if len(body) > MAX_JSON_ITEMS < sum(body.count(mark) for mark in (b",", b"[", b"{")):
        raise Refused(413, "size", "the body has too many parts")
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as wrong:
        raise Refused(400, "malformed", f"the body is not plain JSON: {_short(str(wrong))}") from None
    if not isinstance(value, dict):
        raise Refused(400, "malformed", "the body is not a JSON object")
    return value


def _check_tool(tool: dict[str, Any]) -> None:
    kind = tool.get("type")
    if kind is None:
        return
    if not isinstance(kind, str) or not _CLIENT_TOOLS.fullmatch(kind):
        raise _refused(f"the server-side tool '{_short(kind)}'")


def _check_content(content: object, name: str, asked: Asked) -> None:
    """Check a message's blocks, and the blocks inside them, without recursion; `asked` counts what is inline."""
    pending = [content]
    while pending:
        value = pending.pop()
        if value is None or isinstance(value, str):
            continue
        for block in _objects(value, name):
            pending.extend(_check_block(block))
            source = block.get("source")
            if isinstance(source, dict) and source.get("type") == "base64" and isinstance(source.get("data"), str):
                asked.inline_bytes += len(source["data"])
                asked.inline_count += 1


def _check_block(block: dict[str, Any]) -> Iterator[object]:
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in _BLOCKS:
        raise _refused(f"a content block of type '{_short(kind)}'")
    source = block.get("source")
    if source is not None and not (kind == "search_result" and isinstance(source, str)):
        _check_source(source)
        if source["type"] == "content":
            yield source.get("content")
    if kind == "tool_addition":
        _check_addition(block.get("tool"))
    if kind in ("tool_result", "search_result"):
        yield block.get("content")


def _check_source(source: object) -> None:
    kind = source.get("type") if isinstance(source, dict) else source
    if not isinstance(source, dict) or not isinstance(kind, str) or kind not in _INLINE_SOURCES:
        raise _refused(f"a source of type '{_short(kind)}'")
    _check_fields(source, _INLINE_SOURCES[kind], f" in a source of type '{kind}'")


def _check_addition(tool: object) -> None:
    if isinstance(tool, dict) and tool.get("type") == "tool_reference":
        return
    definition = tool.get("definition") if isinstance(tool, dict) and tool.get("type") == "tool_definition" else None
    if not isinstance(definition, dict):
        raise _refused("a tool added in an unknown way")
    _check_tool(definition)


def _objects(value: object, name: str) -> Iterator[dict[str, Any]]:
    if value is None:
        return
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Refused(400, "malformed", f"'{name}' is not a list of objects")
    yield from value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _short(value: object) -> str:
    return str(value)[:80]


def _refused(what: str) -> Refused:
    return Refused(403, "server_side", f"{what} is not allowed while the agent is offline")
