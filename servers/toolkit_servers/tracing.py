"""The trace that a tool call belongs to, where somebody follows one.

A client may send `traceparent` with a call. A server that a run of ours started finds the run's span in the variable
TRACEPARENT instead, and the CLI's id of the call with each call: from both follows the id of the call's own span.
opentelemetry is imported for a call that is followed, and for no other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

_FOLLOWED = os.environ.get("TRACEPARENT")
_HEADER = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def span_id_of(trace_id: int, what: str) -> int:
    """The id of the span about `what` (a run or a call) in a trace; never 0, which means none."""
    import hashlib

    found = hashlib.sha256(trace_id.to_bytes(16, "big") + what.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(found[:8], "big") or 1


def enter_trace(meta: Mapping[str, Any], call_id: str) -> None:
    """Let the spans that the current task makes hang below the call; does nothing where nobody follows it."""
    sent = meta.get("traceparent")
    if sent is not None or _FOLLOWED is not None:
        follow_call(sent if isinstance(sent, str) else None, _FOLLOWED, call_id)


def follow_call(sent: str | None, run: str | None, call_id: str) -> None:
    """Let the current task's spans hang below what was `sent`, or below the call's own span in the run's trace.

    Both are values of `traceparent`. One that is malformed is left alone, and so is a span that is current already.
    """
    from opentelemetry import context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, get_current_span, set_span_in_context

    found = _HEADER.fullmatch(sent or run or "")
    if found is None or found[1] == "ff" or get_current_span().get_span_context().is_valid:
        return
    trace_id, flags = int(found[2], 16), TraceFlags(int(found[4], 16))
    span_id = int(found[3], 16) if sent else span_id_of(trace_id, call_id)
    parent = SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
    if parent.is_valid:
        context.attach(set_span_in_context(NonRecordingSpan(parent)))
