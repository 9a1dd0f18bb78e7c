"""What an operator sees of a server: /health, /metrics, the access log; and how it ends without dropping calls."""

from __future__ import annotations

import http.client
import json
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.serving._client import BOUND, ENVELOPE, STUCK, ServedHttp, wait_until
from toolkit_servers.http.watching import AccessLog, LogEntry, Metrics

SOURCE = """
import asyncio
from pathlib import Path
WORK = Path.cwd()

@tool
def shout(text: str) -> str:
    "In capitals."
    return text.upper()

@tool
def fails(text: str) -> str:
    "Fail."
    raise ToolError("no")

@tool
async def wait(text: str) -> str:
    "Until the file is there."
    print("waiting", flush=True)
    while not (WORK / "go").exists():
        await asyncio.sleep(0.01)
    return "done"

@tool
async def wait_in_touch(ctx: ToolContext, text: str) -> str:
    "The same, over mcp's own transport."
    return await wait(text)

box = Toolbox("watched", [shout, fails, wait, wait_in_touch])
"""
SECRET = "a-word-that-must-not-be-told"


def call(tool: str) -> dict[str, Any]:
    params = {"name": tool, "arguments": {"text": SECRET}, "_meta": ENVELOPE}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def modern(tool: str) -> dict[str, str]:
    return {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}


def page(served: ServedHttp, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=BOUND)
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHttp]:
    with ServedHttp(tmp_path_factory.mktemp("watched"), SOURCE, options=["--log-format", "json"]) as served:
        yield served


def test_health_says_that_it_is_ready_and_how_many_tools_there_are(served: ServedHttp) -> None:
    status, body = page(served, "/health")
    assert (status, json.loads(body)) == (200, {"live": True, "ready": True, "tools": 4})


def test_metrics_count_calls_by_tool_and_outcome_and_nothing_else_of_them(served: ServedHttp) -> None:
    served.session = {}
    for tool in ("shout", "shout", "fails", "no_such_tool"):
        served.post(call(tool), modern(tool))
    served.post(call("shout"), {"Host": "evil.example"})
    status, text = page(served, "/metrics")
    rows = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert status == 200
    assert rows['toolkit_calls_total{tool="shout",outcome="ok"}'] == "2"
    assert rows['toolkit_calls_total{tool="fails",outcome="error"}'] == "1"
    assert rows['toolkit_calls_total{tool="unknown",outcome="error"}'] == "1"
    assert rows['toolkit_call_duration_seconds_count{tool="shout"}'] == "2"
    assert rows['toolkit_call_duration_seconds_bucket{tool="shout",le="+Inf"}'] == "2"
    assert rows['toolkit_refused_total{rule="host"}'] == "1"
    assert rows["toolkit_calls_in_flight"] == "0"
    assert SECRET not in text
    assert "no_such_tool" not in text


def test_metrics_are_in_the_form_that_prometheus_reads(served: ServedHttp) -> None:
    _, text = page(served, "/metrics")
    row = re.compile(r'[a-z_]+(\{[a-z]+="[^"\n]*"(,[a-z]+="[^"\n]*")*\})? [0-9.e+-]+')
    assert text.endswith("\n")
    assert [
        line for line in text.splitlines() if not line.startswith(("# HELP ", "# TYPE ")) and not row.fullmatch(line)
    ] == []


def test_a_line_of_the_log_tells_who_called_what_for_how_long_and_no_contents(tmp_path: Path) -> None:
    with ServedHttp(tmp_path, SOURCE, options=["--log-format", "json"]) as served:
        served.post(call("fails"), modern("fails"))
        line = served.log_line()
    assert line.pop("ms") > 0
    assert line.pop("time").startswith("20")
    assert line == {
        "client": "127.0.0.1",
        "program": "test",
        "method": "tools/call",
        "tool": "fails",
        "status": 200,
        "outcome": "error",
    }


def test_in_a_session_the_log_knows_the_program_from_its_greeting(tmp_path: Path) -> None:
    with ServedHttp(tmp_path, SOURCE, options=["--log-format", "json"]) as served:
        served.initialize()
        served.answer("tools/list")
        lines = [served.log_line() for _ in range(3)]
    assert [(line["method"], line["program"]) for line in lines] == [
        ("initialize", "test"),
        ("notifications/initialized", "test"),
        ("tools/list", "test"),
    ]


