"""Counts and durations in Prometheus' text format. Labels name tools, outcomes and rules: nothing a client says."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_MOST_TOOLS = 2000
"""Names of tools that have rows of their own; reloading could bring ever new ones."""
_OTHER = "other"


class Metrics:
    """What is counted while a server runs."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[str, str]] = Counter()
        self._durations: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._gauges: list[tuple[str, str, Callable[[], float]]] = []

    def gauge(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Add a row whose value is asked for when it is read."""
        self._gauges.append((name, about, value))

    def called(self, tool: str, outcome: str, seconds: float) -> None:
        """Count a call; `tool` is the name of a tool that is served."""
        if tool not in self._durations and len(self._durations) >= _MOST_TOOLS:
            tool = _OTHER
        self._calls[tool, outcome] += 1
        counts = self._durations.get(tool)
        if counts is None:
            counts = self._durations[tool] = [0] * (len(BUCKETS) + 1)
        counts[bisect_left(BUCKETS, seconds)] += 1
        self._sums[tool] += seconds  # type: ignore[assignment]

    def refused(self, rule: str) -> None:
        """Count a request that a rule kept out."""
        self._refused[rule] += 1

    def text(self) -> str:
        """All of it, as Prometheus reads it."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        calls = [({"tool": tool, "outcome": outcome}, count) for (tool, outcome), count in sorted(self._calls.items())]
        yield from _family("toolkit_calls_total", "counter", "Calls that ended, by tool and outcome.", calls)
        yield "# HELP toolkit_call_duration_seconds How long calls took."
        yield "# TYPE toolkit_call_duration_seconds histogram"
        for tool, counts in sorted(self._durations.items()):
            yield from _histogram("toolkit_call_duration_seconds", tool, counts, self._sums[tool])
        refused = [({"rule": rule}, count) for rule, count in sorted(self._refused.items())]
        yield from _family("toolkit_refused_total", "counter", "Requests that were refused, by rule.", refused)
        for name, about, value in self._gauges:
            yield from _family(name, "gauge", about, [({}, value())])


def _family(name: str, kind: str, about: str, rows: Iterable[tuple[dict[str, str], float]]) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
    for labels, value in rows:
        yield f"{name}{_labels(labels)} {value:g}"


def _histogram(name: str, tool: str, counts: list[int], total: float) -> Iterator[str]:
    below = 0
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
        below += count
        yield f"{name}_bucket{_labels({'tool': tool, 'le': bound})} {below}"
    yield f"{name}_sum{_labels({'tool': tool})} {total:.9g}"
    yield f"{name}_count{_labels({'tool': tool})} {below}"


def _labels(labels: dict[str, str]) -> str:
    escaped = {
        key: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for key, value in labels.items()
    }
    return "{" + ",".join(f'{key}="{value}"' for key, value in escaped.items()) + "}" if labels else ""
