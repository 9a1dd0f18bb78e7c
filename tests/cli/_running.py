"""Start `toolkit run` as a user does, in a terminal or in a pipe, against a scripted model."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli._command import TOOLKIT, Done, toolkit
from toolkit.runs import StoredRun, load_run
from toolkit.testing import ScriptedAPI

_BOUND = 60.0


class Desk:
    """A folder with a project, a home for stored runs, and no key but a fake one."""

    def __init__(self, folder: Path, api: ScriptedAPI | None = None) -> None:
        self.folder = folder
        self.home = folder / "toolkit-home"
        self.src = folder / "src"
        self.src.mkdir(exist_ok=True)
        (self.src / "app.py").write_text("print('old')\n", encoding="utf-8")
        self.env = {"TOOLKIT_HOME": str(self.home)}
        if api is not None:
            self.env |= {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "fake-key"}

    def toolkit(self, *words: str, **options: Any) -> Done:
        """Run `toolkit WORDS` to its end."""
        env = {**self.env, **options.pop("env", {})}
        return toolkit(*words, cwd=self.folder, env=env, **options)

    def last(self) -> StoredRun:
        """The run that began last."""
        return load_run("last", self.home)

    def wait_for(self, words: str) -> None:
        """Follow the last run until the model has said this, or a tool."""
        assert any(words in str(event.data) for event in self.last().follow()), f"never said: {words}"

    @property
    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8", **self.env}

    @contextmanager
    def piped(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """`toolkit WORDS` with its output in pipes, while it runs."""
        with subprocess.Popen(
            [str(TOOLKIT), *words],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def terminal(self, *words: str) -> Iterator[Terminal]:
        """`toolkit WORDS` on a terminal of its own, while it runs."""
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        process = subprocess.Popen(
            [str(TOOLKIT), *words],
            cwd=self.folder,
            env={**self._environment, "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        try:
            yield Terminal(ours, process)
        finally:
            process.kill()
            process.wait(_BOUND)
            os.close(ours)


class Terminal:
    """What a person sees and types."""

    def __init__(self, fd: int, process: subprocess.Popen[bytes]) -> None:
        self._fd = fd
        self.process = process
        self.shown = ""
        self._seen = 0

    def see(self, words: str) -> None:
        """Wait until these words are shown, after the ones that were waited for before."""
        end = time.monotonic() + _BOUND
        while (at := self.shown.find(words, self._seen)) < 0:
            assert self._read(end - time.monotonic()), f"never shown: {words!r} in {self.shown!r}"
        self._seen = at + len(words)

    def type(self, keys: str) -> None:
        """Press keys; \\x03 is Ctrl-C, which the terminal turns into a signal for all that runs in it."""
        os.write(self._fd, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        """Make the window larger or smaller; the kernel tells the program."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    @property
    def modes(self) -> list[Any]:
        """How the terminal treats what is typed: echo, lines, signals."""
        return termios.tcgetattr(self._fd)

    def end(self) -> int:
        """Wait for the end of the command; its exit code."""
        end = time.monotonic() + _BOUND
        while self._read(end - time.monotonic()):
            pass
        return self.process.wait(_BOUND)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._fd], [], [], max(0.0, seconds))[0]:
            return False
        try:
            piece = os.read(self._fd, 65536)
        except OSError:  # nobody has the other side open any more
            return False
        self.shown += piece.decode(errors="replace")
        return bool(piece)


def project(desk: Desk) -> Path:
    """A repository with one commit, a virtual environment and a folder of data."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", desk.src / ".venv"], check=True, timeout=60)
    (desk.src / "data").mkdir()
    (desk.src / "data" / "table.csv").write_text("a,b\n", encoding="utf-8")
    (desk.src / ".gitignore").write_text(".venv\ndata\n", encoding="utf-8")
    git = ["git", "-C", str(desk.src), "-c", "user.name=n", "-c", "user.email=e@example.com"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "The first."]):
        subprocess.run([*git, *words], check=True, timeout=60)
    return desk.src


def children_of(pid: int) -> set[int]:
    """All processes below one, by what the kernel says."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        direct = {int(child) for thread in threads for child in (thread / "children").read_text().split()}
    except FileNotFoundError:
        return set()
    return direct | {below for child in direct for below in children_of(child)}


def wait_until_gone(pids: set[int]) -> None:
    """Wait until none of these processes lives."""
    end = time.monotonic() + 10
    while alive := {pid for pid in pids if _lives(pid)}:
        assert time.monotonic() < end, f"still alive: {alive}"
        select.select([], [], [], 0.05)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