def test_what_a_client_calls_itself_cannot_forge_a_line(tmp_path: Path) -> None:
    read, write = __import__("os").pipe()
    log = AccessLog("text", fd=write)
    forged = "evil\n2026-01-01T00:00:00.000Z alice - tools/call shout 200 ok 1.0ms"
    log.write(LogEntry(forged, forged, "ok", 200, 1.0, forged, forged))
    log.flush()
    __import__("os").close(write)
    with open(read, "rb") as stream:  # noqa: PTH123
        text = stream.read()
    assert text.count(b"\n") == 1


def test_the_log_is_off_on_loopback_unless_it_is_asked_for(tmp_path: Path) -> None:
    with ServedHttp(tmp_path, SOURCE) as served:
        served.post(call("shout"), modern("shout"))
        served.process.terminate()
        served.process.wait(BOUND)
        assert served.process.stderr is not None
        assert served.process.stderr.read() == ""


def test_labels_do_not_grow_without_bound() -> None:
    metrics = Metrics()
    for number in range(3000):
        metrics.called(f"tool_{number}", "ok", 0.1)
    text = metrics.text()
    assert 'toolkit_calls_total{tool="other",outcome="ok"} 1000' in text


@pytest.mark.parametrize("path", ["/", "/mcp/", "/healthz", "/../mcp", "//mcp"])
def test_another_path_is_not_found(served: ServedHttp, path: str) -> None:
    assert page(served, path)[0] == 404


@pytest.mark.parametrize("tool", ["wait", "wait_in_touch"])
@pytest.mark.parametrize("era", ["modern", "handshake"])
def test_on_a_signal_calls_under_way_finish_and_new_ones_are_refused(tmp_path: Path, tool: str, era: str) -> None:
    with ServedHttp(tmp_path, SOURCE) as served:
        headers = modern(tool)
        asked = call(tool)
        if era == "handshake":
            served.initialize()
            headers = {}
            del asked["params"]["_meta"]
        with ThreadPoolExecutor() as pool:
            running = pool.submit(served.post, asked, headers)
            served.wait_for_output("waiting")
            served.process.send_signal(signal.SIGTERM)
            wait_until(lambda: page(served, "/health")[0] == 503)
            refused = served.post(call("shout"), modern("shout"))
            (tmp_path / "go").touch()
            status, body = running.result(BOUND)
        assert refused[0] == 503
        assert "no new call is taken" in json.loads(refused[1])["error"]["message"]
        assert (status, json.loads(body)["result"]["content"][0]["text"]) == (200, "done")
        assert served.process.wait(BOUND) == -signal.SIGTERM


def test_a_call_that_does_not_finish_has_the_time_that_was_given(tmp_path: Path) -> None:
    with ServedHttp(tmp_path, STUCK, options=["--end-seconds", "0.2"]) as served:
        served.initialize()
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "blocked", "arguments": {}}}
        with served.started(asked):
            served.wait_for_output("running")
            served.process.send_signal(signal.SIGTERM)
            assert served.process.wait(BOUND) != 0


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with ServedHttp(tmp_path, SOURCE, options=["--end-seconds", "600"]) as served:
        served.initialize()
        asked = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "wait", "arguments": {"text": "x"}},
        }
        with served.started(asked):
            served.wait_for_output("waiting")
            served.process.send_signal(signal.SIGTERM)
            wait_until(lambda: page(served, "/health")[0] == 503)
            served.process.send_signal(signal.SIGTERM)
            assert served.process.wait(BOUND) != 0


def test_an_open_stream_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with ServedHttp(tmp_path, SOURCE, options=["--end-seconds", "600"]) as served:
        served.initialize()
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=BOUND)
        connection.request("GET", "/mcp", headers={"Accept": "text/event-stream", **served.session})
        assert connection.getresponse().status == 200
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(BOUND) == -signal.SIGTERM
        connection.close()
