"""Spans and metrics kept in memory, and runs that are kept to the test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from toolkit.telemetry import Telemetry


@pytest.fixture(autouse=True)
def _private_home(toolkit_home: Path) -> None:
    """Every test here keeps its runs to itself."""


@dataclass(frozen=True)
class Collected:
    """What a run told."""

    telemetry: Telemetry
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    provider: TracerProvider

    def spans(self) -> dict[str, ReadableSpan]:
        """The finished spans by name."""
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def metrics(self) -> dict[str, list[Any]]:
        """The data points by the name of their metric."""
        data = self.reader.get_metrics_data()
        assert data is not None
        every = [one for resource in data.resource_metrics for scope in resource.scope_metrics for one in scope.metrics]
        return {one.name: list(one.data.data_points) for one in every}


@pytest.fixture
def collected(request: pytest.FixtureRequest) -> Iterator[Collected]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider, meters = TracerProvider(shutdown_on_exit=False), MeterProvider([reader], shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Collected(Telemetry(provider, meters), exporter, reader, provider)
    provider.shutdown()
    meters.shutdown()
