"""The one hook before every tool call: it lets a call pass, or refuses it and says why. Fails closed.

A refusal alone does not end a run: the model goes on. So past a limit the guard
refuses and stops, and the result tells which limit it was. Until the CLI has shown
that it runs as it was told to, nothing passes at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from toolkit.runs.outcome.codes import Code

if TYPE_CHECKING:
    from claude_agent_sdk import HookMatcher

    from toolkit.runs.asking.own_hooks import OwnHooks
    from toolkit.tools import Budget, Deadline


_LONGEST_WAIT = 7 * 24 * 3600.0
"""Seconds that a tool call may wait for its verdict."""


@dataclass(frozen=True, slots=True)
class GuardHook:
    """The guard as a hook, in the words of the SDK's `HookMatcher`, which takes a while to load."""

    hooks: tuple[Callable[..., Awaitable[Any]], ...]
    matcher: None = None
    on_failure: Literal["block"] = "block"
    timeout: float = _LONGEST_WAIT


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to become of one tool call."""

    allowed: bool
    reason: str = ""
    stops: Code | None = None
    """End the run with this code."""
    arguments: Mapping[str, Any] | None = None
    """Run it with these arguments instead."""
    defers: bool = False
    """Not allowed and not refused: the turn ends, and the call is the caller's to answer."""


ALLOW = Verdict(True)
Rule = Callable[[str, Mapping[str, Any], str], Awaitable[Verdict]]
"""A check of one call: tool name, arguments, call id."""


class Guard:
    """Asks its rules in order; the first that does not allow decides."""

    def __init__(self, rules: list[Rule], denied: dict[str, str]) -> None:
        self._rules = rules
        self._denied = denied
        self.stopped: Code | None = None
        """Why the guard ended the run, once it has."""
        self.judged: dict[str, bool] = {}
        """Every call that the guard was asked about, and whether it may run."""
        self.tools: dict[str, str] = {}
        """The names of the tools that these calls are of."""
        self.agents: dict[str, str] = {}
        """The subagents whose calls were judged, by call."""
        self.deferred: dict[str, tuple[str, dict[str, Any]]] = {}
        """The calls of this turn that were left to the caller: name and arguments, by id."""
        self.armed = False
        """False until the CLI is known to be confined: every call is refused."""
        self.resumed_in: str | None = None
        """With a session that goes on: the permission mode in which the CLI may answer what that session left over."""
        self.continues = False
        """Whether the CLI has begun with a call that the session had left over, before the prompt of this run."""
        self.on_left_over: Callable[[str, str, Mapping[str, Any]], None] = lambda call, tool, arguments: None
        """Told of that call: no message announces it."""

        self.own: OwnHooks | None = None
        """The caller's hooks, asked of what the rules let pass."""

    def hooks(self) -> dict[str, Sequence[GuardHook | HookMatcher]]:
        """The hooks of the run, by event: this one, and those of the caller."""
        # The CLI lets a tool run when its hook fails, unless it is told to block. It also has a patience of its own
        # with hooks; ours may wait for a person, and ends with the turn.
        hook = GuardHook((self._before_tool,))
        return {"PreToolUse": [hook], **({} if self.own is None else self.own.others)}

    def begin_turn(self) -> None:
        """Let calls pass again that only the turn before had to do without: its time was up, or somebody ended it."""
        self.deferred.clear()
        if self.stopped in ("deadline", "stopped"):
            self.stopped = None

    def stop(self, code: Code) -> None:
        """Let nothing pass any more, and remember why."""
        self.stopped = self.stopped or code

    async def _before_tool(self, given: Any, call: str | None, context: Any) -> Any:
        call_id = str(call or given.get("tool_use_id") or "")
        if given.get("agent_id"):
            self.agents[call_id] = str(given["agent_id"])
        # A deferred call is taken up again before the CLI greets; the hook itself tells the mode then.
        is_left_over = not self.armed and given.get("permission_mode") == self.resumed_in is not None
        if is_left_over:
            self.armed = self.continues = True
        try:
            tool, arguments = str(given["tool_name"]), given.get("tool_input") or {}
            self.tools[call_id] = tool
            verdict = await self.judge(tool, arguments, call_id)
            if verdict.allowed and self.own is not None:
                verdict = await self._by_own_hooks(self.own, given, verdict, call_id, context)
            if is_left_over and not verdict.defers:
                self.on_left_over(call_id, tool, arguments)
        except Exception as error:
            verdict = Verdict(False, f"Permission check failed: {type(error).__name__}")
        self.judged[call_id] = verdict.allowed
        if verdict.defers:
            self.deferred[call_id] = (str(given["tool_name"]), dict(given.get("tool_input") or {}))
        elif not verdict.allowed:
            self.refused(call_id, verdict)
        return _answer(verdict)

    async def _by_own_hooks(self, own: OwnHooks, given: Any, verdict: Verdict, call: str, context: Any) -> Verdict:
        """What the caller's hooks make of a call that may run; one that they change is judged again."""
        arguments = dict(verdict.arguments or given.get("tool_input") or {})
        said = await own.before_tool({**given, "tool_input": arguments}, call, context)
        if not said.allowed:
            return said
        if said.arguments is None:
            return verdict
        again = await self.judge(str(given["tool_name"]), said.arguments, call)
        return said if again.allowed and again.arguments is None else again

    def refused(self, call: str, verdict: Verdict) -> None:
        """Remember why a call was refused, and end the run where the verdict says so."""
        self._denied[call] = verdict.reason
        if verdict.stops is not None:
            self.stop(verdict.stops)

    async def judge(self, tool: str, arguments: Mapping[str, Any], call: str) -> Verdict:
        """The verdict on one call."""
        if self.stopped is not None:
            return Verdict(False, "The run is being stopped", stops=self.stopped)
        if not self.armed:
            return Verdict(False, "The run is not confirmed to be confined", stops="unconfined")
        changed: Mapping[str, Any] | None = None
        for rule in self._rules:
            verdict = await rule(tool, arguments if changed is None else changed, call)
            if not verdict.allowed:
                return verdict
            changed = verdict.arguments if verdict.arguments is not None else changed
        return ALLOW if changed is None else Verdict(True, arguments=changed)


