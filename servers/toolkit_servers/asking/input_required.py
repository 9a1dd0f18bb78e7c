"""Questions of 2026-07-28: the request is answered with what is still needed, and comes again with the answers.

The function runs from its beginning each time; what was answered before is in the state that the client carries, sealed
by mcp, and each question gets its answer by its key. So a tool asks first and acts then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import anyio.lowlevel
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types import CreateMessageResult, ElicitResult, InputRequiredResult, ListRootsRequest, ListRootsResult
from pydantic import BaseModel, ValidationError

from toolkit.errors import ToolError
from toolkit.tools.asking import Cancelled, Declined, Question, Root, Sampled, SampleRequest
from toolkit.tools.calling import AnswerNeeded
from toolkit_servers.asking.client import (
    NO_MODEL,
    NO_ROOTS,
    MissingCapability,
    elicit_request,
    elicited,
    missing_for,
    refusal,
    roots_of,
    sample_request,
    sampled,
)

_Context = ServerRequestContext[Any, Any]


class StateSeal:
    """Seals what a client carries, with a key of this process."""

    def __init__(self, audience: str) -> None:
        self._boundary = RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=audience)

    async def around(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        """Open the state of a request before it is answered, and seal that of the answer."""
        return await self._boundary(ctx, call_next)


class InputRequiredAsking:
    """Asks the client of one request, by answering it."""

    def __init__(self, ctx: _Context) -> None:
        params = ctx.params or {}
        self._capabilities = ctx.session.client_capabilities
        self._responses: Mapping[str, Any] = params.get("inputResponses") or {}
        self._answered: dict[str, Any] = _read_state(params.get("requestState"))
        self._count = 0
        self.pending: dict[str, dict[str, Any]] = {}
        """The requests that have no answer yet."""

    async def ask(self, question: Question) -> Mapping[str, Any] | Declined | Cancelled:
        """See `Asking`."""
        if missing := missing_for(self._capabilities, question):
            raise MissingCapability(refusal(question), missing)
        key = question.key or self._key(question.digest)

        def fits(result: ElicitResult) -> bool:
            given = elicited(result)
            if question.form is not None and isinstance(given, Mapping):
                question.form.value(given)
            return True

        result = await self._answer(key, ElicitResult, elicit_request(question, with_id=False), fits)
        return elicited(result)

    async def sample(self, request: SampleRequest) -> Sampled:
        """See `Asking`."""
        if self._capabilities is None or self._capabilities.sampling is None:
            raise MissingCapability(NO_MODEL, {"sampling": {}})
        key = request.key or self._key("sample")
        return sampled(await self._answer(key, CreateMessageResult, sample_request(request)))

    async def roots(self) -> list[Root]:
        """See `Asking`."""
        if self._capabilities is None or self._capabilities.roots is None:
            raise MissingCapability(NO_ROOTS, {"roots": {}})
        return roots_of(await self._answer(self._key("roots"), ListRootsResult, ListRootsRequest()))

    def result(self) -> dict[str, Any]:
        """The answer that asks for what is pending."""
        state = json.dumps({"answered": self._answered})
        made = InputRequiredResult.model_validate({"inputRequests": self.pending, "requestState": state})
        return made.model_dump(by_alias=True, mode="json", exclude_none=True)

    def _key(self, name: str) -> str:
        self._count += 1
        return f"{name}-{self._count}"

    async def _answer(
        self, key: str, kind: type[Any], request: BaseModel, fits: Callable[[Any], bool] = lambda result: True
    ) -> Any:
        for given in (self._answered.get(key), self._responses.get(key)):
            if given is None:
                continue
            try:
                result = kind.model_validate(given, by_name=False)
                fits(result)
            except (ValidationError, ToolError):
                continue  # asked for again, as if it were missing
            self._answered[key] = given
            return result
        self.pending[key] = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        await self._unwind()
        return None

    async def _unwind(self) -> NoReturn:
        # What is asked at the same time (asyncio.gather, a task group) is asked in one go.
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        raise AnswerNeeded


def _read_state(state: object) -> dict[str, Any]:
    """The answers of earlier rounds. The text was sealed by us, so only its absence is expected here."""
    if not isinstance(state, str):
        return {}
    found = json.loads(state).get("answered", {})
    return dict(found) if isinstance(found, dict) else {}
