"""Call one tool of a target as a client would, and say for a person what went wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit._base.words import nearest
from toolkit.errors import ArgumentsError, TargetError, ToolkitError
from toolkit.tools import Reply, Tool, ToolContext
from toolkit_servers.offering import offers_more_than_tools
from toolkit_servers.target._key_values import parse_arguments, usage
from toolkit_servers.target._load import Target
from toolkit_servers.target._problems import user_lines

if TYPE_CHECKING:
    from toolkit.tools import Contents, Messages, Toolbox

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A call's reply, and what to tell the person who made it."""

    reply: Reply | Contents | Messages
    """Of a tool, a resource or a prompt."""
    problem: str = ""
    """What went wrong, where, and what to do; empty when nothing did."""
    was_called: bool = True
    """False where the arguments did not fit, so that nothing ran."""

    @property
    def text(self) -> str:
        """What the model reads, with a line in place of everything that is not text."""
        return "\n".join(_lines(self.reply))


def call_once(target: Target, tool_name: str, words: Sequence[str], *, say: Say) -> Outcome:
    """Call a tool with `key=value` words; progress and log messages go to `say`.

    A prompt is got by its name in the same way, and a resource read by its URI.

    Raises:
        TargetError: the target has no such tool.
        MistypedArguments: a word is not `key=value`.
    """
    tool = target.toolbox.tools.get(tool_name)
    if tool is None and offers_more_than_tools(target.toolbox):
        offered = _offered(target.toolbox, tool_name, words)
        if offered is not None:
            return offered
    if tool is None:
        raise _no_such_tool(target, tool_name)
    arguments = parse_arguments(words, tool.input_schema)
    try:
        tool.arguments.parse(arguments)
    except ArgumentsError as error:
        what, *details = str(error).splitlines()
        problem = ToolkitError(
            what,
            where=[*details, tool.source_line],
            fix=f"Usage: toolkit call {target.spec} {tool_name} {usage(tool.input_schema)}".rstrip(),
        )
        return Outcome(Reply.error(str(error)), str(problem), was_called=False)
    context = ToolContext(on_progress=_progress_to(say), on_log=lambda level, message, data: say(f"{level}: {message}"))
    log, failures = logging.getLogger("toolkit"), _Failures()
    log.addHandler(failures)
    try:
        reply = asyncio.run(target.toolbox.call(tool_name, arguments, context))
    except Exception as error:  # a protocol error; every other failure is a reply
        what = f"{tool_name} answered with protocol error {getattr(error, 'code', '')}: {error}"
        return Outcome(Reply.error(str(error)), what)
    finally:
        log.removeHandler(failures)
    if not reply.is_error:
        return Outcome(reply)
    return Outcome(reply, _problem(tool, reply, failures.error, target))


def _offered(box: Toolbox, name: str, words: Sequence[str]) -> Outcome | None:
    """What a prompt or a resource of this name gives; None where the box has neither."""
    found: Contents | Messages
    if name in box.prompts:
        arguments = parse_arguments(words, box.prompts[name].arguments.schema)
        found = asyncio.run(box.get_prompt(name, arguments))
    elif ":" in name and box.resources:
        found = asyncio.run(box.read(name))
    else:
        return None
    return Outcome(found, found.problem)


def _lines(reply: Reply | Contents | Messages) -> list[str]:
    if isinstance(reply, Reply):
        return [_as_text(block) for block in reply.content]
    if hasattr(reply, "messages"):
        return [f"{each['role']}: {_as_text(each['content'])}" for each in reply.messages]
    parts = [(part, part.get("mimeType", "unknown type")) for part in reply.contents]
    return [part["text"] if "text" in part else f"[{mime}, {_size(part['blob'])}]" for part, mime in parts]


def _no_such_tool(target: Target, name: str) -> TargetError:
    near = nearest(name, target.toolbox.tools)
    return TargetError(
        f"{target.spec} has no tool '{name}'",
        target=target.spec,
        where=[tool.source_line for tool in target.toolbox][:8],
        fix=f"Did you mean {near}?" if near else f"See its tools with: toolkit inspect {target.spec}",
        is_mistyped=True,
    )


def _problem(tool: Tool[..., Any], reply: Reply, error: BaseException | None, target: Target) -> str:
    if error is None:  # the tool itself says what is wrong: ToolError, or a result that is not ok
        return reply.text
    return str(
        ToolkitError(
            f"{tool.name} failed: {reply.text}",
            where=user_lines(error, target.folder, Path.cwd()) or [tool.source_line],
            fix='Correct that line, or raise ToolError("…") to tell the model what to do instead',
        )
    )


class _Failures(logging.Handler):
    """Keeps the exception a tool call logs, and prints nothing."""

    error: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.error = record.exc_info[1] or self.error


def _progress_to(say: Say) -> Callable[[float, float | None, str | None], None]:
    def report(done: float, total: float | None, message: str | None) -> None:
        share = f"{done:g}" if total is None else f"{done:g}/{total:g}"
        say(f"progress: {share}{f' {message}' if message else ''}")

    return report


def _as_text(block: dict[str, Any]) -> str:
    match block["type"]:
        case "text":
            return str(block["text"])
        case "image" | "audio":
            return f"[{block['type']}: {block['mimeType']}, {_size(block['data'])}]"
        case "resource":
            resource = block["resource"]
            body = resource["text"] if "text" in resource else f"[{_size(resource['blob'])}]"
            return f"[resource: {resource['uri']}, {resource.get('mimeType', 'unknown type')}]\n{body}"
        case "resource_link":
            return f"[link: {block['uri']}]"
    return f"[{block['type']}]"


def _size(base64_text: str) -> str:
    return f"{len(base64_text) * 3 // 4 - base64_text[-2:].count('='):,} bytes"
