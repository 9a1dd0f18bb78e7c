"""One prompt through the fake CLI: model calls and tool calls in turn, until there is a result."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolkit.testing.fake_cli import frames
from toolkit.testing.fake_cli.calls import STRUCTURED, Call, Caller
from toolkit.testing.fake_cli.frames import Frame
from toolkit.testing.model.request import Request
from toolkit.testing.model.stream import events, interrupts, message, pause
from toolkit.testing.model.turns import Status, Turn

if TYPE_CHECKING:
    from toolkit.testing.fake_cli.cli import FakeCLI

_COUNTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_STRUCTURED_TRIES = 5


@dataclass(slots=True)
class End:
    """How a prompt ended."""

    subtype: str = "success"
    reason: str | None = "completed"
    stop_reason: str | None = None
    result: str | None = None
    errors: list[str] = field(default_factory=list)
    api_status: int | None = None
    structured: Any = None
    is_error: bool = False
    forgets_last_call: bool = False
    """The CLI leaves the last call out of `usage` (not out of `modelUsage`) when it ends a run itself."""


class Run:
    """The prompts of one connection; totals go on from one prompt to the next."""

    def __init__(self, cli: FakeCLI, caller: Caller) -> None:
        self._cli = cli
        self.caller = caller
        self._totals: dict[str, dict[str, int]] = {}
        self._listed = False
        self._work: asyncio.Task[End] | None = None
        self._reset()

    def _reset(self) -> None:
        self._usage: list[Mapping[str, int]] = []
        self._user_frames = 0
        self._denials: list[Frame] = []
        self._calls: list[Call] = []
        self._streaming: Mapping[str, Any] | None = None
        self._interrupted = False
        self._nudged = False
        self._tries = 0

    async def prompt(self, frame: Frame) -> Frame:
        """Answer one prompt; returns the result frame."""
        self._reset()
        self._work = asyncio.create_task(self._converse(frame))
        try:
            end = await self._work
        except asyncio.CancelledError:
            if not self._interrupted:
                raise
            end = self._after_interrupt()
        finally:
            self._work = None
        return self._result(end)

    async def interrupt(self) -> None:
        """Stop what is being done; the prompt ends with a result that says so."""
        if self._work is not None:
            self._interrupted = True
            self._work.cancel()
            await asyncio.wait([self._work], timeout=5)

    # -- the loop --------------------------------------------------------------

    async def _converse(self, frame: Frame) -> End:
        await self._list_tools()
        content = frame["message"]["content"]
        hook = await self.caller.hooks.run("UserPromptSubmit", {"prompt": content})
        self._say_init()
        if hook.get("decision") == "block":
            reason = hook.get("reason", "")
            words = f"UserPromptSubmit operation blocked by hook:\n{reason}\n\nOriginal prompt: {content}"
            self._cli.say(frames.informational(words, prevent_continuation=True))
            self._user_frames = -1
            return End(reason=None, result=words)
        self._cli.echo(frame)
        added = hook.get("hookSpecificOutput", {}).get("additionalContext")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        reminder = [{"type": "text", "text": f"<system-reminder>\n{added}\n</system-reminder>"}] if added else []
        self._cli.messages.append({"role": "user", "content": [*blocks, *reminder]})
        await self._cli.perform(len(self._cli.script.requests))
        for calls_made in itertools.count(1):
            end = await self._one_call(calls_made)
            if end is not None:
                return end
        raise AssertionError("unreachable")

    async def _one_call(self, calls_made: int) -> End | None:
        """Ask the model once and do what it wants; an End if that was all."""
        whole = await self._ask_the_model()
        if isinstance(whole, End):
            return whole
        if (limit := self._cli.settings.max_usd) is not None and self._cost() > limit:
            words = f"Reached maximum budget (${limit:g})"
            return _limit("error_max_budget_usd", "budget_exhausted", words, "tool_use", forgets=True)
        if not self._calls:
            end = await self._without_tools(whole)
        else:
            self._tell_results()
            end = self._after_tools(calls_made)
        await self._cli.perform(len(self._cli.script.requests))
        return end

    async def _ask_the_model(self) -> Frame | End:
        """One model call with its tools run; a call that is cut off is asked again, as one piece."""
        streamed = True
        while True:
            if self._cli.settings.partial:
                self._cli.say({"type": "system", "subtype": "status", "status": "requesting"})
            reply = self._cli.script.answer(self._request())
            if isinstance(reply, Status):
                frame, words = frames.api_error(reply, self._cli.settings.model)
                self._cli.say(frame)
                reason = "image_error" if reply.code == 413 else "api_error"
                return End(
                    reason=reason, stop_reason="stop_sequence", result=words, api_status=reply.code, is_error=True
                )
            await pause(reply)
            if reply.cut_after is None:
                break
            streamed = False
        whole = message(reply, self._cli.settings.model)
        await self._stream(reply, whole, streamed=streamed)
        return whole

    async def _stream(self, turn: Turn, whole: Frame, *, streamed: bool) -> None:
        """Say the blocks one by one; the tools start before the message ends, as they do in the CLI."""
        self._calls = [
            Call(block["id"], block["name"], dict(block.get("input", {})))
            for block in whole["content"]
            if block["type"] == "tool_use"
        ]
        self._streaming = whole
        tools: asyncio.Task[None] | None = None
        for blocks_sent, event in events(whole, turn.chunk):
            if interrupts(turn, blocks_sent, event):
                await asyncio.Event().wait()  # silent until the host interrupts or leaves
            if turn.pace:
                await asyncio.sleep(turn.pace)
            if event["type"] == "content_block_stop":
                self._cli.say(frames.assistant(whole, whole["content"][event["index"]], streamed=streamed))
            if event["type"] == "message_delta" and self._calls:
                tools = asyncio.create_task(self._run_tools())
                await asyncio.sleep(0)
            if self._cli.settings.partial and streamed:
                self._cli.say({"type": "stream_event", "event": event, "parent_tool_use_id": None})
        self._streaming = None
        self._count(whole["usage"])
        self._cli.messages.append({"role": "assistant", "content": whole["content"]})
        if tools is not None:
            try:
                await tools
            finally:
                tools.cancel()

    async def _run_tools(self) -> None:
        """Run the calls of one message in order, those that only read side by side."""
        for alone, group in itertools.groupby(self._calls, key=lambda call: not self.caller.reads_only(call)):
            if alone:
                for call in group:
                    await self.caller.run(call)
                    if call.stage == "interrupted":
                        self._interrupted = True
                        raise asyncio.CancelledError
            else:
                await asyncio.gather(*(self.caller.run(call) for call in group))

    def _after_tools(self, calls_made: int) -> End | None:
        done = next((call for call in self._calls if call.structured is not None), None)
        if done is not None:
            words = frames.compact(done.structured)
            return End(stop_reason="tool_use", result=words, structured=done.structured)
        if any(call.stops for call in self._calls):
            return End(reason="hook_stopped", stop_reason="tool_use", result="")
        failed = [call for call in self._calls if call.name == STRUCTURED and call.shown is not None]
        self._tries += len(failed)
        if failed and self._tries >= _STRUCTURED_TRIES:
            last = str(failed[-1].block["content"] if failed[-1].block else "")
            words = f"Failed to provide valid structured output after {self._tries} attempts"
            words += f" — last StructuredOutput error: {last}"
            reason = "structured_output_retry_exhausted"
            return _limit("error_max_structured_output_retries", reason, words, "tool_use", forgets=True)
        if (limit := self._cli.settings.max_turns) and calls_made >= limit:
            return _limit("error_max_turns", "max_turns", f"Reached maximum number of turns ({limit})", "tool_use")
        return None

    async def _without_tools(self, whole: Frame) -> End | None:
        """The model wants nothing more: nudge, let the Stop hooks object, or end."""
        words = "".join(block.get("text", "") for block in whole["content"][-1:])
        if self._cli.settings.schema is not None and not self._nudged:
            self._nudged = True
            self._note(frames.NUDGE, isSynthetic=True)
            return None
        hook = await self.caller.hooks.run("Stop", {"stop_hook_active": False, "last_assistant_message": words})
        if hook.get("decision") == "block":
            self._note(f"Stop hook feedback:\n{hook.get('reason', '')}", isSynthetic=True)
            return None
        return End(stop_reason=whole["stop_reason"], result=words)

    # -- frames ----------------------------------------------------------------

    async def _list_tools(self) -> None:
        if self._listed:
            return
        self._listed = True
        for name, config in self._cli.settings.servers.items():
            if config.get("type") == "sdk" and await self.caller.servers.connect(name):
                await self.caller.servers.tools_of(name)

    def _say_init(self) -> None:
        settings = self._cli.settings
        servers = [
            {"name": name, "status": "connected", "source": "sdk"}
            if config.get("type") == "sdk"
            else {"name": name, "status": "failed"}
            for name, config in settings.servers.items()
        ]
        tools = sorted(self.caller.offered())
        self._cli.say(
            frames.init(cwd=settings.cwd, tools=tools, servers=servers, model=settings.model, mode=settings.mode)
        )

    def _request(self) -> Request:
        tools = [
            {"name": name, "description": tool.get("description", ""), "input_schema": tool.get("inputSchema", {})}
            for name, tool in self.caller.offered().items()
        ]
        settings = self._cli.settings
        body = {"model": settings.model, "messages": list(self._cli.messages), "stream": True}
        # A call without tools would count as a side call; the fake CLI makes none.
        return Request({**body, "tools": tools or [{"name": "none"}], "metadata": {"user_id": self._cli.session}})

    def _tell_results(self) -> None:
        """One frame for every call's result, and one message for the model with all of them."""
        results = []
        for call in self._calls:
            assert call.block is not None
            results.append(call.block)
            self._user_frames += 1
            if call.denied:
                self._denials.append({"tool_name": call.name, "tool_use_id": call.id, "tool_input": call.input})
            self._cli.say(frames.user([call.block], tool_use_result=call.shown))
        self._cli.messages.append({"role": "user", "content": results})

    def _note(self, words: str, **extra: Any) -> None:
        self._user_frames += 1
        self._cli.say(frames.note(words, **extra))
        self._cli.messages.append({"role": "user", "content": [{"type": "text", "text": words}]})

    def _after_interrupt(self) -> End:
        if self._streaming is not None:
            self._note("[Request interrupted by user]")
            if self._cli.settings.partial:
                for event in frames.aborted(self._streaming["usage"]):
                    self._cli.say({"type": "stream_event", "event": event, "parent_tool_use_id": None})
            reason, stop = "aborted_streaming", None
        else:
            for call in self._calls:
                if call.block is None:
                    ran = call.stage == "running"
                    words = frames.REJECTED + (frames.STOPPED_RUNNING if ran else "")
                    call.refuse(words, shown="User rejected tool use", denied=not ran)
            self._tell_results()
            self._note("[Request interrupted by user for tool use]")
            reason, stop = "aborted_tools", "tool_use"
        words = f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={stop or 'null'}"
        return End("error_during_execution", reason, stop, errors=[words], is_error=True)

    # -- counting and the result -----------------------------------------------

    def _count(self, usage: Mapping[str, int]) -> None:
        self._usage.append(usage)
        total = self._totals.setdefault(self._cli.settings.model, dict.fromkeys(_COUNTS, 0))
        for name in _COUNTS:
            total[name] += usage.get(name, 0)

    def _cost(self) -> float:
        return sum(frames.cost(total["input_tokens"], total["output_tokens"]) for total in self._totals.values())

    def failed(self, words: str) -> Frame:
        """The result of a CLI that could not even begin."""
        self._user_frames = -1
        return self._result(End("error_during_execution", None, errors=[words], is_error=True))

    def _result(self, end: End) -> Frame:
        counted = self._usage[:-1] if end.forgets_last_call else self._usage
        sums = [sum(usage.get(name, 0) for usage in counted) for name in _COUNTS]
        frame: Frame = {
            "type": "result",
            "subtype": end.subtype,
            "is_error": end.is_error,
            "duration_ms": 1,
            "duration_api_ms": 1,
            "num_turns": 1 + self._user_frames,
            "stop_reason": end.stop_reason,
            "total_cost_usd": self._cost(),
            "usage": frames.usage(*sums),
            "modelUsage": {model: _model_usage(total) for model, total in self._totals.items()},
            "permission_denials": self._denials,
            "terminal_reason": end.reason,
        }
        if end.errors:
            return {**frame, "errors": end.errors}
        extra = {} if end.structured is None else {"structured_output": end.structured}
        return {**frame, "result": end.result, "api_error_status": end.api_status, **extra}


def _limit(subtype: str, reason: str, words: str, stop: str, *, forgets: bool = False) -> End:
    return End(subtype, reason, stop, errors=[words], is_error=True, forgets_last_call=forgets)


def _model_usage(total: Mapping[str, int]) -> Frame:
    return {
        "inputTokens": total["input_tokens"],
        "outputTokens": total["output_tokens"],
        "cacheReadInputTokens": total["cache_read_input_tokens"],
        "cacheCreationInputTokens": total["cache_creation_input_tokens"],
        "webSearchRequests": 0,
        "costUSD": frames.cost(total["input_tokens"], total["output_tokens"]),
        "contextWindow": 1000000,
    }
