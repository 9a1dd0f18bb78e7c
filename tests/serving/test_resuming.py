"""A client whose connection broke gets the rest of its stream; no other session does, and memory is bounded."""

from __future__ import annotations

import contextlib
import http.client
import json
from pathlib import Path

from mcp.server.streamable_http import EventMessage
from mcp_types import JSONRPCNotification

from tests.serving._client import BOUND, HEADERS, ServedHttp
from toolkit_servers.telling.resuming import RecentEvents, SessionEvents

SOURCE = """
import threading

go = threading.Event()

@tool
def wait(ctx: ToolContext) -> str:
    "Wait until told."
    ctx.log("waiting")
    print("waiting", flush=True)
    assert go.wait(60)
    return "the rest"

@tool
def release() -> str:
    "Let it go on."
    go.set()
    return "released"

box = Toolbox("resuming", [wait, release])
"""


def _event_id(response: http.client.HTTPResponse) -> str:
    while True:
        line = response.fp.readline()
        if line.startswith(b"id: "):
            return line[4:].strip().decode()


def _resume(served: ServedHttp, last: str, session: dict[str, str], bound: float = BOUND) -> str:
    """What a client that comes back is sent, up to the answer; "" where nothing comes in time."""
    headers = {"Accept": "text/event-stream", "Last-Event-ID": last, **session}
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=bound)
    with contextlib.closing(connection), contextlib.suppress(TimeoutError):
        connection.request("GET", "/mcp", headers=headers)
        response = connection.getresponse()
        while line := response.fp.readline():
            if line.startswith(b"data: {") and "result" in (message := json.loads(line[6:])):
                return str(message["result"]["content"][0]["text"])
    return ""


def test_a_broken_stream_is_taken_up_again_by_its_own_session_only(tmp_path: Path) -> None:
    with ServedHttp(tmp_path, SOURCE) as served:
        served.initialize()
        frame = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "wait", "arguments": {}}}
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=BOUND)
        connection.request("POST", "/mcp", json.dumps(frame), {**HEADERS, **served.session})
        last = _event_id(connection.getresponse())
        served.wait_for_output("waiting")
        connection.close()
        mine = dict(served.session)
        served.session = {}
        served.initialize()
        assert served.request("tools/call", {"name": "release", "arguments": {}})["content"][0]["text"] == "released"
        assert _resume(served, last, served.session, bound=1) == ""
        assert _resume(served, last, mine) == "the rest"


async def test_what_is_kept_for_all_sessions_is_bounded() -> None:
    recent = RecentEvents(most_events=10, most_bytes=5_000)
    one, other = SessionEvents(recent), SessionEvents(recent)
    message = JSONRPCNotification(jsonrpc="2.0", method="x", params={"text": "y" * 500})
    ids = [await one.store_event("1", message) for _ in range(30)]
    foreign = await other.store_event("1", message)
    assert len(recent.kept) <= 10
    assert recent.bytes <= 5_000
    sent: list[EventMessage] = []

    async def send(event: EventMessage) -> None:
        sent.append(event)

    assert await one.replay_events_after(ids[0], send) is None
    assert await one.replay_events_after(foreign, send) is None
    assert await one.replay_events_after("no number", send) is None
    assert await one.replay_events_after(ids[-3], send) == "1"
    assert [event.event_id for event in sent] == ids[-2:]
    await one.store_event("1", JSONRPCNotification(jsonrpc="2.0", method="x", params={"text": "y" * 9_000}))
    assert recent.bytes <= 5_000
