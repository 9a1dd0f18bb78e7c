"""A person in the loop: questions about tool calls, and the decisions.

A call that needs an answer waits in the guard's hook. The answer comes from the
`approve` callback, from `live.approvals.answer(…)`, or from another terminal;
the first one counts. Where nobody can answer, the call is refused at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from toolkit._base.words import safe_line
from toolkit.errors import RunError, ToolkitError
from toolkit.runs.asking.guard import ALLOW, Verdict
from toolkit.runs.asking.policy import Policy
from toolkit.runs.asking.remembered import Remembered
from toolkit.runs.asking.subjects import speaks_of_git, subject_of, what_is_remembered
from toolkit.runs.kinds import wrong
from toolkit.runs.listeners import in_its_own_time

if TYPE_CHECKING:
    from claude_agent_sdk import ToolPermissionContext

_log = logging.getLogger("toolkit.runs")

Kind = Literal["ALLOW_ONCE", "ALLOW_SESSION", "ALLOW_PROJECT", "ALLOW_ALWAYS", "DENY"]
KINDS: tuple[Kind, ...] = ("ALLOW_ONCE", "ALLOW_SESSION", "ALLOW_PROJECT", "ALLOW_ALWAYS", "DENY")


@dataclass(frozen=True, slots=True)
class Decision:
    """One answer to the question whether a tool call may run.

    Raises:
        RunError: a kind that does not exist.
    """

    kind: Kind
    message: str = ""
    """What the model reads when it is refused."""
    stop: bool = False
    """A refusal that also ends the run."""
    arguments: Mapping[str, Any] | None = None
    """Run it with these arguments instead."""

    ALLOW_ONCE: ClassVar[Decision]
    ALLOW_SESSION: ClassVar[Decision]
    ALLOW_PROJECT: ClassVar[Decision]
    ALLOW_ALWAYS: ClassVar[Decision]
    DENY: ClassVar[Decision]

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise RunError(f"'{self.kind}' is no decision", fix=f"Use one of: {', '.join(KINDS)}")
        if self.arguments is not None and not isinstance(self.arguments, Mapping):
            what = f"Decision.allow({safe_line(repr(self.arguments), 40)}): it takes the arguments to run the call with"
            raise RunError(what, fix="To remember it: Decision.ALLOW_SESSION, ALLOW_PROJECT or ALLOW_ALWAYS")

    @property
    def allows(self) -> bool:
        """Whether the call may run."""
        return self.kind != "DENY"

    @classmethod
    def deny(cls, message: str = "", *, stop: bool = False) -> Decision:
        """Refuse, with words for the model, and maybe end the run."""
        return cls("DENY", message, stop)

    @classmethod
    def allow(cls, arguments: Mapping[str, Any] | None = None) -> Decision:
        """Let it run this once, maybe with other arguments."""
        return cls("ALLOW_ONCE", arguments=arguments)


Decision.ALLOW_ONCE = Decision("ALLOW_ONCE")
Decision.ALLOW_SESSION = Decision("ALLOW_SESSION")
Decision.ALLOW_PROJECT = Decision("ALLOW_PROJECT")
Decision.ALLOW_ALWAYS = Decision("ALLOW_ALWAYS")
Decision.DENY = Decision("DENY")


@dataclass(frozen=True, slots=True)
class Question:
    """A tool call that waits for an answer."""

    id: str
    tool: str
    input: Mapping[str, Any]
    call: str
    read_only: bool
    reason: str
    subject: str
    """What a decision for the session, the project or always would be about."""
    suggestions: tuple[str, ...] = ("ALLOW_ONCE", "ALLOW_SESSION", "ALLOW_PROJECT", "ALLOW_ALWAYS", "DENY")
    """The decisions there are."""
    title: str = ""
    """One sentence to show a person: the CLI's own where it asks, else ours."""
    agent: str | None = None
    """The subagent that wants it; None for the main conversation."""
    blocked_path: str | None = None
    """The path the CLI asks about, where it does because of one."""
    cli_suggestions: tuple[Mapping[str, Any], ...] = ()
    """What the CLI itself would remember, to look at. It is never sent back: it would be written into the workspace."""
    form: Mapping[str, Any] | None = None
    """The fields that a running tool asks for, as a JSON Schema; None where the question is whether a call may run."""

    @property
    def remembers(self) -> str:
        """The same in words, such as "every 'git status' with plain arguments" or "exactly this command"."""
        return what_is_remembered(self.subject)

    def as_data(self) -> dict[str, Any]:
        """The data of an `approval.asked` event."""
        names = (
            "tool input call read_only reason subject remembers suggestions title agent blocked_path cli_suggestions "
            "form"
        )
        return {name: getattr(self, name) for name in names.split()}


