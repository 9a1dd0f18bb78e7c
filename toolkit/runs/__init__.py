"""A prompt becomes events and one result.

The names below are loaded on first use: reading stored runs needs no claude_agent_sdk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.approvals import Approvals as Approvals
    from toolkit.runs.approvals import Question as Question
    from toolkit.runs.codes import MESSAGES as MESSAGES
    from toolkit.runs.codes import Code as Code
    from toolkit.runs.conversation import Conversation as Conversation
    from toolkit.runs.conversation import fingerprint as fingerprint
    from toolkit.runs.decisions import Decision as Decision
    from toolkit.runs.events import Call as Call
    from toolkit.runs.events import Event as Event
    from toolkit.runs.events import Tokens as Tokens
    from toolkit.runs.launch import run as run
    from toolkit.runs.launch import run_sync as run_sync
    from toolkit.runs.launch import start as start
    from toolkit.runs.limits import Limits as Limits
    from toolkit.runs.live import LiveRun as LiveRun
    from toolkit.runs.many import run_many as run_many
    from toolkit.runs.prompt import Prompt as Prompt
    from toolkit.runs.result import DeniedCall as DeniedCall
    from toolkit.runs.result import PendingCall as PendingCall
    from toolkit.runs.result import RunFailedError as RunFailedError
    from toolkit.runs.result import RunResult as RunResult
    from toolkit.runs.result import ToolUse as ToolUse
    from toolkit.runs.sessions import SessionId as SessionId
    from toolkit.runs.spec import RunSpec as RunSpec
    from toolkit.runs.stored import StoredRun as StoredRun
    from toolkit.runs.stored import list_runs as list_runs
    from toolkit.runs.stored import load_run as load_run
    from toolkit.runs.stored import remove_older_than as remove_older_than

_HOMES = {
    "toolkit.runs.approvals": ("Approvals", "Question"),
    "toolkit.runs.codes": ("MESSAGES", "Code"),
    "toolkit.runs.conversation": ("Conversation", "fingerprint"),
    "toolkit.runs.decisions": ("Decision",),
    "toolkit.runs.events": ("Call", "Event", "Tokens"),
    "toolkit.runs.launch": ("run", "run_sync", "start"),
    "toolkit.runs.limits": ("Limits",),
    "toolkit.runs.live": ("LiveRun",),
    "toolkit.runs.many": ("run_many",),
    "toolkit.runs.prompt": ("Prompt",),
    "toolkit.runs.result": ("DeniedCall", "PendingCall", "RunFailedError", "RunResult", "ToolUse"),
    "toolkit.runs.sessions": ("SessionId",),
    "toolkit.runs.spec": ("RunSpec",),
    "toolkit.runs.stored": ("StoredRun", "list_runs", "load_run", "remove_older_than"),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
