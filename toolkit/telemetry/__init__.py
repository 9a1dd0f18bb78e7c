"""A run as OpenTelemetry traces and metrics, by the semantic conventions for generative AI.

`Telemetry` says where they go. A run that is given one feeds it its events; the spans have ids that follow from the
run's id and the calls' ids, so that a tool's own spans find their parent while the call is still under way.
opentelemetry is imported when a `Telemetry` is made, and by nothing else here.
"""

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.telemetry.export import otlp_json as otlp_json
    from toolkit.telemetry.metrics import BatchFigures as BatchFigures
    from toolkit.telemetry.telemetry import RunTrace as RunTrace, Telemetry as Telemetry

_HOMES = {
    "toolkit.telemetry.telemetry": "RunTrace Telemetry",
    "toolkit.telemetry.export": "otlp_json",
    "toolkit.telemetry.metrics": "BatchFigures",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
