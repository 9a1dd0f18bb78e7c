"""Scenarios drawn by hypothesis: turns, options, hooks and answers in combinations that nobody wrote down.

A drawn scenario is plain data, so that a failing one can be read and copied. Left out are the combinations whose
order is a race in the real CLI itself (interrupts, refusals while tools run), and those that make it compact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from claude_agent_sdk import ClaudeSDKClient
from hypothesis import strategies as st

from tests.real.playing import play
from tests.real.scenarios import (
    ANSWER,
    Scenario,
    allow,
    broken,
    decision,
    deny,
    deny_and_interrupt,
    hooks,
    once,
)
from toolkit.testing import FakeCLI, RealCLI, ScriptedAPI, Status, Turn, text, thinking, tool_use

_TOOLS = ("add", "fail", "structured", "two", "nothing", "resource", "gone")
_ANSWERS = {"allow": allow, "deny": deny, "interrupt": deny_and_interrupt, "broken": broken}
_DECISIONS: dict[str, Any] = {
    "allow": decision("allow"),
    "deny": decision("deny", permissionDecisionReason="no"),
    "ask": decision("ask", permissionDecisionReason="sure?"),
    "defer": decision("defer"),
    "rewrite": decision("allow", updatedInput={"title": "hook"}),
    "block": {"decision": "block", "reason": "no"},
    "stop": {"continue_": False},
    "deny and stop": {"continue_": False, **decision("deny", permissionDecisionReason="no")},
    "fail": RuntimeError("broken"),
}
_ERRORS = {
    "throttled": Status(429, message="slow down"),
    "overloaded": Status(529),
    "server error": Status(500),
    "no such model": Status(404),
    "forbidden": Status(403),
}


@dataclass(frozen=True)
class Said:
    """One answer of the model."""

    words: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    output: Any = None
    stop: str | None = None
    error: str | None = None
    tokens: int = 5

    def turn(self) -> Turn | Status:
        if self.error is not None:
            return _ERRORS[self.error]
        blocks = [thinking(word[1:]) if word.startswith("~") else text(word) for word in self.words]
        blocks += [tool_use(f"mcp__notes__{name}", title=name) for name in self.calls]
        if self.output is not None:
            blocks.append(tool_use("StructuredOutput", answer=self.output))
        return Turn(blocks, stop_reason=self.stop, usage={"output_tokens": self.tokens})


@dataclass(frozen=True)
class Drawn:
    """A scenario as plain data."""

    turns: tuple[Said, ...]
    prompts: int = 1
    mode: str = "bypassPermissions"
    then_mode: str | None = None
    answers: str | None = None
    before_tool: str | None = None
    only_for: str | None = None
    closed: bool = False
    after_tool_stops: bool = False
    stop_objects: bool = False
    streams: bool = False
    wants_output: bool = False
    max_turns: int | None = None
    allowed: tuple[str, ...] = ()
    disallowed: tuple[str, ...] = ()
    native: tuple[str, ...] | None = None

    def scenario(self) -> Scenario:
        options: dict[str, Any] = {"permission_mode": self.mode, "include_partial_messages": self.streams}
        options |= {"allowed_tools": list(self.allowed), "disallowed_tools": list(self.disallowed)}
        if self.answers is not None:
            options["can_use_tool"] = _ANSWERS[self.answers]
        if self.wants_output:
            options["output_format"] = ANSWER
        if self.max_turns is not None:
            options["max_turns"] = self.max_turns
        if self.native is not None:
            options["tools"] = list(self.native)
        options["hooks"] = self._hooks()
        return Scenario([one.turn() for one in self.turns], options, self._converse)

    def _hooks(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.before_tool is not None:
            more = {"on_failure": "block"} if self.closed else {}
            found |= hooks("PreToolUse", _DECISIONS[self.before_tool], matcher=self.only_for, **more)
        if self.after_tool_stops:
            found |= hooks("PostToolUse", {"continue_": False})
        if self.stop_objects:
            found |= once("Stop", {"decision": "block", "reason": "more"})
        return found

    async def _converse(self, client: ClaudeSDKClient) -> list[Any]:
        heard: list[Any] = []
        for number in range(self.prompts):
            if number and self.then_mode is not None:
                await client.set_permission_mode(self.then_mode)  # type: ignore[arg-type]
            await client.query(f"prompt {number}")
            heard += [message async for message in client.receive_response()]
        return heard


def _said(wants_output: bool) -> st.SearchStrategy[Said]:
    words = st.lists(st.sampled_from(["hello", "ünïcödé", "~hm", "a b c"]), min_size=1, max_size=3).map(tuple)
    calls = st.lists(st.sampled_from(_TOOLS), min_size=1, max_size=3).map(tuple)
    kinds = [
        st.builds(Said, words, tokens=st.integers(1, 900)),
        st.builds(Said, words, calls, tokens=st.integers(1, 900)),
        st.builds(Said, st.just(()), calls),
        st.builds(Said, words, stop=st.sampled_from(["max_tokens", "refusal", "stop_sequence"])),
        st.builds(Said, error=st.sampled_from(sorted(_ERRORS))),
    ]
    if wants_output:
        kinds.append(st.builds(Said, words, output=st.sampled_from([3, "x"])))
    return st.one_of(kinds)


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    """Any scenario."""
    wants_output = draw(st.sampled_from([False, False, True]))
    mode = draw(st.sampled_from(["bypassPermissions", "default", "dontAsk", "acceptEdits"]))
    return Drawn(
        turns=tuple(draw(st.lists(_said(wants_output), min_size=1, max_size=4))),
        prompts=draw(st.integers(1, 2)),
        mode=mode,
        then_mode=draw(st.sampled_from([None, "default", mode])),
        answers=draw(st.sampled_from([None, *_ANSWERS])),
        before_tool=draw(st.sampled_from([None, None, *_DECISIONS])),
        only_for=draw(st.sampled_from([None, "mcp__notes__add", "mcp__notes__(two|fail)"])),
        closed=draw(st.booleans()),
        after_tool_stops=draw(st.sampled_from([False, False, True])),
        stop_objects=draw(st.sampled_from([False, False, True])),
        streams=draw(st.booleans()),
        wants_output=wants_output,
        max_turns=draw(st.sampled_from([None, None, 1, 2])),
        allowed=draw(st.sampled_from([(), ("mcp__notes",), ("mcp__notes__add",)])),
        disallowed=draw(st.sampled_from([(), (), ("mcp__notes__two",)])),
        native=draw(st.sampled_from([None, (), ("Read",)])),
    )


async def played_by_both(one: Drawn) -> tuple[list[Any], list[Any]]:
    """What the host saw and what the model was told: with the real CLI, and with the fake one."""
    scenario, rest = one.scenario(), [text("the rest")]
    async with ScriptedAPI(*scenario.turns, otherwise=rest, strict=False) as api, RealCLI(api) as cli:
        real = [_settled(await play(scenario, cli)), api.tool_results() if api.requests else []]
    scenario = one.scenario()
    with FakeCLI(*scenario.turns, otherwise=rest, strict=False) as cli_played:
        fake = [_settled(await play(scenario, cli_played)), cli_played.tool_results() if cli_played.requests else []]
    return real, fake


def _settled(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With what tools gave after the whole message that asked for them: a fast tool overtakes its last events."""
    settled: list[dict[str, Any]] = []
    late: list[dict[str, Any]] = []
    message = None
    for entry in seen:
        of = entry.get("message_id") or ((entry.get("event") or {}).get("message") or {}).get("id")
        if entry.get("kind") in ("AssistantMessage", "StreamEvent") and (of is None or of == message):
            settled.append(entry)
        elif of is not None or "raised" in entry:
            settled, late, message = [*settled, *late, entry], [], of
        else:
            late.append(entry)
    return settled
