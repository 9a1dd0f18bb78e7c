"""Where the traces and metrics of runs go.

`Telemetry()` uses the tracer and meter providers that the program has set up already; without any it costs
next to nothing and tells nobody. `Telemetry.otlp()` makes providers that send to a collector, by the usual
OTEL_… variables; it needs the extra `otel`.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolkit.errors import ToolkitError
from toolkit.telemetry.names import captures_contents

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from toolkit.runs import Event
    from toolkit.telemetry.metrics import BatchFigures, Meters

_FLUSH_MS = 5_000
_NAME = "toolkit"
_STAND_INS = ("ProxyTracerProvider", "_ProxyMeterProvider")
"""What the API gives until the program has set a provider up."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Traces and metrics for the runs it is given to: `run("…", telemetry=Telemetry())`."""

    tracer_provider: TracerProvider | None = None
    """Where spans go; the program's own if not given."""
    meter_provider: MeterProvider | None = None
    """Where metrics go; the program's own if not given."""
    contents: bool | None = None
    """Whether prompts, answers, arguments and results are told; by the convention's variable if not given."""
    _meters: list[Meters] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def otlp(cls, endpoint: str | None = None, *, contents: bool | None = None) -> Telemetry:
        """Send to a collector over OTLP/HTTP: `endpoint`, else OTEL_EXPORTER_OTLP_ENDPOINT, else this machine's.

        Raises:
            ToolkitError: the extra `otel` is not installed, or the endpoint is no URL.
        """
        from toolkit.telemetry.otlp import providers

        traces, metrics = providers(endpoint)
        return cls(traces, metrics, contents)

    def become_default(self) -> None:
        """Let spans that tools make themselves go the same way; a provider that the program has set up stays."""
        from opentelemetry import trace

        if self.tracer_provider is not None and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            trace.set_tracer_provider(self.tracer_provider)

    def begin(self, run: str) -> RunTrace:
        """The trace of one run, below the span that is current here, if there is one."""
        from opentelemetry import metrics, trace

        from toolkit.telemetry.ids import Lineage
        from toolkit.telemetry.metrics import Meters
        from toolkit.telemetry.spans import RunSpans

        tracer = trace.get_tracer(_NAME, None, self.tracer_provider)
        if not self._meters:
            self._meters.append(Meters(metrics.get_meter(_NAME, "", self.meter_provider)))
        lineage = Lineage.of(run)
        told = captures_contents(os.environ) if self.contents is None else self.contents
        spans = RunSpans(run, lineage, tracer, self._meters[0], contents=told)
        return RunTrace(run, lineage, spans, is_heard=self._is_heard())

    def _is_heard(self) -> bool:
        """Whether there is a provider, here or the program's own, that may take its time."""
        from opentelemetry import metrics, trace

        if self.tracer_provider is not None or self.meter_provider is not None:
            return True
        set_up = (trace.get_tracer_provider(), metrics.get_meter_provider())
        return not all(type(provider).__name__ in _STAND_INS for provider in set_up)

    def watch_batch(self, name: str, look: Callable[[], BatchFigures]) -> None:
        """Have the queue and the rate of a batch collected with the metrics; `look` gives them at any time."""
        from opentelemetry import metrics

        from toolkit.telemetry.metrics import watch_batch

        watch_batch(metrics.get_meter(_NAME, "", self.meter_provider), name, look)

    def flush(self) -> None:
        """Hand on what was collected, within five seconds a provider; one that cannot is left alone."""
        for provider in (self.tracer_provider, self.meter_provider):
            flush = getattr(provider, "force_flush", None)
            if flush is not None:
                flush(_FLUSH_MS)

    def close(self) -> None:
        """Flush, and let go of providers that were given or made here."""
        self.flush()
        for provider in (self.tracer_provider, self.meter_provider):
            shutdown = getattr(provider, "shutdown", None)
            if shutdown is not None:
                shutdown()

    def __reduce__(self) -> tuple[Any, ...]:
        if self.tracer_provider is not None or self.meter_provider is not None:
            raise ToolkitError(
                "a Telemetry with providers of its own cannot be sent to another process",
                fix="Send Telemetry() and set the providers up where the runs are done",
            )
        return Telemetry, (None, None, self.contents)


class RunTrace:
    """One run's spans while it goes on: `listener` is one of the run, `end` comes when it was left."""

    def __init__(self, run: str, lineage: Any, spans: Any, *, is_heard: bool) -> None:
        self._run = run
        self._lineage = lineage
        self._spans = spans
        self._is_heard = is_heard

    @property
    def listener(self) -> Callable[[Event], None] | Callable[[Event], Awaitable[None]]:
        """Who is told of each event: in a thread, since a provider may wait for a network; without one, at once."""
        return self.feed if self._is_heard else self._feed_at_once

    async def _feed_at_once(self, event: Event) -> None:
        self.feed(event)

    def feed(self, event: Event) -> None:
        """Take in one event of the run."""
        self._spans.feed(event)

    def end(self) -> None:
        """End every span that is still open."""
        self._spans.end()

    def variables(self) -> Mapping[str, str]:
        """What a process started for the run finds in its environment: TRACEPARENT, of the run's own span."""
        return {"TRACEPARENT": self._lineage.traceparent(self._run)}

    def enter(self, call_id: str) -> None:
        """Let the spans that the current task makes from here on hang below this tool call."""
        from opentelemetry import context

        from toolkit.telemetry.ids import below

        context.attach(below(self._lineage.context_of(call_id)))
