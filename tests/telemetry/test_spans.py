"""A run's events as spans and metrics, by the conventions for generative AI."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
import threading
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from tests.runs.play import ADD, COUNT, call, play
from tests.telemetry.conftest import Collected
from toolkit import Toolbox, tool
from toolkit.errors import ToolkitError
from toolkit.runs import Event, run
from toolkit.telemetry import Telemetry
from toolkit.telemetry.names import CAPTURE
from toolkit.telemetry.telemetry import RunTrace
from toolkit.testing import FakeCLI, Status, Turn, text

SECRET = "the-secret-of-the-run"


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def script() -> FakeCLI:
    return FakeCLI(Turn([text("Filing."), call("toolu_1", ADD, title=SECRET)]), Turn([text("Done.")]))


async def test_a_run_a_model_call_and_a_tool_call_are_spans_of_one_trace(collected: Collected) -> None:
    _, result = await play(cli=script(), telemetry=collected.telemetry)
    spans = collected.spans()
    root, tool_span = spans["invoke_agent claude-code"], spans[f"execute_tool {ADD}"]
    chats = [span for span in collected.exporter.get_finished_spans() if span.name.startswith("chat ")]
    assert len(chats) == 2
    assert root.parent is None
    assert {span.parent.span_id for span in (*chats, tool_span) if span.parent} == {root.context.span_id}
    assert {span.context.trace_id for span in (*chats, tool_span)} == {root.context.trace_id}
    assert (chats[0].kind, tool_span.kind) == (SpanKind.CLIENT, SpanKind.INTERNAL)
    about = attributes(tool_span)
    assert about["gen_ai.tool.name"] == ADD
    assert about["gen_ai.tool.call.id"] == "toolu_1"
    assert about["gen_ai.operation.name"] == "execute_tool"
    assert attributes(root)["toolkit.run.code"] == result.code == "ok"
    assert attributes(root)["gen_ai.usage.output_tokens"] == result.total.output


async def test_a_model_calls_tokens_are_exact_and_count_the_cache_as_input(collected: Collected) -> None:
    usage = {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}
    await play(Turn([text("Done.")], usage=usage), telemetry=collected.telemetry)
    [chat] = [span for span in collected.exporter.get_finished_spans() if span.name.startswith("chat ")]
    about = attributes(chat)
    assert about["gen_ai.usage.input_tokens"] == 125
    assert about["gen_ai.usage.output_tokens"] == 7
    assert about["gen_ai.usage.cache_read.input_tokens"] == 100
    assert about["gen_ai.usage.cache_creation.input_tokens"] == 20
    assert about["gen_ai.response.finish_reasons"] == ("end_turn",)
    points = collected.metrics()["gen_ai.client.token.usage"]
    assert {(point.attributes["gen_ai.token.type"], point.sum) for point in points} == {("input", 125), ("output", 7)}


async def test_contents_are_told_only_where_the_variable_asks_for_them(
    collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CAPTURE, raising=False)
    await play(cli=script(), telemetry=collected.telemetry)
    assert SECRET not in "".join(span.to_json() for span in collected.exporter.get_finished_spans())
    collected.exporter.clear()
    monkeypatch.setenv(CAPTURE, "true")
    await play(cli=script(), telemetry=collected.telemetry, run_id="run-2")
    told = attributes(collected.spans()[f"execute_tool {ADD}"])
    assert SECRET in told["gen_ai.tool.call.arguments"]
    assert SECRET in told["gen_ai.tool.call.result"]
    assert "Go." in attributes(collected.spans()["invoke_agent claude-code"])["gen_ai.input.messages"]


async def test_a_tools_own_spans_hang_below_its_call(collected: Collected) -> None:
    @tool
    def look() -> str:
        """Look."""
        with trace.get_tracer("mine", tracer_provider=collected.provider).start_as_current_span("inner"):
            return "seen"

    @tool
    async def peek() -> str:
        """Peek."""
        with trace.get_tracer("mine", tracer_provider=collected.provider).start_as_current_span("inner async"):
            return "seen"

    cli = FakeCLI(Turn([call("toolu_a", "mcp__eyes__look"), call("toolu_b", "mcp__eyes__peek")]), Turn([text("Done.")]))
    result = await run("go", transport=cli, tools=[Toolbox("eyes", [look, peek])], telemetry=collected.telemetry)
    assert result.code == "ok"
    spans = collected.spans()
    for inner, outer in (("inner", "look"), ("inner async", "peek")):
        parent = spans[inner].parent
        assert parent is not None
        assert parent.span_id == spans[f"execute_tool mcp__eyes__{outer}"].context.span_id
        assert spans[inner].context.trace_id == spans["invoke_agent claude-code"].context.trace_id


async def test_a_run_hangs_below_the_span_of_whoever_started_it(collected: Collected) -> None:
    with trace.get_tracer("caller", tracer_provider=collected.provider).start_as_current_span("nightly") as mine:
        await run("go", transport=FakeCLI([text("Done.")]), telemetry=collected.telemetry)
    parent = collected.spans()["invoke_agent claude-code"].parent
    assert parent is not None
    assert parent.span_id == mine.get_span_context().span_id


async def test_a_failed_and_a_refused_tool_call_are_errors_with_their_kind(collected: Collected) -> None:
    cli = FakeCLI(Turn([call("toolu_1", ADD, title=""), call("toolu_2", COUNT)]), Turn([text("Done.")]))
    await play(cli=cli, telemetry=collected.telemetry, policy={COUNT: "deny"})
    spans = collected.spans()
    failed, refused = spans[f"execute_tool {ADD}"], spans[f"execute_tool {COUNT}"]
    assert (failed.status.status_code, attributes(failed)["error.type"]) == (StatusCode.ERROR, "tool_error")
    assert (refused.status.status_code, attributes(refused)["error.type"]) == (StatusCode.ERROR, "denied")


async def test_what_the_cli_itself_refused_is_an_event_of_the_run(collected: Collected) -> None:
    events, _ = await play(cli=script())
    denied = [{"id": "toolu_9", "name": "Read", "reason": "refused by the CLI"}]
    events[-1] = dataclasses.replace(events[-1], data={**events[-1].data, "denied": denied})
    trace_ = collected.telemetry.begin("run-1")
    for event in events:
        trace_.feed(event)
    trace_.end()
    told = [one for one in collected.spans()["invoke_agent claude-code"].events if one.name == "refused"]
    assert [dict(one.attributes or {}) for one in told] == [
        {"gen_ai.tool.name": "Read", "gen_ai.tool.call.id": "toolu_9", "reason": "refused by the CLI"}
    ]


async def test_a_run_that_fails_is_an_error_with_its_code_and_its_open_spans_end(collected: Collected) -> None:
    _, result = await play(Status(529), telemetry=collected.telemetry)
    root = collected.spans()["invoke_agent claude-code"]
    assert result.code != "ok"
    assert root.status.status_code is StatusCode.ERROR
    assert attributes(root)["error.type"] == result.code
    assert all(span.end_time is not None for span in collected.exporter.get_finished_spans())


async def test_setup_and_each_verify_are_spans_of_their_own_without_their_output(collected: Collected) -> None:
    events, _ = await play(cli=script())
    when = events[0].t

    def told(stream: Any, kind: str, **data: Any) -> Event:
        return Event(stream, kind, when, "run-1", "run-1", None, data)

    judged = [told("verify", "started", attempt=1), told("verify", "ended", passed=False, output=SECRET, exit_code=1)]
    again = [told("verify", "started", attempt=2), told("verify", "ended", passed=True, exit_code=0)]
    setup = [
        told("setup", "started", command=SECRET),
        told("setup", "output", text=SECRET),
        told("setup", "ended", ok=True),
    ]
    trace_ = collected.telemetry.begin("run-1")
    for event in (*setup, *events[:-1], *judged, *again, events[-1]):
        trace_.feed(event)
    trace_.end()
    spans = collected.exporter.get_finished_spans()
    root = next(span for span in spans if span.name == "invoke_agent claude-code")
    phases = [span for span in spans if span.name in ("setup", "verify")]
    assert [(span.name, attributes(span).get("error.type")) for span in phases] == [
        ("setup", None),
        ("verify", "failed"),
        ("verify", None),
    ]
    assert {span.parent.span_id for span in phases if span.parent} == {root.context.span_id}
    assert attributes(root)["gen_ai.request.model"] == events[0].data["model"]
    assert attributes(root)["gen_ai.conversation.id"] == events[0].data["session"]
    assert len({span.context.span_id for span in (*phases, root)}) == 4
    assert SECRET not in "".join(span.to_json() for span in phases)


async def test_an_unknown_cost_is_counted_as_unknown_and_not_as_nothing(collected: Collected) -> None:
    trace_ = collected.telemetry.begin("run-x")
    events, _ = await play(cli=script())
    for event in events:
        data = {**event.data, "cost": None} if event.name == "lifecycle.finished" else event.data
        trace_.feed(type(event)(event.stream, event.kind, event.t, event.run, event.id, event.parent, data))
    trace_.end()
    points = collected.metrics()
    assert [point.value for point in points["toolkit.run.cost_unknown"]] == [1]
    assert "toolkit.run.cost" not in points


async def test_the_same_run_told_twice_has_the_same_ids(collected: Collected) -> None:
    events, _ = await play(cli=script())
    ids = []
    for _ in range(2):
        collected.exporter.clear()
        trace_ = collected.telemetry.begin("run-1")
        for event in events:
            trace_.feed(event)
        trace_.end()
        ids.append([(span.context.trace_id, span.context.span_id) for span in collected.exporter.get_finished_spans()])
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == len(ids[0])


def test_a_telemetry_without_providers_travels_and_one_with_them_says_why_not(collected: Collected) -> None:
    assert pickle.loads(pickle.dumps(Telemetry(contents=True))).contents is True
    with pytest.raises(ToolkitError, match="cannot be sent to another process"):
        pickle.dumps(collected.telemetry)


def test_a_run_that_asks_for_no_telemetry_imports_nothing_of_it() -> None:
    probe = (
        "import asyncio, sys\nfrom toolkit.runs import run\nfrom toolkit.testing import FakeCLI, text\n"
        "asyncio.run(run('go', transport=FakeCLI([text('Done.')])))\n"
        "print([m for m in sys.modules if m.startswith(('toolkit.telemetry', 'opentelemetry.sdk'))])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


async def test_a_provider_is_told_in_a_thread_and_no_thread_is_made_for_nobody(
    collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: set[bool] = set()
    feed = RunTrace.feed

    def noted(trace: RunTrace, event: Event) -> None:
        where.add(threading.current_thread() is threading.main_thread())
        feed(trace, event)

    monkeypatch.setattr(RunTrace, "feed", noted)
    await play(cli=script(), telemetry=Telemetry(), run_id="unheard")
    assert where == {True}

    where.clear()
    await play(cli=script(), telemetry=collected.telemetry)
    assert where == {False}
    assert collected.spans()["invoke_agent claude-code"]
