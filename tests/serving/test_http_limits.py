"""Over HTTP: too much, too many, too slow and not quite HTTP. Each gets its status and a reason, and others are served on."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.serving._client import BOUND, ENVELOPE, ServedHttp, wait_until
from toolkit.cli.serve.options import _ROWS, LIMIT_TYPES
from toolkit.errors import ToolkitError
from toolkit_servers.http import Limits

SOURCE = """
import asyncio

@tool
def shout(text: str) -> str:
    "In capitals."
    return text.upper()

@tool
def much() -> str:
    "More than a socket holds."
    return "x" * 20_000_000

@tool
async def wait(ctx: ToolContext) -> str:
    "Until the file is there."
    print("waiting", flush=True)
    while not (WORK / "go").exists():
        await asyncio.sleep(0.01)
    return "done"

from pathlib import Path
WORK = Path.cwd()
box = Toolbox("limits", [shout, much, wait])
"""
LIMITS = {
    "--max-body": "20000",
    "--max-headers": "8000",
    "--max-connections": "20",
    "--max-calls": "3",
    "--max-calls-per-client": "2",
    "--header-seconds": "0.5",
    "--body-seconds": "0.5",
    "--write-seconds": "0.5",
}


def options(limits: dict[str, str]) -> list[str]:
    return [word for pair in limits.items() for word in pair]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHttp]:
    with ServedHttp(tmp_path_factory.mktemp("limits"), SOURCE, options=options(LIMITS)) as served:
        yield served


@pytest.fixture
def raw(served: ServedHttp) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", served.port), BOUND) as client:
        yield client


def read_all(client: socket.socket) -> bytes:
    """Everything until the server closes."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while more := client.recv(65536):
            data += more
    return data


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def reason_of(answer: bytes) -> str:
    reason: str = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]
    return reason


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments, "_meta": ENVELOPE}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def modern(tool: str) -> dict[str, str]:
    return {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}


def request(body: bytes, *lines: str, tool: str = "shout") -> bytes:
    """A request as bytes, with these lines in its head besides the usual ones."""
    usual = ["Host: localhost", "Content-Type: application/json", "Accept: application/json, text/event-stream"]
    head = [*usual, *(f"{name}: {value}" for name, value in modern(tool).items()), *lines]
    return "\r\n".join(["POST /mcp HTTP/1.1", *head, "", ""]).encode() + body


SHOUT = json.dumps(call("shout", text="hey")).encode()


def assert_serves(served: ServedHttp) -> None:
    served.session = {}
    assert served.post(call("shout", text="hey"), modern("shout"))[0] == 200


def test_a_body_that_says_it_is_too_large_is_413_before_it_is_sent(served: ServedHttp, raw: socket.socket) -> None:
    raw.sendall(request(b"", "Content-Length: 20001"))
    answer = read_all(raw)
    assert status_of(answer) == 413
    assert reason_of(answer) == "the body has more than 20000 bytes"
    assert_serves(served)


def test_a_body_that_turns_out_too_large_is_413(served: ServedHttp, raw: socket.socket) -> None:
    raw.sendall(request(b"5000\r\n" + b"x" * 0x5000 + b"\r\n", "Transfer-Encoding: chunked"))
    assert status_of(read_all(raw)) == 413
    assert_serves(served)


def test_headers_without_end_are_431(served: ServedHttp, raw: socket.socket) -> None:
    with contextlib.suppress(OSError):
        raw.sendall(request(b"", *(f"X-{number}: {'y' * 90}" for number in range(200))))
    answer = read_all(raw)
    assert status_of(answer) == 431
    assert reason_of(answer) == "the headers have more than 8000 bytes"
    assert_serves(served)


