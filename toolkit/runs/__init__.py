"""A prompt becomes events and one result.

The names below are loaded on first use: reading stored runs needs no claude_agent_sdk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.asking.approvals import Approvals as Approvals
    from toolkit.runs.asking.approvals import Question as Question
    from toolkit.runs.asking.decisions import Decision as Decision
    from toolkit.runs.launch import run as run
    from toolkit.runs.launch import run_sync as run_sync
    from toolkit.runs.launch import start as start
    from toolkit.runs.live_run import LiveRun as LiveRun
    from toolkit.runs.many.batch import run_many as run_many
    from toolkit.runs.outcome.codes import MESSAGES as MESSAGES
    from toolkit.runs.outcome.codes import Code as Code
    from toolkit.runs.outcome.events import Call as Call
    from toolkit.runs.outcome.events import Event as Event
    from toolkit.runs.outcome.events import Tokens as Tokens
    from toolkit.runs.outcome.result import DeniedCall as DeniedCall
    from toolkit.runs.outcome.result import PendingCall as PendingCall
    from toolkit.runs.outcome.result import RunFailedError as RunFailedError
    from toolkit.runs.outcome.result import RunResult as RunResult
    from toolkit.runs.outcome.result import ToolUse as ToolUse
    from toolkit.runs.sessions.conversation import Conversation as Conversation
    from toolkit.runs.sessions.conversation import fingerprint as fingerprint
    from toolkit.runs.sessions.stores import FileSessionStore as FileSessionStore
    from toolkit.runs.sessions.stores import SqliteSessionStore as SqliteSessionStore
    from toolkit.runs.sessions.transcripts import SessionId as SessionId
    from toolkit.runs.spec import Limits as Limits
    from toolkit.runs.spec import Prompt as Prompt
    from toolkit.runs.spec import RunSpec as RunSpec
    from toolkit.runs.storage.stored_runs import StoredRun as StoredRun
    from toolkit.runs.storage.stored_runs import list_runs as list_runs
    from toolkit.runs.storage.stored_runs import load_run as load_run
    from toolkit.runs.storage.stored_runs import remove_older_than as remove_older_than

_HOMES = {
    "toolkit.runs.asking.approvals": ("Approvals", "Question"),
    "toolkit.runs.outcome.codes": ("MESSAGES", "Code"),
    "toolkit.runs.sessions.conversation": ("Conversation", "fingerprint"),
    "toolkit.runs.asking.decisions": ("Decision",),
    "toolkit.runs.outcome.events": ("Call", "Event", "Tokens"),
    "toolkit.runs.launch": ("run", "run_sync", "start"),
    "toolkit.runs.live_run": ("LiveRun",),
    "toolkit.runs.many.batch": ("run_many",),
    "toolkit.runs.outcome.result": ("DeniedCall", "PendingCall", "RunFailedError", "RunResult", "ToolUse"),
    "toolkit.runs.sessions.stores": ("FileSessionStore", "SqliteSessionStore"),
    "toolkit.runs.sessions.transcripts": ("SessionId",),
    "toolkit.runs.spec": ("Limits", "Prompt", "RunSpec"),
    "toolkit.runs.storage.stored_runs": ("StoredRun", "list_runs", "load_run", "remove_older_than"),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
