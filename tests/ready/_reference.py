"""The reference filesystem server and ours, asked the same things over stdio, and the tree they are asked about.

The reference is an npm package, pinned in tests/ready/reference; `./dev test` puts it into the environment.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PACKAGE = Path(sys.prefix) / "reference/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
NODE = shutil.which("node")
BOUND = 60.0
_HANDSHAKE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
_PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55")
_WAV = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\0\0\0\0"


class Server:
    """A process that speaks MCP over stdio; every wait is bounded."""

    def __init__(self, argv: Sequence[str], cwd: Path) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": str(cwd), "TZ": "UTC", "LANG": "C.UTF-8"}
        self._process = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        self._rest = b""
        self._ids = 0
        self.request("initialize", _HANDSHAKE)
        self._send({"method": "notifications/initialized"})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request; an error of the protocol is the result `{"error": …}`."""
        self._ids += 1
        self._send({"id": self._ids, "method": method, "params": params})
        while True:
            answer = json.loads(self._line())
            if answer.get("id") == self._ids:
                found: dict[str, Any] = answer.get("result") or {"error": answer["error"]}
                return found

    def tools(self) -> dict[str, dict[str, Any]]:
        """The tools it lists, by name."""
        return {tool["name"]: tool for tool in self.request("tools/list", {})["tools"]}

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What a tool answers."""
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def close(self) -> None:
        """End the process by closing its input, as clients do."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(BOUND)
        finally:
            self._process.kill()
            self._process.wait(BOUND)
            self._process.stdout.close()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        deadline = time.monotonic() + BOUND
        while b"\n" not in self._rest:
            ready = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]
            data = os.read(self._process.stdout.fileno(), 1 << 20) if ready else b""
            assert data, "the server says nothing"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def build_tree(folder: Path) -> None:
    """One of everything that a tool may meet."""
    texts = {
        "a.txt": "one\ntwo\nthree\n",
        "no_end.txt": "first\nlast",
        "empty.txt": "",
        "crlf.txt": "one\r\ntwo\r\nthree\r\n",
        "bom.txt": "\ufeffmarked\n",
        "fences.md": "```\ncode\n```\n````\n",
        "twice.txt": "same\nother\nsame\n",
        "indent.py": "class A:\n    def f(self):\n        if self.x:\n            return 1\n        return 2\n",
        "tabs.go": "func f() {\n\tif x {\n\t\ty()\n\t}\n}\n",
        "short.py": "def f():\n    return 2\n",
        "long.txt": "".join(f"line {number}\n" for number in range(400)),
        "kilo.txt": "k" * 1_536,
        "with space.txt": "space\n",
        "é.txt": "accent\n",
        "d/b.py": "pass\n",
        "d/e/c.py": "pass\n",
        "d/e/C.md": "# C\n",
        "src/app.ts": "let x\n",
        "src/app.tsx": "let y\n",
        "src/node_modules/pkg/index.js": "0\n",
        "node_modules/top.js": "0\n",
        ".hidden/.secret": "s\n",
        "drawing.svg": "<svg/>\n",
        "odd/two\nlines": "",
        "locked.txt": "locked\n",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    for name, data in {
        "latin.txt": b"caf\xe9\n",
        "binary.bin": b"\0\1\2\xff" * 8,
        "pixel.png": _PNG,
        "sound.wav": _WAV,
    }.items():
        (folder / name).write_bytes(data)
    (folder / "void").mkdir()
    (folder / "a.txt").chmod(0o640)
    (folder / "locked.txt").chmod(0o444)
    for name, target in {"to_a": "a.txt", "to_d": "d", "dead": "nowhere", "out": "../outside.txt"}.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "fifo")
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink():
            os.utime(path, (1_700_000_000, 1_700_000_000))


def photograph(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every path below a folder with its kind, mode and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        data = b""
        if stat.S_ISREG(mode):
            data = path.read_bytes()
        elif stat.S_ISLNK(mode):
            data = os.fsencode(path.readlink())
        found[path.relative_to(folder).as_posix()] = (mode, data)
    return found
