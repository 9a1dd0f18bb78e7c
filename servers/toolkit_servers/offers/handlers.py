"""The requests about resources and prompts, each answered from the Toolbox that the server has at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CompleteRequestParams,
    CompleteResult,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)
from mcp_types.methods import is_input_required
from pydantic import BaseModel

from toolkit._base.words import did_you_mean, safe_name
from toolkit_servers.offers.matching import find_resource, read_resource
from toolkit_servers.offers.pages import page

if TYPE_CHECKING:
    from toolkit.tools import ServedPrompt, ServedResource, Toolbox, ToolContext
    from toolkit_servers.build import ToolServer

_Context = ServerRequestContext[Any, Any]


def register(server: ToolServer) -> None:
    """Let a server answer requests about what its box has beside tools."""
    offers = Offers(server)
    server.add_request_handler("resources/list", PaginatedRequestParams, offers.list_resources)
    server.add_request_handler("resources/templates/list", PaginatedRequestParams, offers.list_templates)
    server.add_request_handler("resources/read", ReadResourceRequestParams, offers.read)
    server.add_request_handler("prompts/list", PaginatedRequestParams, offers.list_prompts)
    server.add_request_handler("prompts/get", GetPromptRequestParams, offers.get_prompt)
    server.add_request_handler("completion/complete", CompleteRequestParams, offers.complete)
    server.add_request_handler("resources/subscribe", SubscribeRequestParams, offers.subscribe)
    server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, offers.unsubscribe)


def session_of(ctx: _Context) -> str | None:
    """The HTTP session a request belongs to; None where one server has one client."""
    return None if ctx.request is None else ctx.request.headers.get("mcp-session-id")


def _as_result(kind: type[BaseModel], result: dict[str, Any]) -> HandlerResult:
    """The result with what the protocol wants beside it; a question to the client is complete as it is."""
    return result if is_input_required(result) else kind.model_validate(result)


class Offers:
    """Resources, prompts and completions of the box that a server has now."""

    def __init__(self, server: ToolServer) -> None:
        self._server = server

    async def list_resources(self, ctx: _Context, params: PaginatedRequestParams) -> HandlerResult:
        box = self._with(ctx, "resources")
        return ListResourcesResult.model_validate(page("resources", box.resource_listing(), params.cursor))

    async def list_templates(self, ctx: _Context, params: PaginatedRequestParams) -> HandlerResult:
        box = self._with(ctx, "resources")
        found = page("resourceTemplates", box.resource_listing(templates=True), params.cursor)
        return ListResourceTemplatesResult.model_validate(found)

    async def list_prompts(self, ctx: _Context, params: PaginatedRequestParams) -> HandlerResult:
        box = self._with(ctx, "prompts")
        return ListPromptsResult.model_validate(page("prompts", box.prompt_listing(), params.cursor))

    async def read(self, ctx: _Context, params: ReadResourceRequestParams) -> HandlerResult:
        box, uri = self._with(ctx, "resources"), str(params.uri)

        async def run(context: ToolContext) -> dict[str, Any]:
            found = await read_resource(box, uri, context)
            if found.problem:
                code = INVALID_PARAMS if found.is_missing else INTERNAL_ERROR
                raise MCPError(code, found.problem, {"uri": uri})
            kept = {} if found.ttl is None else {"ttlMs": round(found.ttl * 1000), "cacheScope": "private"}
            return {**found.wire(), **kept}

        return _as_result(ReadResourceResult, await self._server.answer(ctx, run))

    async def get_prompt(self, ctx: _Context, params: GetPromptRequestParams) -> HandlerResult:
        box = self._with(ctx, "prompts")

        async def run(context: ToolContext) -> dict[str, Any]:
            found = await box.get_prompt(params.name, params.arguments, context)
            if found.problem:
                is_ours = params.name in box.prompts and not found.is_misfit
                raise MCPError(INTERNAL_ERROR if is_ours else INVALID_PARAMS, found.problem)
            return found.wire()

        return _as_result(GetPromptResult, await self._server.answer(ctx, run))

    async def complete(self, ctx: _Context, params: CompleteRequestParams) -> HandlerResult:
        offer = self._referred(params)
        name = params.argument.name
        if name not in offer.parameters:
            near = did_you_mean(name, offer.parameters)
            raise MCPError(INVALID_PARAMS, f"{offer.kind} '{offer.name}' has no argument {safe_name(name)}{near}")
        given = (params.context.arguments if params.context else None) or {}
        found = await offer.complete(name, params.argument.value, given)
        return CompleteResult.model_validate(found.wire())

    async def subscribe(self, ctx: _Context, params: SubscribeRequestParams) -> HandlerResult:
        uri = str(params.uri)
        if find_resource(self._with(ctx, "resources"), uri) is None:
            raise MCPError(INVALID_PARAMS, f"there is no resource {safe_name(uri)}", {"uri": uri})
        self._server.changes.subscribe(session_of(ctx), uri, ctx.session)
        return EmptyResult()

    async def unsubscribe(self, ctx: _Context, params: UnsubscribeRequestParams) -> HandlerResult:
        self._server.changes.unsubscribe(session_of(ctx), str(params.uri))
        return EmptyResult()

    def _referred(self, params: CompleteRequestParams) -> ServedPrompt[..., Any] | ServedResource[..., Any]:
        box = self._server.toolbox
        if isinstance(params.ref, PromptReference):
            prompt = box.prompts.get(params.ref.name)
            if prompt is not None:
                return prompt
            near = did_you_mean(params.ref.name, box.prompts)
            raise MCPError(INVALID_PARAMS, f"no prompt {safe_name(params.ref.name)}{near}")
        resource = box.resources.get(str(params.ref.uri))
        if resource is None:
            near = did_you_mean(str(params.ref.uri), box.resources)
            raise MCPError(INVALID_PARAMS, f"no resource template {safe_name(str(params.ref.uri))}{near}")
        return resource

    def _with(self, ctx: _Context, kind: str) -> Toolbox:
        """The box, where it has something of this kind; a reload may have taken the last one away."""
        box = self._server.toolbox
        if not getattr(box, kind):
            raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
        return box