def _answer(verdict: Verdict) -> dict[str, Any]:
    if verdict.allowed and verdict.arguments is None:
        return {}
    decision: dict[str, Any] = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
    if verdict.allowed:
        decision["updatedInput"] = dict(verdict.arguments or {})
        return {"hookSpecificOutput": decision}
    if verdict.defers:
        return {"hookSpecificOutput": decision | {"permissionDecision": "defer"}}
    decision |= {"permissionDecision": "deny", "permissionDecisionReason": verdict.reason}
    answer: dict[str, Any] = {"hookSpecificOutput": decision}
    if verdict.stops is not None:
        answer |= {"continue_": False, "stopReason": verdict.reason}
    return answer


def only_offered(offered: Callable[[], Iterable[str]]) -> Rule:
    """Refuse a tool that is not offered now; names may end in `*`."""

    async def rule(tool: str, arguments: Mapping[str, Any], call: str) -> Verdict:
        if any(fnmatchcase(tool, pattern) for pattern in offered()):
            return ALLOW
        return Verdict(False, f"{tool} is not offered in this run")

    return rule


def only_skills_of(plugins: Collection[str]) -> Rule:
    """Refuse a skill that no plugin of the run brings: the CLI's own run commands as they are read, and ask nobody."""

    async def rule(tool: str, arguments: Mapping[str, Any], call: str) -> Verdict:
        if tool != "Skill" or str(arguments.get("skill")).partition(":")[0] in plugins:
            return ALLOW
        whose = f", PLUGIN:NAME ({', '.join(sorted(plugins))})" if plugins else ""
        return Verdict(False, f"Only skills of this run's plugins can be used{whose}")

    return rule


def before_deadline(deadline: Callable[[], Deadline | None]) -> Rule:
    """Past the deadline, refuse and stop."""

    async def rule(tool: str, arguments: Mapping[str, Any], call: str) -> Verdict:
        at = deadline()
        if at is None or at.remaining() > 0:
            return ALLOW
        return Verdict(False, "Deadline exceeded", stops="deadline")

    return rule


def within_budget(counted: Callable[[], Budget]) -> Rule:
    """With the tokens used up, refuse and stop."""

    async def rule(tool: str, arguments: Mapping[str, Any], call: str) -> Verdict:
        if counted().remaining() == 0:
            return Verdict(False, "Token budget exhausted", stops="budget")
        return ALLOW

    return rule
