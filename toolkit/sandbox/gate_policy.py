"""Which requests pass the gate, and which of their headers.

Two paths of the Messages API, by POST, spelt exactly; nothing is decoded or
normalised first, so there is nothing to trick. Headers travel by allow-list in
both directions: no credential from inside gets out, none from outside gets in.
"""

from __future__ import annotations

import re

from toolkit.sandbox.gate_http import Headers, Refused, RequestHead

MESSAGES = "/v1/messages"
PATHS = frozenset({MESSAGES, "/v1/messages/count_tokens"})

_QUERY = re.compile(r"[A-Za-z0-9_.=&-]{0,256}")
_REQUEST_HEADERS = frozenset(
    [
        "accept",
        "anthropic-beta",
        "anthropic-version",
        "anthropic-dangerous-direct-browser-access",
        "anthropic-client-platform",
        "anthropic-client-version",
        "user-agent",
        "x-app",
        "x-client-request-id",
    ]
)
_REQUEST_PREFIXES = ("x-stainless-", "x-claude-code-")
_RESPONSE_HEADERS = frozenset(
    ["content-type", "date", "request-id", "x-request-id", "retry-after", "retry-after-ms", "x-should-retry"]
)
_RESPONSE_PREFIXES = ("anthropic-ratelimit-",)


def check_route(head: RequestHead) -> str:
    """The path of an allowed request; a Refused for everything else."""
    path, question, query = head.target.partition("?")
    if head.method != "POST":
        raise Refused(403, "method", f"{head.method[:20]} is not allowed; only POST {MESSAGES} passes the gate")
    if path not in PATHS:
        raise Refused(403, "path", f"this path is not allowed; only POST {MESSAGES} passes the gate")
    if question and not _QUERY.fullmatch(query):
        raise Refused(403, "path", "the query string is not allowed")
    kind = head.headers.get("content-type")
    if kind is not None and kind.partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "content_type", "the body has to be application/json")
    if (head.headers.get("content-encoding") or "identity").lower() != "identity":
        raise Refused(415, "content_type", "the body has to be sent uncompressed")
    if (head.headers.get("expect") or "100-continue").lower() != "100-continue":
        raise Refused(417, "malformed", "the only expectation is 100-continue")
    return path


def forwarded_request_headers(headers: Headers) -> list[tuple[str, str]]:
    """What the API may see of the client's headers."""
    return [(name, value) for name, value in headers.lines if _listed(name, _REQUEST_HEADERS, _REQUEST_PREFIXES)]


def forwarded_response_headers(headers: Headers) -> list[tuple[str, str]]:
    """What the client may see of the API's headers: no cookies, no account, no address to go to."""
    return [(name, value) for name, value in headers.lines if _listed(name, _RESPONSE_HEADERS, _RESPONSE_PREFIXES)]


def _listed(name: str, names: frozenset[str], prefixes: tuple[str, ...]) -> bool:
    return name in names or name.startswith(prefixes)
