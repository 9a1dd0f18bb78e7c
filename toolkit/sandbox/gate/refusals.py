"""What the gate did not let through: which rule said no, and what to write to allow it.

What a request asks for is the agent's own text, so it is made safe to print before it is kept.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from toolkit._base.words import safe_line
from toolkit.errors import SettingsError
from toolkit.sandbox.domains import parse_domain
from toolkit.sandbox.gate.http import Refused, RequestHead

GATE_SAYS = "refused by the sandbox gate"
"""How each of its answers begins, so that nobody takes it for the model API's."""
_LONGEST_REQUEST = 200
_LONGEST_MESSAGE = 300
_UNREADABLE = "a request that cannot be read"
_NOT_TO_BE = "This cannot be allowed: the gate passes only requests that can be read in one way"
_FIXES = {
    "address": "Only hosts with public addresses are reached; see whether the name resolves on this machine",
    "tls": "A tunnel carries TLS for the host it was opened to, with the name readable in the client hello",
    "certificate": 'Name the authority that signed its certificate, "ca_file" beside its url, or SSL_CERT_FILE',
    "unheard": "This cannot be allowed: what a server says is read by the gate before the CLI reads it",
    "method": "Commands reach other hosts over https only, each allowed by name: --allow-domain HOST",
    "socks": "Commands reach other hosts over https only, by the proxy in HTTPS_PROXY",
    "path": "This cannot be allowed: only POST /v1/messages and /v1/messages/count_tokens pass",
    "server_side": "This cannot be allowed: the model API must not fetch anything for a confined agent",
    "spend": "Give it more: --max-tokens, in Python Limits(tokens=…)",
    "no_api": "This cannot be allowed: only the CLI itself asks the model API, so that its limits hold",
    "size": "Send less at once",
    "busy": "Ask for less at once",
    "rate": "The model API takes fewer requests than the runs of the batch make: lower --parallel, or raise its limit",
    "slow": "Send the request without a pause",
    "upstream": "See whether this machine reaches the model API, and whether ANTHROPIC_BASE_URL is right",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing the gate did not let through. Its texts are safe to print."""

    t: float
    """When, in seconds since the epoch."""
    code: str
    """Why, as a word: path, method, server_side, domain, address, tls, spend, size, malformed, busy, …"""
    status: int
    request: str
    """Method and target as they came, cut to 200 characters."""
    message: str

    @classmethod
    def of(cls, head: RequestHead | None, refused: Refused) -> Refusal:
        """A refusal, now."""
        request = safe_line(f"{head.method} {head.target}", _LONGEST_REQUEST) if head else _UNREADABLE
        return cls(time.time(), refused.code, refused.status, request, safe_line(refused.message, _LONGEST_MESSAGE))

    @property
    def fix(self) -> str:
        """What to write to allow it, or why nothing does."""
        method, _, target = self.request.partition(" ")
        if method == "CONNECT" and self.code in ("domain", "method"):
            return _how_to_allow(target)
        return _FIXES.get(self.code, _NOT_TO_BE)


def _how_to_allow(target: str) -> str:
    host, _, port = target.rpartition(":") if ":" in target else (target, "", "")
    try:
        name = parse_domain(host)
    except SettingsError as wrong:
        return f"This cannot be allowed: {wrong.what}"
    if port != "443" or name.startswith("*."):
        return "This cannot be allowed: tunnels lead to port 443 of a host only"
    return f'To allow it: --allow-domain {name}, in Python profile="allowlist", domains=["{name}"]'
