"""A small Dask cluster of separate processes, for the tests of fleets."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fleets.play import BILLS, SLOW

ROOT = Path(__file__).parents[2]
PATH = ":".join(map(str, (ROOT, ROOT / "servers", ROOT / "workspace")))
_SECONDS = 120
_OWN = "/var/tmp"
"""Where a worker that shares nothing has its own disk."""
_APART = f"""
hidden=$1 disk=$2; shift 2
mount -t tmpfs -o mode=0755,size=$disk tmpfs {_OWN} || exit 1
mount -t tmpfs -o mode=0755 tmpfs "$hidden" && mkdir {_OWN}/home || exit 1
[ "$(id -u)" = 0 ] || set -- setpriv --ambient-caps=-all --inh-caps=-all "$@"  # bubblewrap wants none from a user
exec "$@"
"""


class Processes:
    """A scheduler and its workers, each a process that can be killed."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder = folder
        self._env = {**os.environ, **env, "PYTHONPATH": PATH, "DASK_DISTRIBUTED__DIAGNOSTICS__NVML": "False"}
        self.host, self.port = own_address()
        self.address = f"tcp://{self.host}:{self.port}"
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def scheduler(self) -> None:
        self._start("scheduler", "scheduler", "--host", self.host, "--port", str(self.port), "--no-dashboard")

    def worker(
        self,
        name: str,
        *,
        env: Mapping[str, str] | None = None,
        threads: int = 1,
        hides: Path | None = None,
        disk: str = "90%",
    ) -> None:
        """Start a worker. With `hides` it has mounts of its own: that folder is empty, and so are its home and temp."""
        place = str(self._folder / f"dask-{name}")
        apart: list[str] = []
        if hides is not None:
            place = f"{_OWN}/dask"
            own = {"HOME": f"{_OWN}/home", "TMPDIR": _OWN, "TOOLKIT_HOME": f"{_OWN}/state", "XDG_STATE_HOME": _OWN}
            env = {**own, **(env or {})}
            user = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
            apart = [
                "unshare",
                *user,
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                _APART,
                "sh",
                str(hides),
                disk,
            ]
        options = ["--no-nanny", "--nthreads", str(threads), "--no-dashboard", "--local-directory", place]
        self._start(name, "worker", self.address, *options, "--name", name, env=env, apart=apart)

    def _start(self, name: str, *words: str, env: Mapping[str, str] | None = None, apart: Sequence[str] = ()) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [*apart, sys.executable, "-W", "ignore", "-m", "dask", *words],
                cwd="/",
                env={**self._env, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, name: str) -> int:
        """End a process without a warning."""
        process = self.running.pop(name)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(_SECONDS)
        return process.pid

    def name_of(self, pid: int) -> str:
        """The name of a process."""
        return next(name for name, process in self.running.items() if process.pid == pid)

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            process.wait(_SECONDS)


_ports = itertools.count(20_000)  # below those that systems give out by themselves


def own_address() -> tuple[str, int]:
    """A host and a port of this machine that no other process of any tests chooses: they would share a scheduler."""
    pid = os.getpid()
    return f"127.{1 + (pid >> 16)}.{pid >> 8 & 255}.{pid & 255}", next(_ports)


def until(condition: Any, seconds: float = _SECONDS) -> None:
    """Wait until something that other processes do has happened."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


@contextmanager
def two_workers(tmp_path: Path, home: Path | None = None) -> Iterator[Processes]:
    """A scheduler and two workers: with runs in one `home`, or each with runs of its own."""
    (tmp_path / "slow").mkdir()
    shared = {} if home is None else {"TOOLKIT_HOME": str(home)}
    processes = Processes(tmp_path, {BILLS: str(tmp_path / "bills"), SLOW: str(tmp_path / "slow"), **shared})
    processes.scheduler()
    for name in ("w1", "w2"):
        processes.worker(name, env=shared or {"TOOLKIT_HOME": str(tmp_path / name)})
    try:
        yield processes
    finally:
        processes.close()


@pytest.fixture
def fleet(tmp_path: Path, toolkit_home: Path) -> Iterator[Processes]:
    """A scheduler and two workers that share this machine's disk."""
    with two_workers(tmp_path, toolkit_home) as processes:
        yield processes
