"""Call git for one step, in a way that nothing but git itself is started.

Git gets no variable of ours but PATH, neither the system's nor the owner's settings, and a
git folder that is named outright. In a private git folder there is nothing that names a
program; for the host's repository, hooks and monitors are switched off.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from toolkit._base.words import safe_text
from toolkit.errors import WorkspaceError

_SECONDS = 300
_OFF = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.alternateRefsCommand": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "commit.gpgSign": "false",
    "core.pager": "cat",
    "core.editor": "false",
    "core.askPass": "false",
    "core.sshCommand": "false",
}


class GitFailed(WorkspaceError):
    """A step of git that went wrong; `said` is what git said."""

    def __init__(self, step: str, said: str) -> None:
        lines = [line for line in safe_text(said).splitlines() if line.strip()]
        super().__init__(f"git {step} failed", where=lines[-4:] or ["it said nothing"])
        self.said = said


@dataclass(frozen=True, slots=True)
class Git:
    """Git for one git folder."""

    git_dir: Path
    home: Path
    """An empty folder that git takes for the owner's home."""
    user: tuple[int, int] | None = None
    """Whom to run as; None is whoever asks."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Further variables: an index, a work tree, who commits."""

    def at(self, **places: str) -> Git:
        """The same with further variables."""
        return Git(self.git_dir, self.home, self.user, {**self.places, **places})

    def __call__(self, *arguments: str, given: bytes = b"") -> bytes:
        """What a step prints.

        Raises:
            GitFailed: it went wrong, or took too long.
            WorkspaceError: there is no git.
        """
        with self.start(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                out, said = process.communicate(given, timeout=_SECONDS)
            except BaseException as error:
                process.kill()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise GitFailed(arguments[0], f"it took longer than {_SECONDS} seconds") from error
                raise
        if process.returncode != 0:
            raise GitFailed(arguments[0], said.decode(errors="replace"))
        return out

    def line(self, *arguments: str, given: bytes = b"") -> str:
        """The one line that a step prints."""
        return os.fsdecode(self(*arguments, given=given)).rstrip("\n")

    def start(self, *arguments: str, stdin: int | IO[bytes], stdout: int | IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a step; whoever does that waits for it."""
        program = shutil.which("git")
        if program is None:
            raise WorkspaceError("git was not found on PATH", fix="Install it: apt install git")
        off = [word for name, value in _OFF.items() for word in ("-c", f"{name}={value}")]
        whose: dict[str, Any] = {}
        if self.user is not None:
            whose = {"user": self.user[0], "group": self.user[1], "extra_groups": []}
        try:
            return subprocess.Popen(
                [program, *off, *arguments],
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.PIPE,
                env=self._environment(),
                cwd="/",
                **whose,
            )
        except OSError as error:
            raise GitFailed(arguments[0], str(error)) from error

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "LC_ALL": "C",
            "GIT_DIR": str(self.git_dir),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            **self.places,
        }