Approver = Callable[[Question], Decision | bool | Awaitable[Decision | bool]]
"""Answers a question: a Decision, or True and False for this once. One that is not async runs in a thread."""


_CANCELLED = "The question was cancelled"
_TOO_LATE = "Nobody answered in time"
UNANSWERED = (_CANCELLED, _TOO_LATE)
"""The words of a refusal that no person made."""


@dataclass(slots=True)
class _Waiting:
    question: Question
    answer: asyncio.Future[tuple[Decision, str]] = field(default_factory=asyncio.Future)


class Approvals:
    """The questions of one run. `answer` may be called from anywhere in the event loop."""

    def __init__(
        self,
        policy: Policy,
        remembered: Remembered,
        emit: Callable[..., None],
        *,
        approve: Approver | Literal["wait"] | None,
        timeout: float | None = None,
    ) -> None:
        self.policy = policy
        self._remembered = remembered
        self._emit = emit
        self._approve = approve
        self._timeout = timeout
        self._waiting: dict[str, _Waiting] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._approved: set[str] = set()
        self._is_over = False
        self._count = 0
        self.agent_of: Callable[[str], str | None] = lambda call: None
        """The subagent that a call belongs to."""
        self.doubt: Callable[[str], str | None] = lambda tool: None
        """Why a tool needs a person's approval, whatever the policy allows; None where it does not."""
        self.definition: Callable[[str], str | None] = lambda tool: None
        """What tells a tool as it is defined now from any other of its name; None where that is not known."""
        self.git_setup: Callable[[], str] = lambda: ""
        """How git is set up in the workspace: letters that stand for it."""
        self.on_refusal: Callable[[str, Verdict], None] = lambda call, verdict: None
        """Told of a call that is refused where the CLI asks by itself, and no hook of the guard sees it."""

    @property
    def pending(self) -> tuple[Question, ...]:
        """The questions that wait for an answer, oldest first."""
        return tuple(waiting.question for waiting in self._waiting.values())

    def answer(self, id: str, decision: Decision | bool, *, by: str = "caller") -> bool:
        """Answer a question. False, and a warning in the log, if it does not wait for one (any more).

        Raises:
            OptionError: it is no decision; the question waits on.
        """
        if not isinstance(decision, Decision | bool):
            fix = "Write for example: live.approvals.answer(id, Decision.ALLOW_SESSION)"
            raise wrong("decision", decision, "it is a Decision, True or False", fix)
        waiting = self._waiting.get(id)
        if waiting is None or waiting.answer.done():
            _log.warning("no approval request '%s' waits for an answer", id)
            return False
        waiting.answer.set_result((as_decision(decision), by))
        return True

    def begin(self) -> None:
        """A turn begins: questions may be asked."""
        self._is_over = False

    def cancel(self) -> None:
        """Nobody will answer any more: the turn is over, and asks nothing until the next one begins."""
        self._is_over = True
        for waiting in list(self._waiting.values()):
            if not waiting.answer.done():
                waiting.answer.set_result((Decision.deny(_CANCELLED), "cancelled"))

    async def rule(self, tool: str, arguments: Mapping[str, Any], call: str) -> Verdict:
        """The guard's rule: policy and mode first, a person where they say so."""
        ruling, doubt = self.policy.rule(tool, arguments), self.doubt(tool)
        if ruling.choice in ("deny", "defer"):
            return Verdict(False, ruling.reason, defers=ruling.choice == "defer")
        if ruling.choice == "allow" and doubt is None:
            return ALLOW
        return await self._person(tool, arguments, call, doubt or ruling.reason)

    async def _person(self, tool: str, arguments: Mapping[str, Any], call: str, reason: str, **told: Any) -> Verdict:
        """What a person decides, now or before."""
        subject = await self._subject_of(tool, arguments)
        # Calls about the same thing wait for one another, so that a decision for the session is asked for once.
        async with self._turns.setdefault(subject, asyncio.Lock()):
            if self._known(subject) is not None:
                return ALLOW
            if self._is_over:
                return Verdict(False, _CANCELLED)
            if self._approve is None:
                return Verdict(False, f"{tool} needs approval, and nobody is there to give it ({reason})")
            decision = await self._ask(self._question(tool, arguments, call, reason, subject, **told))
            # What was agreed to is what will run, which need not be what was asked for.
            is_changed = decision.arguments is not None
            agreed = await self._subject_of(tool, decision.arguments or {}) if is_changed else subject
            self._remembered.remember(agreed, decision)
        if decision.allows:
            self._approved.add(call)
        return _verdict(decision)

    async def consult(
        self, tool: str, asked: Mapping[str, Any], call: str, text: str, form: Mapping[str, Any] | None = None
    ) -> Decision | None:
        """Put what a running tool asks to a person; None where nobody is there. Nothing of it is remembered."""
        if self._approve is None or self._is_over:
            return None
        told: dict[str, Any] = {"title": f"{tool} asks: {text}", "suggestions": ("ALLOW_ONCE", "DENY"), "form": form}
        return await self._ask(self._question(tool, asked, call, text, subject_of(tool, asked), **told))

    async def can_use_tool(self, tool: str, arguments: dict[str, Any], context: ToolPermissionContext) -> Any:
        """The SDK's permission callback, for the CLI's own modes: what the CLI would ask, we ask."""
        from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny

        if self.policy.cli_mode == "bypassPermissions":  # what the CLI holds back even then, nobody may allow
            return PermissionResultDeny(message=context.decision_reason or f"{tool} is not allowed in this run")
        call = context.tool_use_id or ""
        written = self.policy.written(tool, arguments)
        if call in self._approved or (written is not None and written.choice == "allow"):
            return PermissionResultAllow(updated_input=arguments)
        reason = context.decision_reason or f"the CLI asks in mode {self.policy.mode}"
        told: dict[str, Any] = {"title": context.title, "agent": context.agent_id}
        told |= {"blocked_path": context.blocked_path}
        told |= {"cli_suggestions": tuple(update.to_dict() for update in context.suggestions)}
        verdict = await self._person(tool, arguments, call, reason, **told)
        if verdict.allowed:
            return PermissionResultAllow(updated_input=dict(verdict.arguments or arguments))
        self.on_refusal(call, verdict)
        return PermissionResultDeny(message=verdict.reason, interrupt=verdict.stops is not None)

    async def _subject_of(self, tool: str, arguments: Mapping[str, Any]) -> str:
        setup = await asyncio.to_thread(self.git_setup) if speaks_of_git(tool, arguments) else ""
        return subject_of(tool, arguments, self.definition(tool), setup)

    def _known(self, subject: str) -> str | None:
        known = self._remembered.allows(subject)
        if self._remembered.warning is not None:
            self._emit("lifecycle", "warning", None, what=self._remembered.warning)
            self._remembered.warning = None
        return known

    def _question(
        self, tool: str, arguments: Mapping[str, Any], call: str, reason: str, subject: str, **told: Any
    ) -> Question:
        self._count += 1
        told["title"] = told.get("title") or f"The agent wants to use {tool}"
        told["agent"] = told.get("agent") or self.agent_of(call)
        read_only = self.policy.is_read_only(tool)
        return Question(f"ask-{self._count}", tool, arguments, call, read_only, reason, subject, **told)

    async def _ask(self, question: Question) -> Decision:
        waiting = self._waiting[question.id] = _Waiting(question)
        self._emit("approval", "asked", question.id, **question.as_data())
        asking = asyncio.create_task(self._consult(question)) if callable(self._approve) else None
        decision, by = Decision.deny(_CANCELLED), "cancelled"
        try:
            async with asyncio.timeout(self._timeout):
                decision, by = await waiting.answer
        except TimeoutError:
            decision, by = Decision.deny(_TOO_LATE), "timeout"
        finally:
            del self._waiting[question.id]
            if asking is not None:
                asking.cancel()
            kind = "cancelled" if by == "cancelled" else decision.kind
            self._emit("approval", "answered", question.id, decision=kind, message=decision.message, by=by)
        return decision

    async def _consult(self, question: Question) -> None:
        assert callable(self._approve)
        try:
            decision = as_decision(await in_its_own_time(self._approve, question))
        except ToolkitError as error:
            _log.warning("the approver failed on %s: %s", question.tool, error)
            decision = Decision.deny(f"Permission check failed: {error.what}")
        except Exception as error:
            _log.exception("the approver failed on %s", question.tool)
            decision = Decision.deny(f"Permission check failed: {type(error).__name__}")
        if question.id in self._waiting:
            self.answer(question.id, decision, by="callback")


def as_decision(answer: Decision | bool) -> Decision:
    """A decision from what an approver gives; anything it must not give is a refusal."""
    if isinstance(answer, Decision):
        return answer
    if answer is True:
        return Decision.ALLOW_ONCE
    return Decision.DENY if answer is False else Decision.deny("The approver gave no decision")


def _verdict(decision: Decision) -> Verdict:
    if decision.allows:
        return Verdict(True, arguments=decision.arguments)
    message = decision.message or "The user refused this tool call"
    return Verdict(False, message, stops="stopped" if decision.stop else None)
