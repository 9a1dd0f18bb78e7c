"""A prompt becomes events and one result.

The names below are loaded on first use: reading stored runs needs no claude_agent_sdk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.runs.asking.approvals import Approvals as Approvals, Decision as Decision, Question as Question
    from toolkit.runs.asking.modes import Mode as Mode
    from toolkit.runs.attempts.trial import Trial as Trial
    from toolkit.runs.checkpoints import Checkpoint as Checkpoint, Rewound as Rewound
    from toolkit.runs.job.retry import Retry as Retry
    from toolkit.runs.job.setup import Setup as Setup, SetupFailedError as SetupFailedError
    from toolkit.runs.job.verify import Verify as Verify
    from toolkit.runs.kinds import OptionError as OptionError
    from toolkit.runs.launch import run as run, run_sync as run_sync, start as start
    from toolkit.runs.live_run import LiveRun as LiveRun
    from toolkit.runs.many.batch import run_many as run_many
    from toolkit.runs.outcome.codes import MESSAGES as MESSAGES, Code as Code
    from toolkit.runs.outcome.events import Call as Call, Event as Event, ModelUse as ModelUse, Tokens as Tokens
    from toolkit.runs.outcome.result import (
        Attempt as Attempt,
        DeniedCall as DeniedCall,
        FailedServer as FailedServer,
        PendingCall as PendingCall,
        RefusedRequest as RefusedRequest,
        RunFailedError as RunFailedError,
        RunResult as RunResult,
        SetupUse as SetupUse,
        ToolUse as ToolUse,
    )
    from toolkit.runs.projects import (
        NotAcceptedError as NotAcceptedError,
        ProjectFile as ProjectFile,
        ProjectFileError as ProjectFileError,
        lend_to as lend_to,
        with_wishes as with_wishes,
    )
    from toolkit.runs.projects.suggesting import (
        Suggestion as Suggestion,
        suggest as suggest,
        write_suggestion as write_suggestion,
    )
    from toolkit.runs.prompts import Prompt as Prompt
    from toolkit.runs.sessions.conversation import Conversation as Conversation, fingerprint as fingerprint
    from toolkit.runs.sessions.stores import (
        FileSessionStore as FileSessionStore,
        SqliteSessionStore as SqliteSessionStore,
    )
    from toolkit.runs.sessions.transcripts import SessionId as SessionId
    from toolkit.runs.spec import InPlace as InPlace, Limits as Limits, RunSpec as RunSpec
    from toolkit.runs.storage.planned import RunPlan as RunPlan, plan_run as plan_run
    from toolkit.runs.storage.stored_runs import (
        StoredRun as StoredRun,
        list_runs as list_runs,
        load_run as load_run,
        remove_older_than as remove_older_than,
    )

_HOMES = {
    "toolkit.runs.asking.approvals": "Approvals Decision Question",
    "toolkit.runs.outcome.codes": "MESSAGES Code",
    "toolkit.runs.sessions.conversation": "Conversation fingerprint",
    "toolkit.runs.outcome.events": "Call Event ModelUse Tokens",
    "toolkit.runs.asking.modes": "Mode",
    "toolkit.runs.checkpoints": "Checkpoint Rewound",
    "toolkit.runs.attempts.trial": "Trial",
    "toolkit.runs.job.retry": "Retry",
    "toolkit.runs.job.verify": "Verify",
    "toolkit.runs.job.setup": "Setup SetupFailedError",
    "toolkit.runs.kinds": "OptionError",
    "toolkit.runs.launch": "run run_sync start",
    "toolkit.runs.live_run": "LiveRun",
    "toolkit.runs.many.batch": "run_many",
    "toolkit.runs.outcome.result": (
        "Attempt DeniedCall FailedServer PendingCall RefusedRequest RunFailedError RunResult SetupUse ToolUse"
    ),
    "toolkit.runs.sessions.stores": "FileSessionStore SqliteSessionStore",
    "toolkit.runs.sessions.transcripts": "SessionId",
    "toolkit.runs.projects": "NotAcceptedError ProjectFile ProjectFileError lend_to with_wishes",
    "toolkit.runs.projects.suggesting": "Suggestion suggest write_suggestion",
    "toolkit.runs.prompts": "Prompt",
    "toolkit.runs.spec": "InPlace Limits RunSpec",
    "toolkit.runs.storage.planned": "RunPlan plan_run",
    "toolkit.runs.storage.stored_runs": "StoredRun list_runs load_run remove_older_than",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
