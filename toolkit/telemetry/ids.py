"""Ids of a run's spans that can be known before the spans are made.

A span is made when its event is read, which may be after the tool was called. So its id
is not drawn: it follows from the trace and the call. Whoever knows both can name the span
as a parent, in this process or in a server that the CLI started.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, Tracer, get_current_span, set_span_in_context

from toolkit_servers import span_id_of


@dataclass(frozen=True, slots=True)
class Lineage:
    """The trace a run belongs to, and what it hangs below."""

    trace_id: int
    parent: SpanContext | None
    """The span of whoever started the run."""

    @classmethod
    def of(cls, run: str) -> Lineage:
        """Below the span that is current here, or a trace of the run's own."""
        current = get_current_span().get_span_context()
        if current.is_valid:
            return cls(current.trace_id, current)
        return cls(int.from_bytes(hashlib.sha256(run.encode()).digest()[:16], "big") or 1, None)

    def context_of(self, what: str) -> SpanContext:
        """The span about `what`, whether it was made already or not."""
        flags = TraceFlags(TraceFlags.SAMPLED) if self.parent is None else self.parent.trace_flags
        return SpanContext(self.trace_id, span_id_of(self.trace_id, what), is_remote=False, trace_flags=flags)

    def traceparent(self, what: str) -> str:
        """The same as the value of the W3C header `traceparent`."""
        span = self.context_of(what)
        return f"00-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags):02x}"


def below(parent: SpanContext) -> Context:
    """A context in which new spans hang below this one."""
    return set_span_in_context(NonRecordingSpan(parent))


class GivenIds:
    """Stands in for the id generator of one tracer: what is given next, and the usual ones otherwise."""

    def __init__(self, usual: Any) -> None:
        self._usual = usual
        self._given: tuple[int, int] | None = None

    @classmethod
    def put_into(cls, tracer: Tracer) -> GivenIds | None:
        """Let this tracer's next ids be given; None where it has no such generator, as without the SDK."""
        usual = getattr(tracer, "id_generator", None)
        if usual is None:
            return None
        given = cls(usual)
        tracer.id_generator = given  # type: ignore[attr-defined]
        return given

    @contextmanager
    def next(self, trace_id: int, span_id: int) -> Iterator[None]:
        """Use these two for the span that is made in this block."""
        self._given = (trace_id, span_id)
        try:
            yield
        finally:
            self._given = None

    def generate_trace_id(self) -> int:
        return self._given[0] if self._given else int(self._usual.generate_trace_id())

    def generate_span_id(self) -> int:
        return self._given[1] if self._given else int(self._usual.generate_span_id())

    def is_trace_id_random(self) -> bool:
        return False
