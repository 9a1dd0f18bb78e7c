"""Take the files and the conversation of a stored run back together, to one of its checkpoints.

What is taken back is a checkpoint itself, made first, so that it can be had again. From its first
change to its last step a rewind that is interrupted is known as such: nobody goes on from there, and
doing it again finishes it.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from toolkit._base.words import safe_line
from toolkit.errors import RunError
from toolkit.runs.checkpoints.checkpoint import Checkpoint, add_checkpoint, checkpoints_of, next_number
from toolkit.runs.sessions.heads import entry_before, head_of, set_head
from toolkit.runs.sessions.transcripts import SessionId, default_store, held, last_entry, sessions_home

if TYPE_CHECKING:
    from claude_agent_sdk import SessionStore

    from toolkit.runs.storage.stored_run import StoredRun
    from toolkit_workspace import WorkspaceSection

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rewound:
    """What a rewind came to."""

    to: Checkpoint
    """Where the run is now."""
    back: Checkpoint
    """What it was like until now: rewind to this one to have it again."""
    is_beginning: bool
    """Whether the conversation goes on from its beginning."""


def rewind_run(run: StoredRun, to: int, *, store: SessionStore | None = None) -> Rewound:
    """Take a run back to a checkpoint.

    Raises:
        RunError: it has no such checkpoint, it or its conversation is under way, its copy is gone, or an apply of its
            changes was interrupted.
        WorkspaceError: the copy is in use, or bytes it had then are lost; nothing was touched.
    """
    if isinstance(to, bool) or not isinstance(to, int):
        fix = f"See them: toolkit runs rewind {run.id}"
        raise RunError(f"a checkpoint has a number, and {safe_line(repr(to), 60)} is none", fix=fix).as_mistyped()
    with ExitStack() as stack:
        stack.enter_context(run.alone("it cannot be rewound"))
        known = checkpoints_of(run.folder)
        goal = next((one for one in known if one.number == to), None)
        if goal is None:
            raise _no_such(run, to, known)
        session = None if run.session is None else SessionId(run.session)
        home = run.folder.parent.parent
        if session is not None:
            try:
                stack.enter_context(held(sessions_home(home), session))
            except BlockingIOError:
                what = f"a prompt is under way in the conversation of run {run.id}: it cannot be rewound"
                raise RunError(what, fix="Wait for its end: toolkit runs list") from None
        section = stack.enter_context(run.opened())
        run.refuse_half_applied(f"run {run.id} cannot be rewound")
        talk = _Talk(store or default_store(home), session, home)
        if session is not None and run.so_far().calls and talk.is_empty():
            what = f"the conversation of run {run.id} is not kept where it was looked for"
            raise RunError(what, where=[f"session {session}"], fix="Name its store: load_run(…).rewind(…, store=…)")
        return _rewound(run, section, talk, goal, next_number(known))


def _rewound(run: StoredRun, section: WorkspaceSection, talk: _Talk, goal: Checkpoint, number: int) -> Rewound:
    shot = section.numbered_snapshot(goal.snapshot)
    at, now = talk.position_of(goal), talk.position()
    label = f"before going back to {goal.number}"
    until_now = section.snapshot(f"checkpoint {number} of {run.id}: {label}")
    back = Checkpoint(number, label, time.time(), goal.turn, until_now.changed, until_now.number, at=now)
    add_checkpoint(run.folder, back)
    section.rewind(shot, until_now=until_now, and_then=lambda: talk.go_on_from(at))
    return Rewound(goal, back, talk.session is not None and at is None)


@dataclass(frozen=True, slots=True)
class _Talk:
    """The conversation of a run."""

    store: SessionStore
    session: SessionId | None
    """None where it ended before there was one."""
    home: Any

    def is_empty(self) -> bool:
        """Whether nothing of it is kept."""
        return self.session is None or _done(last_entry(self.store, self.session)) is None

    def position(self) -> str | None:
        """Where it goes on from now."""
        if self.session is None:
            return None
        return _done(head_of(self.store, self.session, self.home)).at

    def position_of(self, one: Checkpoint) -> str | None:
        """Where it goes on from once it was taken back."""
        if self.session is None or one.before is None:
            return one.at
        return _done(entry_before(self.store, self.session, one.before, one.taken))

    def go_on_from(self, at: str | None) -> None:
        if self.session is not None:
            _done(set_head(self.store, self.session, self.home, at))


def _done(work: Coroutine[Any, Any, T]) -> T:
    from toolkit.runs.launch import complete

    return complete(work)


def _no_such(run: StoredRun, to: int, known: list[Checkpoint]) -> RunError:
    if not known:
        why = "it worked on no copy" if not run.facts.get("copied") else "it ended before its first turn"
        return RunError(f"run {run.id} has no checkpoints: {why}", fix="A copy has them: --mount …")
    past = "; there is nothing before its first" if to < known[0].number else ""
    return RunError(
        f"run {run.id} has no checkpoint {to}{past}",
        where=[f"it has {known[0].number} to {known[-1].number}"],
        fix=f"See them: toolkit runs rewind {run.id}",
    ).as_mistyped()
