"""One prompt through the fake CLI: model calls and tool calls in turn, until there is a result.

What a run ends with is a part of the result frame, made by `_frames.success` or `_frames.error`;
the counts and the cost are added to it in one place.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolkit.testing.fake_cli import _frames, _refusals
from toolkit.testing.fake_cli._calls import STRUCTURED, Caller, ToolCall
from toolkit.testing.fake_cli._frames import COUNTS, Frame
from toolkit.testing.fake_cli._host import merged
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
        self._said: list[ToolCall] = []
        """Those whose results the host was told, in that order."""
        self._streaming: Mapping[str, Any] | None = None
        self._interrupted = False
        self._nudged = False
        self._goes_on = False
        """Whether the model was made to go on when it wanted to end."""
        self._tries = 0
        self._turns = 1
        self._cuts = 0
        self._refused = False
        self._blank = False

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
        answers, remarks = await self._caller.hooks.answers("UserPromptSubmit", {"prompt": content})
        self._cli.say(_frames.init(self._cli.settings, sorted(self._caller.offered())))
        for remark in remarks:
            self._cli.say(remark)
        kept_back = next(filter(None, (_refusals.kept_back(answer, content) for answer in answers)), None)
        if kept_back is not None:
            self._cli.say(kept_back)
            self._user_frames = -1
            return _frames.success(kept_back["content"], reason=None)
        self._cli.echo(frame)
        added = merged(answers).get("hookSpecificOutput", {}).get("additionalContext")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        reminder = [{"type": "text", "text": f"<system-reminder>\n{added}\n</system-reminder>"}] if added else []
        missing = [_missing(call) for call in _unanswered(self._cli.messages)]
        if missing and self._cli.messages[-1]["role"] == "user":  # the results of the calls beside them
            missing, before = [], [*missing, *self._cli.messages[-1]["content"]]
            self._cli.messages[-1] = {**self._cli.messages[-1], "content": before}
        self._cli.messages.append({"role": "user", "content": [*missing, *blocks, *reminder]})
        await self._cli.perform(len(self._cli.script.requests))
        while (end := await self._one_call()) is None:
            pass
        return end

    async def _one_call(self) -> Frame | None:
        """Ask the model once and do what it wants; how the run ends, if that was all."""
        whole = await self._ask_the_model()
        if whole["type"] == "result":
            return whole
        if self._is_over_budget():
            words = f"Reached maximum budget (${self._cli.settings.given.max_budget_usd:g})"
            return _frames.error("error_max_budget_usd", "budget_exhausted", words, stop=whole["stop_reason"])
        if whole["stop_reason"] == "refusal":
            end = self._after_refusal(whole)
        elif not self._calls and whole["stop_reason"] == "max_tokens":
            end = self._after_cut()
        elif not self._blank and _is_blank(whole):
            self._blank, end = True, None
            self._tell(_refusals.BLANK, isSynthetic=True)
        elif not self._calls:
            end = await self._without_tools(whole)
            self._turns += 1
        else:
            self._tell_results()
            end = await self._after_tools()
            self._turns += 1
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
                frame, words, reason = _refusals.api_error(reply, self._cli.settings.model)
                self._cli.say(frame)
                end = _frames.success(words, reason=reason, stop="stop_sequence")
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
        self._said = []
        self._streaming = whole
        tools: asyncio.Task[None] | None = None
        for blocks_sent, event in events(whole, turn.chunk):
            if interrupts(turn, blocks_sent, event):
                await asyncio.Event().wait()  # silent until the host interrupts or leaves
            if turn.pace:
                await asyncio.sleep(turn.pace)
            if event["type"] == "content_block_stop":
                block = whole["content"][event["index"]]
                self._cli.say(_frames.assistant(whole, block, streamed=streamed))
                self._refuse_at_once(block)
            if event["type"] == "message_delta":
                self._count(whole["usage"])
            if event["type"] == "message_delta" and whole["stop_reason"] == "refusal":
                self._withhold(whole)
            elif event["type"] == "message_delta" and self._calls:
                tools = asyncio.create_task(self._run_tools())
                await asyncio.sleep(0)
            if self._cli.settings.partial and streamed:
                self._cli.say({"type": "stream_event", "event": event, "parent_tool_use_id": None})
        self._streaming = None
        self._cli.messages.append({"role": "assistant", "content": whole["content"]})
        if tools is not None:
            try:
                await tools
            finally:
                tools.cancel()

    def _count(self, usage: Mapping[str, int]) -> None:
        self._usage.append(usage)
        total = self._totals.setdefault(self._cli.settings.model, dict.fromkeys(COUNTS, 0))
        for name in COUNTS:
            total[name] += usage.get(name, 0)

    def _refuse_at_once(self, block: Frame) -> None:
        """What is refused without anybody being asked is refused before the next block."""
        call = next((call for call in self._calls if call.id == block.get("id")), None)
        if call is None:
            return
        waits = any(before.block is None for before in self._calls[: self._calls.index(call)])
        if self._caller.refuses_at_once(call, only_if_missing=waits):
            self._say_what_is_done()

    async def _run_tools(self) -> None:
        """Run the calls of one message in order, those that only read side by side."""
        for alone, group in itertools.groupby(self._calls, key=lambda call: not self._caller.reads_only(call)):
            calls_of_group = list(group)
            for calls in [[call] for call in calls_of_group] if alone else [calls_of_group]:
                await asyncio.gather(*(self._run(call) for call in calls))
                if any(call.stage == "interrupted" for call in calls):
                    self._interrupted = True
                    raise asyncio.CancelledError

    async def _run(self, call: ToolCall) -> None:
        """Run a call, and tell the host of results."""
        await self._caller.run(call)
        await asyncio.sleep(0)  # what is refused beside it is refused first
        if not self._is_over_budget():
            self._say_what_is_done()

    def _say_what_is_done(self) -> None:
        """The results so far, in order; only a call that runs alone holds back those behind it."""
        is_first = True
        for call in self._calls:
            if call.block is not None:
                self._say_result(call)
            elif call.stage != "deferred":
                if is_first and not self._caller.reads_only(call):
                    return
                is_first = False

    def _withhold(self, whole: Frame) -> None:
        """The model was stopped: what it asked for is not done, and the second time the CLI gives up."""
        reads = list(itertools.takewhile(self._caller.reads_only, self._calls))
        begun = [call for call in reads or self._calls[:1] if self._caller.is_allowed(call)]
        for call in self._calls:
            words = _refusals.INTERRUPTED if call in begun else _refusals.NOT_RUN
            call.fail(words, for_host=words, denied=call not in begun and not self._caller.is_allowed(call))
        if self._refused:
            self._cli.say({"type": "system", "subtype": "model_refusal_no_fallback", "content": ""})
            self._cli.say(_refusals.refused(whole)[0])

    def _after_refusal(self, whole: Frame) -> Frame | None:
        if self._calls:
            self._tell_results()
        if self._refused:
            _, words = _refusals.refused(whole)
            return {**_frames.success(words, reason="api_error", stop="refusal"), "is_error": True}
        self._refused = True
        self._cli.say(_frames.informational(_refusals.continuing(self._cli.settings.model)))
        was_running = any(call.error == _refusals.INTERRUPTED for call in self._calls)
        self._tell(_refusals.withheld(was_running=was_running), isSynthetic=True)
        return None

    def _after_cut(self) -> Frame | None:
        self._cuts += 1
        if self._cuts <= _refusals.MOST_CUTS:
            self._tell(_refusals.CUT, isSynthetic=True)
            return None
        frame, words = _refusals.cut_too_often()
        self._cli.say(frame)
        return {**_frames.success(words, reason="api_error", stop="stop_sequence"), "is_error": True}

    async def _after_tools(self) -> Frame | None:
        self._cuts, self._blank = 0, False
        deferred = [call for call in self._calls if call.stage == "deferred"]
        if deferred:
            waits = {name: getattr(deferred[-1], name) for name in ("id", "name", "input")}
            return {**_frames.success("", reason="tool_deferred", stop="tool_deferred"), "deferred_tool_use": waits}
        stops = any(call.stops for call in self._calls)
        done = next((call for call in self._calls if call.structured is not None), None)
        if done is not None:
            if not stops:
                await self._stop_hooks()  # they are told, and have no say
            words, reason = _frames.compact(done.structured), "hook_stopped" if stops else "completed"
            return {**_frames.success(words, reason=reason, stop="tool_use"), "structured_output": done.structured}
        if stops:
            return _frames.success("", reason="hook_stopped", stop="tool_use")
        failed = [call.error for call in self._calls if call.name == STRUCTURED and call.error is not None]
        self._tries += len(failed)
        if failed and self._tries >= _STRUCTURED_TRIES:
            words = f"Failed to provide valid structured output after {self._tries} attempts"
            words += f" — last StructuredOutput error: {failed[-1]}"
            reason = "structured_output_retry_exhausted"
            return _frames.error("error_max_structured_output_retries", reason, words, stop="tool_use")
        return self._out_of_turns("tool_use")

    async def _without_tools(self, whole: Frame) -> Frame | None:
        """The model wants nothing more: nudge, let the Stop hooks object, or end."""
        words = "".join(block.get("text", "") for block in whole["content"][-1:])
        hook = await self._stop_hooks(words)
        nudges = self._cli.settings.schema is not None and not self._nudged
        objects = hook.get("decision") == "block"
        if nudges:
            self._nudged = True
            self._tell(_frames.NUDGE, isSynthetic=True)
        if objects:
            self._tell(f"Stop hook feedback:\n{hook.get('reason', '')}", isSynthetic=True)
        if hook.get("continue") is False:
            words = "" if nudges or objects else words
            return _frames.success(words, reason="stop_hook_prevented", stop=whole["stop_reason"])
        if nudges or objects:
            self._goes_on = True
            return self._out_of_turns(whole["stop_reason"])
        return _frames.success(words, stop=whole["stop_reason"])

    async def _stop_hooks(self, words: str | None = None) -> Frame:
        said = {} if words is None else {"last_assistant_message": words}
        return await self._caller.hooks.run("Stop", {"stop_hook_active": self._goes_on, **said})

    def _out_of_turns(self, stop: str) -> Frame | None:
        if not (limit := self._cli.settings.given.max_turns) or self._turns < limit:
            return None
        words = f"Reached maximum number of turns ({limit})"
        return {**_frames.error("error_max_turns", "max_turns", words, stop=stop), "num_turns": limit + 1}

    def _request(self) -> Request:
        tools = [
            {"name": name, "description": tool.get("description", ""), "input_schema": tool.get("inputSchema", {})}
            for name, tool in self._caller.offered().items()
        ]
        settings = self._cli.settings
        body = {"model": settings.model, "messages": list(self._cli.messages), "stream": True}
        body["thinking"] = _frames.thinking(settings.thinking_tokens)
        # A call without tools would count as a side call; the fake CLI makes none.
        return Request({**body, "tools": tools or [{"name": "none"}], "metadata": {"user_id": self._cli.session}})

    def _tell_results(self) -> None:
        """One frame for every call's result, and one message for the model with all of them."""
        for call in self._calls:
            self._say_result(call)
        if results := [call.block for call in self._said if call.block is not None]:
            self._cli.messages.append({"role": "user", "content": results})

    def _say_result(self, call: ToolCall) -> None:
        """The result of a call for the host, once; a call that is deferred has none."""
        if call.block is None or call.told:
            return
        call.told = True
        self._said.append(call)
        self._user_frames += 1
        if call.denied:
            self._denials.append({"tool_name": call.name, "tool_use_id": call.id, "tool_input": call.input})
        self._cli.say(_frames.user([call.block], tool_use_result=call.for_host))

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
            asked = any(call.stage == "interrupted" for call in self._calls)
            for call in self._calls:
                if call.block is None:
                    ran = call.stage == "running"
                    words = _frames.REJECTED + (_frames.STOPPED_RUNNING if ran else "")
                    call.fail(words, for_host="User rejected tool use", denied=not ran and not asked)
            self._tell_results()
            self._tell("[Request interrupted by user for tool use]")
            reason, stop = "aborted_tools", "tool_use"
            if (end := self._out_of_turns(stop)) is not None:
                return {**end, "terminal_reason": reason}
        words = f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={stop or 'null'}"
        return _frames.error("error_during_execution", reason, words, stop=stop)

    def _is_over_budget(self) -> bool:
        limit = self._cli.settings.given.max_budget_usd
        return limit is not None and self._cost() > limit

    def _cost(self) -> float:
        return sum(_frames.cost(total["input_tokens"], total["output_tokens"]) for total in self._totals.values())

    def failed(self, words: str) -> Frame:
        """The result of a CLI that could not even begin."""
        self._user_frames = -1
        return self._result(_frames.error("error_during_execution", None, words))

    def _result(self, end: Frame) -> Frame:
        counted = self._usage[:-1] if end["subtype"] in _FORGETS_LAST_CALL else self._usage
        return {
            "num_turns": 1 + self._user_frames,
            **end,
            "duration_ms": 1,
            "duration_api_ms": 1,
            "total_cost_usd": self._cost(),
            "usage": {name: sum(usage.get(name, 0) for usage in counted) for name in COUNTS},
            "modelUsage": {model: _frames.model_usage(total) for model, total in self._totals.items()},
            "permission_denials": self._denials,
        }


def _is_blank(whole: Frame) -> bool:
    """Whether a message says nothing that anybody can see."""
    return not any(block["type"] == "tool_use" or block.get("text", "").strip() for block in whole["content"])


def _unanswered(messages: Sequence[Frame]) -> list[str]:
    """The ids of tool calls that never got a result: those that were deferred."""
    blocks = [block for message in messages if isinstance(message["content"], list) for block in message["content"]]
    answered = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
    return [block["id"] for block in blocks if block["type"] == "tool_use" and block["id"] not in answered]


def _missing(call: str) -> Frame:
    words = "[Tool result missing due to internal error]"
    return {"type": "tool_result", "content": words, "is_error": True, "tool_use_id": call}