@pytest.mark.parametrize("sent", [b"", b"P", b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
def test_headers_that_do_not_come_are_408(served: ServedHttp, raw: socket.socket, sent: bytes) -> None:
    raw.sendall(sent)
    answer = read_all(raw)
    assert status_of(answer) == 408
    assert reason_of(answer) == "the headers took longer than 0.5 s"


def test_headers_that_drip_are_408_all_the_same(served: ServedHttp, raw: socket.socket) -> None:
    raw.settimeout(0.05)
    raw.sendall(b"POST /mcp HTTP/1.1\r\n")
    answer = b""

    def drip() -> bool:
        nonlocal answer
        with contextlib.suppress(OSError):
            raw.sendall(b"X: y\r\n")
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            answer += raw.recv(65536)
        return bool(answer)

    wait_until(drip)
    assert status_of(answer) == 408


def test_the_second_request_of_a_connection_has_no_more_time_than_the_first(
    served: ServedHttp, raw: socket.socket
) -> None:
    raw.sendall(request(SHOUT, f"Content-Length: {len(SHOUT)}"))
    first = raw.recv(65536)
    assert status_of(first) == 200
    raw.sendall(b"POST /mcp")
    assert status_of(read_all(raw)) == 408


def test_a_body_that_does_not_come_is_408(served: ServedHttp, raw: socket.socket) -> None:
    raw.sendall(request(SHOUT[:-5], f"Content-Length: {len(SHOUT)}"))
    answer = read_all(raw)
    assert status_of(answer) == 408
    assert reason_of(answer) == "the body took longer than 0.5 s"


def test_a_client_that_does_not_read_its_answer_is_dropped(served: ServedHttp) -> None:
    body = json.dumps(call("much")).encode()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(BOUND)
        client.connect(("127.0.0.1", served.port))
        client.sendall(request(body, f"Content-Length: {len(body)}", tool="much"))
        wait_until(lambda: b'rule="slow"' in metrics(served) and open_connections(served) <= 1)
        assert len(read_all(client)) < 20_000_000
    assert_serves(served)


def metrics(served: ServedHttp) -> bytes:
    with socket.create_connection(("127.0.0.1", served.port), BOUND) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return read_all(client)


def open_connections(served: ServedHttp) -> int:
    rows = metrics(served).splitlines()
    return int(next(row for row in rows if row.startswith(b"toolkit_connections ")).split()[1])


def test_a_connection_too_many_is_told_503(served: ServedHttp) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(socket.create_connection(("127.0.0.1", served.port), BOUND))
        last = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), BOUND))
        answer = read_all(last)
    assert status_of(answer) == 503
    assert reason_of(answer) == "20 connections are open; try again"
    wait_until(lambda: status_of(metrics(served)) == 200)
    assert_serves(served)


def test_a_clients_calls_past_its_share_are_429_and_the_rest_go_on(tmp_path: Path) -> None:
    with ServedHttp(tmp_path, SOURCE, options=options({"--max-calls-per-client": "2"})) as served:
        with ThreadPoolExecutor() as pool:
            running = [pool.submit(served.post, call("wait"), modern("wait")) for _ in range(2)]
            wait_until(lambda: served.output.count("waiting") == 2)
            status, body = served.post(call("shout", text="hey"), modern("shout"))
            (tmp_path / "go").touch()
            assert [future.result(BOUND)[0] for future in running] == [200, 200]
        assert status == 429
        assert json.loads(body)["error"]["message"] == "2 requests of this client are under way; wait for one to end"
        assert_serves(served)


def test_calls_past_all_shares_are_503_and_say_when_to_come_back(tmp_path: Path) -> None:
    with ServedHttp(tmp_path, SOURCE, options=options({"--max-calls": "2"})) as served:
        with ThreadPoolExecutor() as pool:
            running = [pool.submit(served.post, call("wait"), modern("wait")) for _ in range(2)]
            wait_until(lambda: served.output.count("waiting") == 2)
            with socket.create_connection(("127.0.0.1", served.port), BOUND) as client:
                client.sendall(request(SHOUT, f"Content-Length: {len(SHOUT)}", "Connection: close"))
                answer = read_all(client)
            (tmp_path / "go").touch()
            assert [future.result(BOUND)[0] for future in running] == [200, 200]
        assert status_of(answer) == 503
        assert b"retry-after: 1" in answer


