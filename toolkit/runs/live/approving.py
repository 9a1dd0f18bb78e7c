"""Who answers the questions of a run, and where decisions that last are kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolkit.runs.asking.approvals import Approvals
from toolkit.runs.asking.policy import Policy
from toolkit.runs.asking.remembered import Remembered
from toolkit.runs.outcome.events import Event, Stream
from toolkit.runs.spec import InPlace, RunSpec
from toolkit.runs.storage.event_log import EventLog
from toolkit.runs.storage.stored_runs import run_of_session


def make_approvals(
    spec: RunSpec, log: EventLog, policy: Policy, tell_elsewhere: Callable[[Event], None] = lambda event: None
) -> Approvals:
    """The approvals of a run; what happens to a question is an event, and told elsewhere."""

    def emit(stream: Stream, kind: str, id: str | None, **data: Any) -> None:
        if not log.closed:
            event = Event(stream, kind, time.time(), spec.run_id, id or spec.run_id, None, data)
            log.append(event)
            if stream == "approval":
                tell_elsewhere(event)

    remembered = Remembered(_project_of(spec), home=spec.home)
    return Approvals(policy, remembered, emit, approve=spec.approve, timeout=spec.approval_timeout)


def _project_of(spec: RunSpec) -> str:
    """What decisions for a project are kept under: the first host folder of its workspace, or the current one."""
    given = spec.workspace
    if isinstance(given, InPlace):
        return str(Path(given.folder).resolve())
    if given is None or not given.mounts:
        earlier = run_of_session(spec.resume, spec.home) if given is None and spec.resume is not None else None
        mounts = [] if earlier is None else earlier.facts.get("mounts", [])
        return str(Path(mounts[0][0]).resolve() if mounts else Path.cwd())
    return str(Path(given.mounts[0].host_path).resolve())
