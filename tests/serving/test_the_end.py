"""stdio: when the client is gone the process is gone, whatever the tools do. How soon is measured by the bench."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving._client import BOUND, HANDSHAKE, SERVE, STUCK, Served, wait_until


def _start(served: Served, tool: str) -> None:
    """Call a tool and wait until it runs."""
    served.initialize()
    served.send("tools/call", {"name": tool, "arguments": {}}, request_id="stuck")
    wait_until(lambda: "running" in served.stderr)


@pytest.mark.parametrize("sockets", [False, True], ids=["pipes", "sockets"])
def test_end_of_file_ends_an_idle_server(tmp_path: Path, sockets: bool) -> None:
    with Served(tmp_path, STUCK, sockets=sockets) as served:
        served.initialize()
        served.close_stdin()
        assert (served.wait(), served.stderr) == (0, "")


@pytest.mark.parametrize("tool", ["blocked", "stubborn", "hogging", "bad_exit"])
def test_end_of_file_ends_the_process_while_a_tool_runs(tmp_path: Path, tool: str) -> None:
    with Served(tmp_path, STUCK) as served:
        _start(served, tool)
        served.close_stdin()
        assert served.wait() == 0


def test_replies_that_are_ready_still_arrive(tmp_path: Path) -> None:
    with Served(tmp_path, STUCK) as served:
        served.send("initialize", HANDSHAKE, request_id=1)
        served.send("notifications/initialized")
        served.send("tools/call", {"name": "quick", "arguments": {}}, request_id=2)
        served.send("tools/call", {"name": "soon", "arguments": {}}, request_id=3)
        served.send("tools/call", {"name": "blocked", "arguments": {}}, request_id=4)
        served.close_stdin()
        assert {served.read()["id"] for _ in range(3)} == {1, 2, 3}
        served.wait()


def test_a_file_as_stdin_is_answered_to_its_end(tmp_path: Path) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text("from toolkit import Toolbox, tool\n" + STUCK, encoding="utf-8")
    requests = tmp_path / "requests.jsonl"
    requests.write_text(
        '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", '
        '"capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}\n'
        '{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "quick", "arguments": {}}}',
        encoding="utf-8",
    )
    argv = [*SERVE, str(tools)]
    with requests.open() as given, (tmp_path / "out").open("w+") as out:
        subprocess.run(argv, stdin=given, stdout=out, timeout=BOUND, check=True)
        out.seek(0)
        assert ['"id":1' in line or '"id":2' in line for line in out.read().splitlines()] == [True, True]


def test_a_client_that_neither_reads_nor_writes_any_more_does_not_hold_the_process(tmp_path: Path) -> None:
    with Served(tmp_path, STUCK) as served:
        served.initialize()
        call = b'{"jsonrpc": "2.0", "id": %d, "method": "tools/call", "params": {"name": "big", "arguments": {}}}\n'
        assert served.flood(call) > 0
        served.close_stdin()
        assert served.wait() == 0


@pytest.mark.parametrize("tool", ["quick", "hogging", "importing"])
def test_the_death_of_the_parent_ends_the_process_although_stdin_stays_open(tmp_path: Path, tool: str) -> None:
    tools = tmp_path / "tools.py"
    slow_import = "print('running', flush=True)\nimport time\ntime.sleep(60)\n" if tool == "importing" else ""
    tools.write_text("from toolkit import Toolbox, tool\n" + slow_import + STUCK, encoding="utf-8")
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    launcher = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen({[*SERVE, str(tools)]!r}, "
        f"stdin={reading}, stdout=open({str(tmp_path / 'out')!r}, 'w'), stderr=open({str(tmp_path / 'err')!r}, 'w'))\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", launcher], pass_fds=[reading], stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        os.write(writing, _line(1, "initialize", HANDSHAKE) + _line(2, "tools/call", {"name": tool, "arguments": {}}))
        waits_for = (tmp_path / "err", "running") if tool != "quick" else (tmp_path / "out", '"id":2')
        wait_until(lambda: waits_for[0].exists() and waits_for[1] in waits_for[0].read_text())
        parent.kill()
        wait_until(lambda: not _is_alive(server))
    finally:
        parent.kill()
        parent.wait(BOUND)
        parent.stdout.close()  # type: ignore[union-attr]
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_without_a_traceback(tmp_path: Path, number: signal.Signals) -> None:
    with Served(tmp_path, STUCK) as served:
        served.initialize()
        served.process.send_signal(number)
        assert (served.wait(), served.stderr) == (0, "")


def test_ctrl_c_while_the_module_is_imported_is_no_traceback(tmp_path: Path) -> None:
    slow = "import sys, threading\nprint('running', file=sys.stderr, flush=True)\nthreading.Event().wait(60)\n"
    with Served(tmp_path, slow) as served:
        wait_until(lambda: "running" in served.stderr)
        served.process.send_signal(signal.SIGINT)
        assert (served.wait(), served.stderr) == (1, "running\n\nAborted!\n")


def test_a_signal_ends_it_also_while_a_tool_blocks_the_event_loop(tmp_path: Path) -> None:
    with Served(tmp_path, STUCK) as served:
        _start(served, "hogging")
        served.process.terminate()
        assert served.wait() == 0


def test_a_client_that_closes_only_its_reading_end_is_gone_too(tmp_path: Path) -> None:
    with Served(tmp_path, STUCK) as served:
        served.initialize()
        served.close_stdout()
        served.send("ping", request_id=1)
        assert served.wait() == 0


def _line(request_id: int, method: str, params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode() + b"\n"


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
