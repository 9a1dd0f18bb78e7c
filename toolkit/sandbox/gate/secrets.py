"""Keep the host's credentials out of what comes back: an API, or a gateway before it, may repeat them in an answer.

An answer is handed on as it arrives. Only bytes that may be the beginning of a
credential are held until the next ones show whether they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from urllib.parse import quote

REMOVED = "[removed by the gate]"
SHORTEST = 8
"""No real key is shorter, and the placeholders that are (`none`, `dummy`) stand in ordinary text."""


class Secrets:
    """Values that must not enter the jail, in every form in which they are usually repeated."""

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values if len(value) >= SHORTEST for form in _forms(value)}
        # The longest first, so that of two that begin alike nothing is left over.
        self.forms = sorted((form.encode() for form in forms), key=len, reverse=True)
        self.pattern = re.compile(b"|".join(re.escape(form) for form in self.forms)) if forms else None

    def clean(self, text: str) -> str:
        """A whole text, such as a header's value, without them."""
        return text if self.pattern is None else self.pattern.sub(REMOVED.encode(), text.encode()).decode()


class Remover:
    """Takes the secrets out of one answer, however it is cut into pieces."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """What may be passed on now; often the piece itself, sometimes nothing."""
        if self._secrets.pattern is None:
            return piece
        clean = self._secrets.pattern.sub(REMOVED.encode(), self._held + piece)
        held = max((_beginning(form, clean) for form in self._secrets.forms), default=0)
        self._held = clean[len(clean) - held :]
        return clean[: len(clean) - held]

    def finish(self) -> bytes:
        """What was held, now that nothing follows."""
        held, self._held = self._held, b""
        return held


def _forms(value: str) -> set[str]:
    """As it is, as JSON writers escape it, and as it stands in a URL."""
    escaped = json.dumps(value)[1:-1]
    return {value, escaped, escaped.replace("/", "\\/"), quote(value, safe="")}


def _beginning(secret: bytes, data: bytes) -> int:
    """How many bytes at the end of `data` are the beginning of a secret that is not whole yet."""
    at = data.find(secret[:1], max(0, len(data) - len(secret) + 1))
    while at >= 0:
        if secret.startswith(data[at:]):
            return len(data) - at
        at = data.find(secret[:1], at + 1)
    return 0
