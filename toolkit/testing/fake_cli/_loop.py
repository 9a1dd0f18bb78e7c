"""One prompt through the fake CLI: model calls and tool calls in turn, until there is a result.

What a run ends with is a part of the result frame, made by `_success` or `_error`;
the counts and the cost are added to it in one place.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolkit.testing.fake_cli import _frames
from toolkit.testing.fake_cli._calls import STRUCTURED, Caller, ToolCall
from toolkit.testing.fake_cli._frames import COUNTS, Frame
from toolkit.testing.model.request import Request
from toolkit.testing.model.stream import events, interrupts, message, pause
from toolkit.testing.model.turns import Status, Turn

if TYPE_CHECKING:
    from toolkit.testing.fake_cli.cli import FakeCLI

_STRUCTURED_TRIES = 5
# When the CLI ends a run for one of these, it leaves the last call out of `usage` (not out of `modelUsage`).
_FORGETS_LAST_CALL = ("error_max_budget_usd", "error_max_structured_output_retries")


class AgentLoop:
    """The prompts of one connection; totals go on from one prompt to the next."""

    def __init__(self, cli: FakeCLI, caller: Caller) -> None:
        self._cli = cli
        self._caller = caller
        self._totals: dict[str, dict[str, int]] = {}
        self._work: asyncio.Task[Frame] | None = None
        self._reset()

    def _reset(self) -> None:
        self._usage: list[Mapping[str, int]] = []
        self._user_frames = 0
        self._denials: list[Frame] = []
        self._calls: list[ToolCall] = []
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

    async def _converse(self, frame: Frame) -> Frame:
        for server in self._cli.settings.sdk_servers:
            await self._caller.servers.list_tools(server)
        content = frame["message"]["content"]
        hook = await self._caller.hooks.run("UserPromptSubmit", {"prompt": content})
        self._cli.say(_frames.init(self._cli.settings, sorted(self._caller.offered())))
        if hook.get("decision") == "block":
            reason = hook.get("reason", "")
            words = f"UserPromptSubmit operation blocked by hook:\n{reason}\n\nOriginal prompt: {content}"
            self._cli.say(_frames.informational(words, prevent_continuation=True))
            self._user_frames = -1
            return _success(words, reason=None)
        self._cli.echo(frame)
        added = hook.get("hookSpecificOutput", {}).get("additionalContext")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        reminder = [{"type": "text", "text": f"<system-reminder>\n{added}\n</system-reminder>"}] if added else []
        self._cli.messages.append({"role": "user", "content": [*blocks, *reminder]})
        await self._cli.perform(len(self._cli.script.requests))
        calls_made = 1
        while (end := await self._one_call(calls_made)) is None:
            calls_made += 1
        return end

    async def _one_call(self, calls_made: int) -> Frame | None:
        """Ask the model once and do what it wants; how the run ends, if that was all."""
        whole = await self._ask_the_model()
        if whole["type"] == "result":
            return whole
        if (limit := self._cli.settings.given.max_budget_usd) is not None and self._cost() > limit:
            words = f"Reached maximum budget (${limit:g})"
            return _error("error_max_budget_usd", "budget_exhausted", words, stop="tool_use")
        if not self._calls:
            end = await self._without_tools(whole)
        else:
            self._tell_results()
            end = self._after_tools(calls_made)
        await self._cli.perform(len(self._cli.script.requests))
        return end

    async def _ask_the_model(self) -> Frame:
        """One model call with its tools run, or an end; a call that is cut off is asked again, as one piece."""
        streamed = True
        while True:
            if self._cli.settings.partial:
                self._cli.say({"type": "system", "subtype": "status", "status": "requesting"})
            reply = self._cli.script.answer(self._request())
            if isinstance(reply, Status):
                frame, words = _frames.api_error(reply, self._cli.settings.model)
                self._cli.say(frame)
                reason = "image_error" if reply.code == 413 else "api_error"
                end = _success(words, reason=reason, stop="stop_sequence")
                return {**end, "is_error": True, "api_error_status": reply.code}
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
            ToolCall(block["id"], block["name"], dict(block.get("input", {})))
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
                self._cli.say(_frames.assistant(whole, whole["content"][event["index"]], streamed=streamed))
            if event["type"] == "message_delta" and self._calls:
                tools = asyncio.create_task(self._run_tools())
                await asyncio.sleep(0)
            if self._cli.settings.partial and streamed:
                self._cli.say({"type": "stream_event", "event": event, "parent_tool_use_id": None})
        self._streaming = None
        self._usage.append(whole["usage"])
        total = self._totals.setdefault(self._cli.settings.model, dict.fromkeys(COUNTS, 0))
        for name in COUNTS:
            total[name] += whole["usage"].get(name, 0)
        self._cli.messages.append({"role": "assistant", "content": whole["content"]})
        if tools is not None:
            try:
                await tools
            finally:
                tools.cancel()

    async def _run_tools(self) -> None:
        """Run the calls of one message in order, those that only read side by side."""
        for alone, group in itertools.groupby(self._calls, key=lambda call: not self._caller.reads_only(call)):
            if alone:
                for call in group:
                    await self._caller.run(call)
                    if call.stage == "interrupted":
                        self._interrupted = True
                        raise asyncio.CancelledError
            else:
                await asyncio.gather(*(self._caller.run(call) for call in group))

    def _after_tools(self, calls_made: int) -> Frame | None:
        done = next((call for call in self._calls if call.structured is not None), None)
        if done is not None:
            words = _frames.compact(done.structured)
            return {**_success(words, stop="tool_use"), "structured_output": done.structured}
        if any(call.stops for call in self._calls):
            return _success("", reason="hook_stopped", stop="tool_use")
        failed = [call.error for call in self._calls if call.name == STRUCTURED and call.error is not None]
        self._tries += len(failed)
        if failed and self._tries >= _STRUCTURED_TRIES:
            words = f"Failed to provide valid structured output after {self._tries} attempts"
            words += f" — last StructuredOutput error: {failed[-1]}"
            reason = "structured_output_retry_exhausted"
            return _error("error_max_structured_output_retries", reason, words, stop="tool_use")
        if (limit := self._cli.settings.given.max_turns) and calls_made >= limit:
            return _error("error_max_turns", "max_turns", f"Reached maximum number of turns ({limit})", stop="tool_use")
        return None

    async def _without_tools(self, whole: Frame) -> Frame | None:
        """The model wants nothing more: nudge, let the Stop hooks object, or end."""
        words = "".join(block.get("text", "") for block in whole["content"][-1:])
        if self._cli.settings.schema is not None and not self._nudged:
            self._nudged = True
            self._tell(_frames.NUDGE, isSynthetic=True)
            return None
        hook = await self._caller.hooks.run("Stop", {"stop_hook_active": False, "last_assistant_message": words})
        if hook.get("decision") == "block":
            self._tell(f"Stop hook feedback:\n{hook.get('reason', '')}", isSynthetic=True)
            return None
        return _success(words, stop=whole["stop_reason"])

    def _request(self) -> Request:
        tools = [
            {"name": name, "description": tool.get("description", ""), "input_schema": tool.get("inputSchema", {})}
            for name, tool in self._caller.offered().items()
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
            self._cli.say(_frames.user([call.block], tool_use_result=call.for_host))
        self._cli.messages.append({"role": "user", "content": results})

    def _tell(self, words: str, **extra: Any) -> None:
        """Say something to the model in the user's name."""
        content = [{"type": "text", "text": words}]
        self._user_frames += 1
        self._cli.say(_frames.user(content, **extra))
        self._cli.messages.append({"role": "user", "content": content})

    def _after_interrupt(self) -> Frame:
        if self._streaming is not None:
            self._tell("[Request interrupted by user]")
            if self._cli.settings.partial:
                for event in _frames.aborted(self._streaming["usage"]):
                    self._cli.say({"type": "stream_event", "event": event, "parent_tool_use_id": None})
            reason, stop = "aborted_streaming", None
        else:
            for call in self._calls:
                if call.block is None:
                    ran = call.stage == "running"
                    words = _frames.REJECTED + (_frames.STOPPED_RUNNING if ran else "")
                    call.fail(words, for_host="User rejected tool use", denied=not ran)
            self._tell_results()
            self._tell("[Request interrupted by user for tool use]")
            reason, stop = "aborted_tools", "tool_use"
        words = f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={stop or 'null'}"
        return _error("error_during_execution", reason, words, stop=stop)

    def _cost(self) -> float:
        return sum(_frames.cost(total["input_tokens"], total["output_tokens"]) for total in self._totals.values())

    def failed(self, words: str) -> Frame:
        """The result of a CLI that could not even begin."""
        self._user_frames = -1
        return self._result(_error("error_during_execution", None, words))

    def _result(self, end: Frame) -> Frame:
        counted = self._usage[:-1] if end["subtype"] in _FORGETS_LAST_CALL else self._usage
        return {
            **end,
            "duration_ms": 1,
            "duration_api_ms": 1,
            "num_turns": 1 + self._user_frames,
            "total_cost_usd": self._cost(),
            "usage": {name: sum(usage.get(name, 0) for usage in counted) for name in COUNTS},
            "modelUsage": {model: _model_usage(total) for model, total in self._totals.items()},
            "permission_denials": self._denials,
        }


def _success(result: str, *, reason: str | None = "completed", stop: str | None = None) -> Frame:
    end = {"type": "result", "subtype": "success", "is_error": False, "terminal_reason": reason, "stop_reason": stop}
    return {**end, "result": result, "api_error_status": None}


def _error(subtype: str, reason: str | None, words: str, *, stop: str | None = None) -> Frame:
    end = {"type": "result", "subtype": subtype, "is_error": True, "terminal_reason": reason, "stop_reason": stop}
    return {**end, "errors": [words]}


def _model_usage(total: Mapping[str, int]) -> Frame:
    return {
        "inputTokens": total["input_tokens"],
        "outputTokens": total["output_tokens"],
        "cacheReadInputTokens": total["cache_read_input_tokens"],
        "cacheCreationInputTokens": total["cache_creation_input_tokens"],
        "webSearchRequests": 0,
        "costUSD": _frames.cost(total["input_tokens"], total["output_tokens"]),
        "contextWindow": 1000000,
    }
