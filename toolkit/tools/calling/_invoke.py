"""Run a served function once: arguments in, one finished value out, whatever the function does.

A sync function runs in a thread of its own, an async one where it is awaited.
Every failure of the function becomes words for the client, `sys.exit()` included; only
the caller's own cancellation and a protocol error pass through.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from toolkit.errors import ArgumentsError, ToolError
from toolkit.tools.calling._render import cut
from toolkit.tools.calling._workers import poster, workers
from toolkit.tools.content import Reply
from toolkit.tools.context import ToolContext
from toolkit.tools.plain_json import excerpt, sendable
from toolkit.tools.workspace_path import in_call

if TYPE_CHECKING:
    from toolkit.tools.served import Served
    from toolkit.tools.typed_tool import Tool

T = TypeVar("T")
_log = logging.getLogger("toolkit.tools")


class CallFailed(Exception):
    """A call that came to nothing; its text is what the client reads."""


class AnswerNeeded(BaseException):
    """Unwinds a function that waits for an answer of the client's; no `except Exception` of the user's takes it."""


class NotCalled(CallFailed):
    """The arguments do not fit: the function was not called."""


async def invoke(tool: Tool[..., Any], arguments: Mapping[str, Any] | None, context: ToolContext) -> Reply:
    """The reply to one call, as any client reads it; never raises but for cancellation and a protocol error."""
    try:
        reply = await carry_out(tool, arguments, context, tool.reply, tool.options.timeout)
    except CallFailed as failure:
        reply = _failure(tool, str(failure))
    return sendable(context.retold(reply))


async def carry_out(
    served: Served[..., Any],
    arguments: Mapping[str, Any] | None,
    context: ToolContext,
    finish: Callable[[Any], T],
    timeout: float | None,
) -> T:
    """Call a served function as a client does, and `finish` its value in the same thread.

    Raises:
        CallFailed: whatever went wrong in it, in words.
    """
    parameters = served.arguments
    if arguments is not None and not isinstance(arguments, Mapping):
        raise NotCalled(f"{served.name} was not called: its arguments are an object, not {excerpt(arguments)}")
    for name in arguments or ():
        if not isinstance(name, str):
            raise NotCalled(f"{served.name} was not called: an argument's name is a text, not {excerpt(name)}")
    try:
        with in_call(context):
            values = parameters.parse(arguments)
    except ArgumentsError as error:
        raise NotCalled(str(error)) from error
    if parameters.context_parameter is not None:
        values[parameters.context_parameter] = context
    context.attach(poster())
    try:
        return await _within_limits(served, values, context, finish, timeout)
    except BaseException as error:
        # Also SystemExit: a tool that calls sys.exit() fails alone and does not take the server with it.
        if _is_cancellation(error):
            context.cancel()
            await _raise_if_ours(error)
        if _is_protocol_error(error) or isinstance(error, CallFailed) or waits_for_answer(error):
            raise
        raise CallFailed(_in_words(served, error)) from error


async def _within_limits(
    served: Served[..., Any],
    values: dict[str, Any],
    context: ToolContext,
    finish: Callable[[Any], T],
    limit: float | None,
) -> T:
    if context.deadline is not None:
        remaining = context.deadline.remaining()
        limit = remaining if limit is None else min(limit, remaining)
    if limit is None:
        return await _run(served, values, finish)
    import anyio  # here and below for a call that needs it: it is half of what a first call would load

    with anyio.move_on_after(limit) as scope:
        return await _run(served, values, finish)
    assert scope.cancelled_caught
    context.cancel()
    raise CallFailed(f"{served.name} was stopped: it took longer than {limit:g} s")


async def _run(served: Served[..., Any], values: dict[str, Any], finish: Callable[[Any], T]) -> T:
    if not served.is_async:
        value, is_finished = await workers.run(lambda: _in_thread(served, values, finish))
        if is_finished:
            finished: T = value
            return finished
    else:
        value = served.function(**values)
    if inspect.isawaitable(value):
        value = await value
    if isinstance(value, AsyncIterator):
        value = [item async for item in value]
    return finish(_collected(value))


def _in_thread(served: Served[..., Any], values: dict[str, Any], finish: Callable[[Any], T]) -> tuple[Any, bool]:
    """Everything that runs the user's code stays in the thread; only what must be awaited comes back as a value."""
    value = served.function(**values)
    if inspect.isawaitable(value) or isinstance(value, AsyncIterator):
        return value, False
    return finish(_collected(value)), True


def _collected(value: Any) -> Any:
    return list(value) if isinstance(value, Iterator) and not hasattr(value, "render") else value


def _is_cancellation(error: BaseException) -> bool:
    """Whether it is the cancellation of asyncio or of trio, which is told by name: nobody need have it."""
    return isinstance(error, asyncio.CancelledError) or (
        type(error).__name__ == "Cancelled" and type(error).__module__.startswith("trio")
    )


async def _raise_if_ours(error: BaseException) -> None:
    """Pass on a cancellation that was meant for this call; one that the tool made up itself is its failure."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # trio cancels by scope only
        raise error from None
    if task is not None and task.cancelling() > 0:
        raise error
    import anyio.lowlevel

    await anyio.lowlevel.checkpoint_if_cancelled()


def waits_for_answer(error: BaseException) -> bool:
    """Whether a function ended because it needs an answer, maybe in several tasks."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(AnswerNeeded) is not None
    return isinstance(error, AnswerNeeded)


def _is_protocol_error(error: BaseException) -> bool:
    """Whether it is mcp's MCPError, an answer to the request itself; told by name, as this room imports no mcp."""
    return any(cls.__name__ == "MCPError" and cls.__module__.startswith("mcp.") for cls in type(error).__mro__)


def _in_words(served: Served[..., Any], error: BaseException) -> str:
    if isinstance(error, ToolError):
        return str(error) or f"The {served.kind} failed and gave no reason."
    _log.error("%s '%s' failed", served.kind, served.name, exc_info=error)
    return _said(error)


def _failure(tool: Tool[..., Any], text: str) -> Reply:
    content = [{"type": "text", "text": text}]
    most = tool.options.max_chars
    return Reply(content if most is None else cut(content, most), is_error=True)


def _said(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be shown)"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
