"""A stdio server answers its first messages without an event loop and without pydantic, and goes on unnoticed."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.serving._client import BOUND, ENVELOPE, HANDSHAKE, SERVE, Served, wait_until
from toolkit import Toolbox, tool
from toolkit.errors import ToolkitError
from toolkit_servers.stdio import serve_stdio

TOOLS = '''
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

@dataclass
class Item:
    """One item."""

    name: Annotated[str, "what it is called"]
    count: int = 1

@tool
def order(items: list[Item], how: Literal["slow", "fast"] = "slow", where: Path | None = None) -> int:
    """Order items.

    Args:
        where: Where they go.
    """
    return sum(item.count for item in items)

box = Toolbox("small", [order])
'''
_HEAVY = ("pydantic_core", "_asyncio")
"""Libraries that show in the memory of a process that has loaded them."""


def _loaded(served: Served) -> list[str]:
    maps = Path(f"/proc/{served.process.pid}/maps").read_text(encoding="ascii", errors="replace")
    return [name for name in _HEAVY if name in maps]


def _talk(served: Served, *, modern: bool) -> list[Any]:
    meta = {"_meta": ENVELOPE} if modern else {}
    if modern:
        greeted = [served.request("server/discover", meta)]
    else:
        served.initialize()
        greeted = [served.request("ping"), served.request("logging/setLevel", {"level": "error"})]
    missing = served.answer("prompts/list", meta)["error"]["code"]
    return [*greeted, missing, served.request("tools/list", meta)]


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "sessionless"])
def test_nothing_heavy_is_loaded_before_a_tool_is_called(tmp_path: Path, modern: bool) -> None:
    with Served(tmp_path, TOOLS) as served:
        *_, missing, listed = _talk(served, modern=modern)
        assert missing == -32601
        [entry] = listed["tools"]
        assert (
            entry["inputSchema"]["properties"]["items"]["items"]["properties"]["name"]["description"]
            == "what it is called"
        )
        assert _loaded(served) == []

        meta = {"_meta": ENVELOPE} if modern else {}
        arguments = {"items": [{"name": "a", "count": 2}, {"name": "b"}]}
        result = served.request("tools/call", {"name": "order", "arguments": arguments, **meta})
        assert result["content"] == [{"type": "text", "text": "3"}]
        assert _loaded(served) == [*_HEAVY]
        assert served.request("tools/list", meta)["tools"] == [entry]


def test_all_at_once_is_answered_in_its_order(tmp_path: Path) -> None:
    calls = [("initialize", HANDSHAKE), ("ping", {}), ("tools/list", {}), ("nonsense", {}), ("ping", {})]
    frames = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(calls)
    ]
    call = {"name": "order", "arguments": {"items": []}}
    frames += [{"jsonrpc": "2.0", "method": "notifications/initialized"}]
    frames += [{"jsonrpc": "2.0", "id": "last", "method": "tools/call", "params": call}]
    (tmp_path / "tools.py").write_text(f"from toolkit import Toolbox, tool\n{TOOLS}", encoding="utf-8")
    sent = b"\n".join([b"", b"no json", *(json.dumps(frame).encode() for frame in frames)])
    done = subprocess.run([*SERVE, "tools.py"], cwd=tmp_path, input=sent, capture_output=True, timeout=60, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer.get("id") for answer in answers] == [None, 0, 1, 2, 3, 4, "last"]
    assert answers[0]["error"]["code"] == -32700
    assert answers[-1]["result"]["content"][0]["text"] == "0"


def test_over_a_socket_as_node_gives_it_and_to_a_client_that_reads_late(tmp_path: Path) -> None:
    many = "\n".join(
        f'@tool\ndef tool_{n}(a: int) -> int:\n    """{"A long text. " * 40}"""\n    return a\n' for n in range(400)
    )
    (tmp_path / "tools.py").write_text(f"from toolkit import tool\n{many}", encoding="utf-8")
    ours, theirs = socket.socketpair()
    with (
        ours,
        subprocess.Popen([*SERVE, "tools.py"], cwd=tmp_path, stdin=theirs.fileno(), stdout=theirs.fileno()) as process,
    ):
        theirs.close()
        ours.settimeout(BOUND)
        for number, (method, params) in enumerate([("initialize", HANDSHAKE), ("tools/list", {}), ("ping", {})]):
            frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            ours.sendall(json.dumps(frame).encode() + b"\n")
        ready, _, _ = select.select([ours], [], [], BOUND)
        assert ready
        # More than the socket holds waits in the server, which is idle meanwhile.
        wait_until(lambda: "_asyncio" in Path(f"/proc/{process.pid}/maps").read_text(encoding="ascii"))
        read = b""
        while read.count(b"\n") < 3:
            read += ours.recv(1 << 20)
        answers = [json.loads(line) for line in read.splitlines()]
        assert [answer["id"] for answer in answers] == [0, 1, 2]
        assert len(answers[1]["result"]["tools"]) == 400
        ours.shutdown(socket.SHUT_WR)
        assert process.wait(BOUND) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_quietly(tmp_path: Path, number: signal.Signals) -> None:
    with Served(tmp_path, TOOLS) as served:
        served.initialize()
        assert _loaded(served) == []
        os.kill(served.process.pid, number)
        assert served.process.wait(BOUND) == 0
        assert "Traceback" not in served.stderr


def _sent(*messages: tuple[str, dict[str, Any]]) -> bytes:
    frames = [
        {"jsonrpc": "2.0", "id": at, "method": name, "params": params} for at, (name, params) in enumerate(messages)
    ]
    return b"".join(json.dumps(frame).encode() + b"\n" for frame in frames)


def _called_once(folder: Path, source: str, before: Sequence[str] = ()) -> list[Any]:
    """What a server says to a greeting and a call of `f`, from a client that hangs up at once."""
    (folder / "tools.py").write_text(source, encoding="utf-8")
    sent = _sent(("initialize", HANDSHAKE), ("tools/list", {}), ("tools/call", {"name": "f", "arguments": {"a": [1]}}))
    argv = [*before, *SERVE, "tools.py"]
    done = subprocess.run(argv, cwd=folder, input=sent, capture_output=True, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


_F = """
from toolkit import tool

