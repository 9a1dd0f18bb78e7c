"""Questions to a client that declares nothing a tool could ask for: refused, as its era wants it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from toolkit.tools.asking import Cancelled, CannotAsk, Declined, Question, Root, Sampled, SampleRequest
from toolkit_servers.asking.client import NO_MODEL, NO_ROOTS, MissingCapability, missing_for, refusal


class Unasked:
    """Asks nobody."""

    def __init__(self, *, modern: bool) -> None:
        self._modern = modern

    async def ask(self, question: Question) -> Mapping[str, Any] | Declined | Cancelled:
        """See `Asking`."""
        self._refuse(refusal(question), missing_for(None, question) or {})

    async def sample(self, request: SampleRequest) -> Sampled:
        """See `Asking`."""
        self._refuse(NO_MODEL, {"sampling": {}})

    async def roots(self) -> list[Root]:
        """See `Asking`."""
        self._refuse(NO_ROOTS, {"roots": {}})

    def _refuse(self, what: str, required: dict[str, Any]) -> NoReturn:
        raise MissingCapability(what, required) if self._modern else CannotAsk(what, required=required)
