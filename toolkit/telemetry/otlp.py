"""Providers that send to an OTLP collector. The only file that needs the extra `otel` while a run goes on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

_TIMEOUT_S = 5
"""Seconds for one request to a collector: a run's end does not wait longer for one that does not answer."""


def needs_extra(error: ImportError) -> ToolkitError:
    """The error for an extra that is not there."""
    return ToolkitError(
        f"traces cannot be sent: {error.name or error} is not installed",
        fix="Install the toolkit with its extra: pip install 'WHEEL[otel]', with the path of its wheel",
    )


def providers(endpoint: str | None) -> tuple[TracerProvider, MeterProvider]:
    """A tracer and a meter provider that send to `endpoint`, or where the OTEL_… variables say.

    Raises:
        ToolkitError: the extra is not installed, or the endpoint is no URL.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise needs_extra(error) from error
    base = _checked(endpoint)
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "toolkit"}
    resource = Resource.create(named)
    traces = TracerProvider(resource=resource, shutdown_on_exit=False)
    traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(_signal(base, "traces"), timeout=_TIMEOUT_S)))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(_signal(base, "metrics"), timeout=_TIMEOUT_S))
    return traces, MeterProvider([reader], resource=resource, shutdown_on_exit=False)


def _checked(endpoint: str | None) -> str | None:
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ToolkitError(
            f"{endpoint!r} is not the address of a collector", fix="Write it as a URL: http://127.0.0.1:4318"
        )
    return endpoint.rstrip("/")


def _signal(base: str | None, name: str) -> str | None:
    """The address for one kind of data; None leaves it to the exporter and its variables."""
    return None if base is None else f"{base}/v1/{name}"
