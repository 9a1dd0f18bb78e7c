"""What runs use, as metrics: tokens, durations, cost; and the queue and the rate of a batch. Instruments are shared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation

from toolkit.telemetry import names

_SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_LONG_SECONDS = [1, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200]
_TOKENS = [4**power for power in range(14)]
_USD = [0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 25, 50, 100]


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """A batch in numbers, at one moment."""

    tasks: Mapping[str, int]
    """How many tasks wait, run, are done and have failed."""
    rate: float | None = None
    """Requests a second that it may send; None where there is no limit yet."""
    lowered: int = 0
    """How often it slowed down."""


class Meters:
    """The instruments of a meter."""

    def __init__(self, meter: Meter) -> None:
        def histogram(name: str, unit: str, about: str, bounds: Sequence[float]) -> Histogram:
            return meter.create_histogram(name, unit, about, explicit_bucket_boundaries_advisory=bounds)

        self._tokens = histogram("gen_ai.client.token.usage", "{token}", "Tokens of a model call.", _TOKENS)
        self._operation = histogram("gen_ai.client.operation.duration", "s", "How long a model call took.", _SECONDS)
        self._tool = histogram("gen_ai.execute_tool.duration", "s", "How long a tool call took.", _SECONDS)
        self._run = histogram("gen_ai.invoke_agent.duration", "s", "How long a run took.", _LONG_SECONDS)
        self._cost = histogram("toolkit.run.cost", "{USD}", "Cost of a run, where it is known.", _USD)
        self._unknown = meter.create_counter(
            "toolkit.run.cost_unknown", "{run}", "Runs whose cost is not known: toolkit.run.cost leaves them out."
        )

    def tokens(self, model: str, given: int, written: int) -> None:
        """The tokens of one model call."""
        about = _about("chat", model)
        self._tokens.record(given, {**about, names.TOKEN_TYPE: "input"})
        self._tokens.record(written, {**about, names.TOKEN_TYPE: "output"})

    def operation(self, operation: str, model: str, seconds: float) -> None:
        """The time of one model call."""
        self._operation.record(max(0.0, seconds), _about(operation, model))

    def tool(self, name: str, seconds: float, error: str | None) -> None:
        """The time of one tool call."""
        about = {names.OPERATION: "execute_tool", names.TOOL_NAME: name}
        self._tool.record(max(0.0, seconds), about if error is None else {**about, names.ERROR: error})

    def run(self, code: str, ms: float | None, usd: float | None) -> None:
        """The time and the cost of a whole run."""
        about = {names.OPERATION: "invoke_agent", names.AGENT_NAME: names.AGENT, "toolkit.run.code": code}
        if ms is not None:
            self._run.record(ms / 1000, about)
        if usd is None:
            self._unknown.add(1, about)
        else:
            self._cost.record(usd, about)


def watch_batch(meter: Meter, name: str, look: Callable[[], BatchFigures]) -> None:
    """The queue and the rate of a batch, looked up whenever the figures are collected."""
    about = {"toolkit.batch.name": name}

    def tasks(options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(count, {**about, "toolkit.batch.state": state}) for state, count in look().tasks.items()]

    def rate(options: CallbackOptions) -> Iterable[Observation]:
        now = look().rate
        return [] if now is None else [Observation(now, about)]

    def lowered(options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(look().lowered, about)]

    meter.create_observable_gauge("toolkit.batch.tasks", [tasks], "{task}", "Tasks of the batch by how they stand.")
    meter.create_observable_gauge("toolkit.batch.rate", [rate], "{request}/s", "Requests a second the batch may send.")
    meter.create_observable_counter(
        "toolkit.batch.rate.lowered", [lowered], "{time}", "How often the batch slowed down after a refusal."
    )


def _about(operation: str, model: str) -> dict[str, str]:
    return {names.OPERATION: operation, names.PROVIDER: names.ANTHROPIC, names.REQUEST_MODEL: model}
