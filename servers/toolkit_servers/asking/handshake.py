"""Questions of the handshake era: requests to the client, while the tool waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import CreateMessageResult, ElicitResult, ListRootsRequest, ListRootsResult, ServerRequest
from pydantic import BaseModel, ValidationError

from toolkit.errors import ToolError
from toolkit.tools.asking import Cancelled, CannotAsk, Declined, Question, Root, Sampled, SampleRequest
from toolkit_servers.asking.client import (
    NO_MODEL,
    NO_ROOTS,
    elicit_request,
    elicited,
    missing_for,
    refusal,
    roots_of,
    sample_request,
    sampled,
)

R = TypeVar("R", bound=BaseModel)


class HandshakeAsking:
    """Asks the client of one request."""

    def __init__(self, ctx: ServerRequestContext[Any, Any]) -> None:
        self._session = ctx.session
        self._request_id = ctx.request_id

    async def ask(self, question: Question) -> Mapping[str, Any] | Declined | Cancelled:
        """See `Asking`."""
        if missing := missing_for(self._session.client_capabilities, question):
            raise CannotAsk(refusal(question), required=missing)
        request = elicit_request(question, with_id=True)
        return elicited(await self._send(request, ElicitResult, question.text))

    async def sample(self, request: SampleRequest) -> Sampled:
        """See `Asking`."""
        capabilities = self._session.client_capabilities
        if capabilities is None or capabilities.sampling is None:
            raise CannotAsk(NO_MODEL, required={"sampling": {}})
        return sampled(await self._send(sample_request(request), CreateMessageResult, "a text of its model"))

    async def roots(self) -> list[Root]:
        """See `Asking`."""
        capabilities = self._session.client_capabilities
        if capabilities is None or capabilities.roots is None:
            raise CannotAsk(NO_ROOTS, required={"roots": {}})
        return roots_of(await self._send(ListRootsRequest(), ListRootsResult, "its folders"))

    async def _send(self, request: ServerRequest, kind: type[R], what: str) -> R:
        metadata = ServerMessageMetadata(related_request_id=self._request_id)
        try:
            return await self._session.send_request(request, kind, metadata=metadata)
        except NoBackChannelError as error:
            raise CannotAsk(f"this connection carries no questions to the client: {what}") from error
        except MCPError as error:
            raise ToolError(f"the client refused the question ({error.message}): {what}") from error
        except ValidationError as error:
            raise ToolError(f"the client answered with something else than an answer: {what}") from error
