"""Run a tool once: arguments in, one reply out, whatever the function does.

A sync function runs in a thread of its own, an async one where it is awaited.
Every failure of the function becomes an error reply, `sys.exit()` included; only
the caller's own cancellation passes through.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from toolkit.errors import ArgumentsError, ToolError
from toolkit.tools.calling._render import cut
from toolkit.tools.calling._workers import poster, workers
from toolkit.tools.content import Reply
from toolkit.tools.context import ToolContext
from toolkit.tools.plain_json import excerpt, sendable
from toolkit.tools.workspace_path import in_call

if TYPE_CHECKING:
    from toolkit.tools.tool import Tool

_log = logging.getLogger("toolkit.tools")


async def invoke(tool: Tool[..., Any], arguments: Mapping[str, Any] | None, context: ToolContext) -> Reply:
    """The reply to one call, as any client reads it; never raises but for cancellation and a protocol error."""
    return sendable(await _reply(tool, arguments, context))


async def _reply(tool: Tool[..., Any], arguments: Mapping[str, Any] | None, context: ToolContext) -> Reply:
    parameters = tool.arguments
    if arguments is not None and not isinstance(arguments, Mapping):
        return Reply.error(f"{tool.name} was not called: its arguments are an object, not {excerpt(arguments)}")
    try:
        with in_call(context):
            values = parameters.parse(arguments)
    except ArgumentsError as error:
        return Reply.error(str(error))
    if parameters.context_parameter is not None:
        values[parameters.context_parameter] = context
    context.attach(poster())
    try:
        return await _within_limits(tool, values, context)
    except BaseException as error:
        # Also SystemExit: a tool that calls sys.exit() fails alone and does not take the server with it.
        if isinstance(error, anyio.get_cancelled_exc_class()):
            context.cancel()
            await _raise_if_ours(error)
        if _is_protocol_error(error):
            raise
        return _failure(tool, error)


async def _within_limits(tool: Tool[..., Any], values: dict[str, Any], context: ToolContext) -> Reply:
    limit = tool.options.timeout
    if context.deadline is not None:
        remaining = context.deadline.remaining()
        limit = remaining if limit is None else min(limit, remaining)
    if limit is None:
        return await _run(tool, values)
    with anyio.move_on_after(limit) as scope:
        return await _run(tool, values)
    assert scope.cancelled_caught
    context.cancel()
    return Reply.error(f"{tool.name} was stopped: it took longer than {limit:g} s")


async def _run(tool: Tool[..., Any], values: dict[str, Any]) -> Reply:
    if not tool.is_async:
        value, reply = await workers.run(lambda: _in_thread(tool, values))
        if reply is not None:
            assert isinstance(reply, Reply)
            return reply
    else:
        value = tool.function(**values)
    if inspect.isawaitable(value):
        value = await value
    if isinstance(value, AsyncIterator):
        value = [item async for item in value]
    return tool.reply(_collected(value))


def _in_thread(tool: Tool[..., Any], values: dict[str, Any]) -> tuple[Any, Reply | None]:
    """Everything that runs the user's code stays in the thread; only what must be awaited comes back as a value."""
    value = tool.function(**values)
    if inspect.isawaitable(value) or isinstance(value, AsyncIterator):
        return value, None
    return None, tool.reply(_collected(value))


def _collected(value: Any) -> Any:
    return list(value) if isinstance(value, Iterator) and not hasattr(value, "render") else value


async def _raise_if_ours(error: BaseException) -> None:
    """Pass on a cancellation that was meant for this call; one that the tool made up itself is its failure."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # trio cancels by scope only
        raise error from None
    if task is not None and task.cancelling() > 0:
        raise error
    await anyio.lowlevel.checkpoint_if_cancelled()


def _is_protocol_error(error: BaseException) -> bool:
    """Whether it is mcp's MCPError, an answer to the request itself; told by name, as this room imports no mcp."""
    return any(cls.__name__ == "MCPError" and cls.__module__.startswith("mcp.") for cls in type(error).__mro__)


def _failure(tool: Tool[..., Any], error: BaseException) -> Reply:
    if isinstance(error, ToolError):
        text = str(error) or "The tool failed and gave no reason."
    else:
        _log.error("tool '%s' failed", tool.name, exc_info=error)
        text = _said(error)
    content = [{"type": "text", "text": text}]
    most = tool.options.max_chars
    return Reply(content if most is None else cut(content, most), is_error=True)


def _said(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be shown)"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
