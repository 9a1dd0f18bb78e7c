"""What a client can be asked for, and how its answers read. The same in both eras."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    ListRootsResult,
)

from toolkit.tools.asking import Cancelled, CannotAsk, Declined, Question, Root, Sampled, SampleRequest

NO_MODEL = "this client lets no tool use its model (sampling)"
NO_ROOTS = "this client does not name its folders (roots)"


class MissingCapability(CannotAsk, MCPError):
    """A client that does not declare what a tool asks for: an answer to the request itself in 2026-07-28."""

    def __init__(self, what: str, required: Mapping[str, Any]) -> None:
        MCPError.__init__(self, MISSING_REQUIRED_CLIENT_CAPABILITY, what, {"requiredCapabilities": dict(required)})
        self.what, self.where, self.fix, self.required = what, (), "", dict(required)


def can_be_asked(capabilities: ClientCapabilities | None, question: Question) -> bool:
    """Whether a client shows forms, or opens pages. One that names no mode shows forms."""
    declared = None if capabilities is None else capabilities.elicitation
    if declared is None:
        return False
    return declared.url is not None if question.url else (declared.form is not None or declared.url is None)


def missing_for(capabilities: ClientCapabilities | None, question: Question) -> dict[str, Any] | None:
    """The capability that a client lacks for a question; None where it has it."""
    if can_be_asked(capabilities, question):
        return None
    return {"elicitation": {"url": {}} if question.url else {"form": {}}}


def refusal(question: Question) -> str:
    """Why a question cannot be put to a client, for the model."""
    way = "opens no pages" if question.url else "shows no forms"
    return f"the person behind this client cannot be asked, because it {way} (elicitation): {question.text}"


def elicit_request(question: Question, *, with_id: bool) -> ElicitRequest:
    """The request that puts a question to a person."""
    if question.url:
        params: Any = ElicitRequestURLParams(
            message=question.text, url=question.url, elicitation_id=uuid4().hex if with_id else None
        )
    else:
        assert question.form is not None
        params = ElicitRequestFormParams(message=question.text, requested_schema=question.form.schema)
    return ElicitRequest(params=params)


def elicited(result: ElicitResult) -> Mapping[str, Any] | Declined | Cancelled:
    """What a person answered."""
    if result.action == "decline":
        return Declined()
    return dict(result.content or {}) if result.action == "accept" else Cancelled()


def sample_request(request: SampleRequest) -> CreateMessageRequest:
    """The request that lets the client's model write."""
    return CreateMessageRequest(params=CreateMessageRequestParams.model_validate(request.params()))


def sampled(result: CreateMessageResult) -> Sampled:
    """What the client's model wrote."""
    content = result.content if isinstance(result.content, list) else [result.content]
    blocks = tuple(each.model_dump(by_alias=True, mode="json", exclude_none=True) for each in content)
    text = "\n".join(block["text"] for block in blocks if block.get("type") == "text")
    return Sampled(text, result.model, result.stop_reason, blocks)


def roots_of(result: ListRootsResult) -> list[Root]:
    """The folders a client named."""
    return [Root(str(each.uri), each.name) for each in result.roots]
