"""A stored run as OTLP in JSON: what a collector would have been sent, made from the run's events afterwards."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from toolkit.telemetry.otlp import needs_extra
from toolkit.telemetry.telemetry import Telemetry

if TYPE_CHECKING:
    from toolkit.runs import Event


def otlp_json(run: str, events: Iterable[Event], *, contents: bool = False) -> str:
    """The run's spans as one `ExportTraceServiceRequest`.

    Raises:
        ToolkitError: the extra `otel` is not installed.
    """
    try:
        from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    except ImportError as error:
        raise needs_extra(error) from error
    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": "toolkit"}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace = Telemetry(provider, contents=contents).begin(run)
    for event in events:
        trace.feed(event)
    trace.end()
    plain = MessageToDict(encode_spans(kept.get_finished_spans()))
    return json.dumps(_with_hex_ids(plain), indent=1, ensure_ascii=False)


def _with_hex_ids(value: Any) -> Any:
    """OTLP writes ids in JSON as hexadecimal digits, and protobuf's own JSON writes bytes as base64."""
    if isinstance(value, list):
        return [_with_hex_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    is_id = {"traceId", "spanId", "parentSpanId"}
    return {key: base64.b64decode(one).hex() if key in is_id else _with_hex_ids(one) for key, one in value.items()}
