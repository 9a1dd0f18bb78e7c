"""The two who read the README: root, and a user who may do nothing that others may not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.escape.users import PLAIN_USER, as_plain_user, can_become_plain

KINDS = ("root", "plain user")


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a home, at a shell."""

    is_plain: bool
    home: Path
    env: dict[str, str]

    def command(self, line: str) -> list[str]:
        """What starts bash for this person, with a line or a script."""
        words = ["bash", "-e", "-o", "pipefail", "-c", line]
        return as_plain_user(words, self.home) if self.is_plain else words

    def types(
        self, line: str, cwd: Path, *, seconds: float = 170, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Type a line, or a script, and wait for its end."""
        self.owns(cwd)
        with subprocess.Popen(
            self.command(line),
            cwd=cwd,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(line, process.returncode, out, err)

    def owns(self, folder: Path) -> None:
        """Let everything in the folder be this person's."""
        if self.is_plain:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, PLAIN_USER, PLAIN_USER, follow_symlinks=False)


@contextmanager
def person(kind: str) -> Iterator[Person]:
    """A person of that kind with a fresh home, which is short enough for sockets and gone at the end."""
    home = Path(tempfile.mkdtemp(prefix="tk-home-", dir="/tmp"))
    is_plain = kind != "root" and os.geteuid() == 0
    try:
        env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(home), "LANG": "C.UTF-8"}
        yield Person(is_plain, home, env)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def is_here(kind: str) -> bool:
    """Whether this machine can be used by such a person, from this process."""
    return (os.geteuid() == 0) if kind == "root" else (os.geteuid() != 0 or can_become_plain())


def index_is_reached() -> bool:
    """Whether pip finds a package index from here."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--retries", "0", "-d", folder]
        try:
            return subprocess.run([*command, "iniconfig"], capture_output=True, timeout=60).returncode == 0
        except subprocess.TimeoutExpired:
            return False
