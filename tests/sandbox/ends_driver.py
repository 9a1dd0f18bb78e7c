"""A program that confines something and ends in the way it is told; started by test_ends.py.

python -m tests.sandbox.ends_driver WORKSPACE MARKER WAY
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from toolkit.sandbox import confine

_JOBS = "sleep 300 {m} & setsid sleep 300 {m} & (sleep 300 {m} &) ; echo started > ready; exec sleep 300 {m}"


def _start(launch: Path, marker: str) -> subprocess.Popen[bytes]:
    # `sleep` takes several times; the marker is one it understands and nobody else uses.
    return subprocess.Popen([launch, "/bin/bash", "-c", _JOBS.format(m=marker)])


def _wait_for(file: Path) -> None:
    end = time.monotonic() + 30
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.02)


async def main(workspace: Path, marker: str, way: str) -> None:
    async with confine(workspace, api_url="http://127.0.0.1:9", api_key="x") as jail:
        process = _start(Path(jail.options()["cli_path"]).with_name("launch"), marker)
        await asyncio.to_thread(_wait_for, workspace / "ready")
        print("ready", flush=True)
        if way == "normal":
            return
        if way == "error":
            raise RuntimeError("on purpose")
        if way == "deadline":
            async with asyncio.timeout(0.1):
                await asyncio.sleep(60)
        if way == "cli-killed":
            os.kill(process.pid, signal.SIGKILL)
            process.wait(timeout=60)
            return
        await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