ATTACKS = {
    "two lengths": request(b"0\r\n\r\n", "Content-Length: 5", "Transfer-Encoding: chunked"),
    "two other lengths": request(SHOUT, "Content-Length: 5", f"Content-Length: {len(SHOUT)}"),
    "a length in words": request(SHOUT, "Content-Length: five"),
    "a signed length": request(SHOUT, f"Content-Length: +{len(SHOUT)}"),
    "a list of lengths": request(SHOUT, f"Content-Length: {len(SHOUT)}, 5"),
    "an unknown encoding": request(b"0\r\n\r\n", "Transfer-Encoding: xchunked"),
    "two encodings": request(b"0\r\n\r\n", "Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
    "a space before the colon": request(b"0\r\n\r\n", "Transfer-Encoding : chunked"),
    "a bare newline in a value": request(SHOUT, f"X: y\rContent-Length: {len(SHOUT)}"),
    "a zero byte": request(SHOUT, "X: \0", f"Content-Length: {len(SHOUT)}"),
    "a chunk of a length that is none": request(b"0x5\r\nhello\r\n0\r\n\r\n", "Transfer-Encoding: chunked"),
    "a chunk of a negative length": request(b"-5\r\nhello\r\n0\r\n\r\n", "Transfer-Encoding: chunked"),
    "two hosts": request(SHOUT, "Host: evil.example", f"Content-Length: {len(SHOUT)}"),
    "no version": b"GET /mcp\r\n\r\n",
    "another version": b"GET /mcp HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 40,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_could_be_read_in_two_ways_is_refused_and_nothing_after_it_is_read(
    served: ServedHttp, attack: str
) -> None:
    smuggled = request(SHOUT, f"Content-Length: {len(SHOUT)}")
    with socket.create_connection(("127.0.0.1", served.port), BOUND) as client:
        with contextlib.suppress(OSError):
            client.sendall(ATTACKS[attack] + smuggled)
        answer = read_all(client)
    assert answer.count(b"HTTP/1.1 ") == 1, answer
    assert 400 <= status_of(answer) <= 505, answer
    assert b"HEY" not in answer
    assert_serves(served)


def test_a_request_of_version_1_0_without_a_host_is_refused(served: ServedHttp, raw: socket.socket) -> None:
    raw.sendall(b"GET /health HTTP/1.0\r\n\r\n")
    assert status_of(read_all(raw)) == 421


def test_an_upgrade_is_not_taken_up(served: ServedHttp, raw: socket.socket) -> None:
    raw.sendall(
        b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert status_of(read_all(raw)) in (400, 406)


@pytest.mark.parametrize("body", [b"[" * 15_000, b'{"a":' * 2_000, b"\xff\xfe", b"1" * 10_000, b'{"id":1e999}', b""])
def test_a_body_that_is_no_message_is_refused(served: ServedHttp, body: bytes) -> None:
    with socket.create_connection(("127.0.0.1", served.port), BOUND) as client:
        client.sendall(request(body, f"Content-Length: {len(body)}", "Connection: close"))
        assert status_of(read_all(client)) == 400
    assert_serves(served)


def test_a_thousand_idle_connections_keep_nobody_out(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip("no more than 4,096 files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    try:
        with ServedHttp(tmp_path, SOURCE) as served, contextlib.ExitStack() as stack:
            for _ in range(1000):
                stack.enter_context(socket.create_connection(("127.0.0.1", served.port), BOUND))
            wait_until(lambda: open_connections(served) >= 1000)
            assert_serves(served)
            assert open_connections(served) >= 1000
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_low_limit_of_open_files_is_raised_for_the_connections(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with ServedHttp(tmp_path, SOURCE, options=["--max-connections", "300"]) as served:
            allowed = resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE)[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert allowed == min(556, hard)


def test_every_limit_has_an_option_that_shows_its_default() -> None:
    shown = {
        name: float(default.split()[0]) * _UNITS.get(default.partition(" ")[2], 1) for name, _, default, _ in _ROWS
    }
    assert shown == {name: getattr(Limits(), name) for name in LIMIT_TYPES}
    assert set(LIMIT_TYPES) == set(Limits.__dataclass_fields__)


_UNITS = {"MiB": 2**20, "KiB": 2**10}


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), "5", True, None])
def test_a_limit_that_limits_nothing_is_refused(value: Any) -> None:
    with pytest.raises(ToolkitError):
        Limits(max_calls=value)