@tool
def f(a: list = [1]) -> str:
    "Say."
    return f"got {a}"
"""


def test_what_takes_long_to_load_is_not_taken_for_a_tool_that_hangs(tmp_path: Path) -> None:
    slow = "import sys, time\nclass Slow:\n    def find_spec(self, name, path=None, target=None):\n"
    slow += "        if name == 'pydantic': time.sleep(1.2)\nsys.meta_path.insert(0, Slow())\n"
    *_, last = _called_once(tmp_path, slow + _F)
    assert last["result"]["content"][0]["text"] == "got [1]"


@pytest.mark.parametrize("name", ["logging", "asyncio", "decimal", "pydantic", "typing_extensions", "queue"])
def test_a_neighbour_called_like_a_library_breaks_nothing_where_its_folder_comes_first(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / f"{name}.py").write_text("raise RuntimeError('not me')", encoding="utf-8")
    first = "import sys\nfrom pathlib import Path\nsys.path.insert(0, str(Path(__file__).parent))\n"
    *_, last = _called_once(tmp_path, first + _F)
    assert last["result"]["content"][0]["text"] == "got [1]"


_WITH_MANY_FILES = """
import os, resource, sys
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
for _ in range(1100):
    os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_server_with_many_open_files_reads_its_client(tmp_path: Path) -> None:
    *_, last = _called_once(tmp_path, _F, before=[sys.executable, "-c", _WITH_MANY_FILES])
    assert last["result"]["content"][0]["text"] == "got [1]"


def test_a_terminal_says_only_once_that_it_ends(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(_F, encoding="utf-8")
    ours, theirs = pty.openpty()
    with subprocess.Popen([*SERVE, "tools.py"], cwd=tmp_path, stdin=theirs, stdout=subprocess.PIPE) as process:
        os.close(theirs)
        try:
            os.write(ours, _sent(("initialize", HANDSHAKE)))
            assert process.stdout is not None
            assert b"serverInfo" in process.stdout.readline()
            os.write(ours, b"\x04")
            assert process.wait(BOUND) == 0
        finally:
            os.close(ours)


def test_exit_handlers_run_when_the_parent_dies_before_any_call(tmp_path: Path) -> None:
    last_words = "import atexit, pathlib\natexit.register(lambda: pathlib.Path('ran').touch())\n"
    (tmp_path / "tools.py").write_text(last_words + _F, encoding="utf-8")
    reading, ours = os.pipe()
    with subprocess.Popen(
        ["sh", "-c", '"$@" <&3 3<&- & wait', "sh", *SERVE, "tools.py"],
        cwd=tmp_path,
        stdin=reading,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: os.dup2(0, 3),
        close_fds=False,
    ) as parent:
        os.close(reading)
        os.write(ours, _sent(("initialize", HANDSHAKE)))
        assert parent.stdout is not None
        assert b"serverInfo" in parent.stdout.readline()
        parent.kill()
        wait_until((tmp_path / "ran").exists)
    os.close(ours)


async def test_it_is_refused_where_an_event_loop_runs() -> None:
    with pytest.raises(ToolkitError, match="from a coroutine"):
        serve_stdio(Toolbox("box", [tool(given_back)]))


def given_back(a: int) -> int:
    """Give it back."""
    return a
