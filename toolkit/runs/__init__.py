"""A prompt becomes events and one result."""

from toolkit.runs.approvals import Approvals, Question
from toolkit.runs.codes import MESSAGES, Code
from toolkit.runs.conversation import Conversation, fingerprint
from toolkit.runs.decisions import Decision
from toolkit.runs.events import Call, Event, Tokens
from toolkit.runs.launch import run, run_sync, start
from toolkit.runs.limits import Limits
from toolkit.runs.live import LiveRun
from toolkit.runs.many import run_many
from toolkit.runs.prompt import Prompt
from toolkit.runs.result import DeniedCall, PendingCall, RunFailedError, RunResult, ToolUse
from toolkit.runs.sessions import SessionId
from toolkit.runs.spec import RunSpec

__all__ = [
    "MESSAGES",
    "Approvals",
    "Call",
    "Code",
    "Conversation",
    "Decision",
    "DeniedCall",
    "Event",
    "Limits",
    "LiveRun",
    "PendingCall",
    "Prompt",
    "Question",
    "RunFailedError",
    "RunResult",
    "RunSpec",
    "SessionId",
    "Tokens",
    "ToolUse",
    "fingerprint",
    "run",
    "run_many",
    "run_sync",
    "start",
]
