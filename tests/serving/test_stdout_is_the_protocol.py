"""stdio: nothing but protocol messages reaches the client, whoever prints and whenever."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.serving._client import HANDSHAKE, Served

PRINTING = """
import atexit
import ctypes
import os
import subprocess
import sys

libc = ctypes.CDLL(None)
print("print at import")
sys.stdout.write("write at import\\n")
os.write(1, b"os.write at import\\n")
libc.puts(b"puts at import")
subprocess.run(["echo", "child at import"], check=True)
sys.__stdout__.write("__stdout__ at import, not flushed")
atexit.register(print, "print at exit")
atexit.register(libc.puts, b"puts at exit")

@tool
def loud(text: str) -> str:
    "Print in every way."
    print("print in tool")
    os.write(1, b"os.write in tool\\n")
    libc.puts(b"puts in tool")
    libc.fflush(None)
    subprocess.run(["echo", "child in tool"], check=True)
    sys.stdout.write("buffered in tool")
    return text

@tool
async def loud_async(text: str) -> str:
    "Print in an async tool."
    print("print in async tool")
    return text

@tool
def forked(text: str) -> str:
    "Fork and print in the child."
    child = os.fork()
    if child == 0:
        print("print in fork", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    return text

box = Toolbox("printing", [loud, loud_async, forked])
"""


def test_whatever_is_printed_goes_to_stderr_from_import_to_exit(tmp_path: Path) -> None:
    with Served(tmp_path, PRINTING) as served:
        served.initialize()
        assert served.call("loud", text="a") == "a"
        assert served.call("loud_async", text="b") == "b"
        assert served.call("forked", text="c") == "c"
        served.close_stdin()
        assert served.read_line() == b""
        served.wait()
        said = served.stderr
    for source in ("print", "write", "os.write", "puts", "child", "__stdout__"):
        assert f"{source} at import" in said
    for source in ("print", "os.write", "puts", "child", "buffered"):
        assert f"{source} in tool" in said
    assert "print in async tool" in said
    assert "print in fork" in said
    assert "print at exit" in said
    assert "puts at exit" in said


READING = """
import os
import subprocess
import sys

taken = sys.stdin.read() + os.read(0, 1000).decode()

@tool
def steal() -> str:
    "Try to read what the client sends."
    mine = os.read(0, 1000).decode() + sys.stdin.read()
    childs = subprocess.run(["cat"], capture_output=True, text=True, timeout=60).stdout
    fds = subprocess.run(["sh", "-c", "ls /proc/self/fd"], capture_output=True, text=True, close_fds=False).stdout
    return f"{taken!r} {mine!r} {childs!r} {sorted(fds.split())[:3]} {len(fds.split())}"

box = Toolbox("reading", [steal])
"""


def test_neither_a_tool_nor_its_child_can_take_bytes_of_the_protocol(tmp_path: Path) -> None:
    with Served(tmp_path, READING) as served:
        served.send("initialize", HANDSHAKE, request_id=1)
        served.send("notifications/initialized")
        for request_id in (2, 3):
            served.send("tools/call", {"name": "steal", "arguments": {}}, request_id=request_id)
        answers = {answer["id"]: answer for answer in (served.read() for _ in range(3))}
        assert set(answers) == {1, 2, 3}
        text = answers[2]["result"]["content"][0]["text"]
        assert text.startswith("'' '' '' ['0', '1', '2'")
        # 0, 1, 2 and the one ls opens to look: the protocol's own descriptors are not inherited.
        assert text.endswith(" 4")


def test_a_child_that_outlives_the_server_does_not_keep_the_connection_open(tmp_path: Path) -> None:
    source = """
    import os, signal, time

    @tool
    def leave_a_child() -> int:
        "Fork a child that stays."
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        return child

    box = Toolbox("forking", [leave_a_child])
    """
    with Served(tmp_path, source) as served:
        served.initialize()
        child = int(served.call("leave_a_child"))
        try:
            served.close_stdin()
            assert served.read_line() == b""
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_tools_output_is_only_in_its_result(tmp_path: Path) -> None:
    source = """
    @tool
    def speak() -> str:
        "Print what looks like a message."
        print('{"jsonrpc": "2.0", "id": 1, "result": {}}', flush=True)
        return "spoken"

    box = Toolbox("speaking", [speak])
    """
    with Served(tmp_path, source) as served:
        served.initialize()
        served.send("tools/call", {"name": "speak", "arguments": {}}, request_id=1)
        assert json.loads(served.read_line())["result"]["content"][0]["text"] == "spoken"
