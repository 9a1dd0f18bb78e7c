"""A run's traces and metrics reach a real OTLP receiver; a collector that is not there costs no run."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.cli._running import Desk
from tests.runs.play import ADD, BOX, call
from tests.sandbox.jails import needs_jail
from toolkit.errors import ToolkitError
from toolkit.report import as_markdown
from toolkit.runs import load_run, run
from toolkit.telemetry import Telemetry, otlp_json
from toolkit.testing import FakeCLI, ScriptedAPI, Turn, text, tool_use

TOOL_WITH_A_SPAN = """
from opentelemetry import trace
from toolkit import tool

@tool
def shout(words: str) -> str:
    with trace.get_tracer("mine").start_as_current_span("shouting"):
        return words.upper()
"""


class Receiver:
    """A collector that keeps what it is sent."""

    def __init__(self) -> None:
        self.spans: list[str] = []
        self.metrics: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    import gzip

                    body = gzip.decompress(body)
                outer.take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.spans += [span.name for scope in resource.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics += [one.name for scope in resource.scope_metrics for one in scope.metrics]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.close()


def script() -> FakeCLI:
    return FakeCLI(Turn([text("Filing."), call("toolu_1", ADD, title="a")]), Turn([text("Done.")]))


async def test_a_run_arrives_at_a_collector(receiver: Receiver) -> None:
    telemetry = Telemetry.otlp(receiver.url)
    await run("go", transport=script(), tools=[BOX], telemetry=telemetry)
    telemetry.close()
    assert {"invoke_agent claude-code", f"execute_tool {ADD}"} <= set(receiver.spans)
    assert {"gen_ai.client.token.usage", "gen_ai.invoke_agent.duration"} <= set(receiver.metrics)


@needs_jail
def test_the_spans_that_tools_make_themselves_arrive_with_those_of_the_command(
    tmp_path: Path, receiver: Receiver
) -> None:
    (tmp_path / "mine.py").write_text(TOOL_WITH_A_SPAN, encoding="utf-8")
    with ScriptedAPI([tool_use("mcp__mine__shout", words="x")], [text("Done.")]) as api:
        desk = Desk(tmp_path, api)
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        done = desk.toolkit("run", "Shout.", "--tools", "mine.py", "--otel", env=env)
    assert done.code == 0, done.err
    assert {"shouting", "execute_tool mcp__mine__shout", "invoke_agent claude-code"} <= set(receiver.spans)


async def test_a_collector_that_is_not_there_costs_no_run(caplog: pytest.LogCaptureFixture) -> None:
    others = set(threading.enumerate())
    gone = Receiver()
    gone.close()
    telemetry = Telemetry.otlp(gone.url)
    result = await run("go", transport=script(), tools=[BOX], telemetry=telemetry)
    assert result.ok
    before = time.monotonic()
    await asyncio.to_thread(telemetry.close)
    assert time.monotonic() - before < 60  # bounded, and no thread of it goes on to retry
    own = [thread for thread in threading.enumerate() if thread.name.startswith("Otel") and thread not in others]
    for thread in own:
        thread.join(60)
    assert [thread.name for thread in own if thread.is_alive()] == []


def test_an_endpoint_that_is_no_url_is_refused_in_words() -> None:
    with pytest.raises(ToolkitError, match="is not the address of a collector"):
        Telemetry.otlp("localhost:4318")


async def test_a_stored_run_is_exported_with_the_ids_that_were_sent(toolkit_home: Path) -> None:
    result = await run("go", transport=script(), tools=[BOX])
    stored = load_run(result.run)
    told = json.loads(otlp_json(stored.id, stored.events()))
    spans = [one for resource in told["resourceSpans"] for scope in resource["scopeSpans"] for one in scope["spans"]]
    by_name = {one["name"]: one for one in spans}
    root = by_name["invoke_agent claude-code"]
    assert len(root["traceId"]) == 32
    assert by_name[f"execute_tool {ADD}"]["parentSpanId"] == root["spanId"]
    assert json.loads(otlp_json(stored.id, stored.events())) == told


async def test_markdown_keeps_hostile_text_inside_its_fences() -> None:
    hostile = "````\n# Not a title\n<script>alert(1)</script>\n````"
    result = await run("go ``` on", transport=FakeCLI([text(hostile)]))
    page = as_markdown(load_run(result.run))
    fence = None
    outside = []
    for line in page.splitlines():
        ticks = len(line) - len(line.lstrip("`"))
        if fence is None and ticks >= 3:
            fence = ticks
        elif fence is not None and line == "`" * fence:
            fence = None
        elif fence is None:
            outside.append(line)
    assert fence is None
    assert not [line for line in outside if "Not a title" in line or "<script>" in line]
