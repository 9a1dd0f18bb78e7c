"""Ask the host's git about a repository, in a way that runs nothing and writes nothing.

Only plumbing that reads is called, with the git folder named outright: so git neither
searches for one nor asks whom it belongs to, and no hook, filter or monitor is started.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from toolkit.errors import WorkspaceError

_SECONDS = 120
# What would point git at another repository, or make it write or print something else.
_DROPPED = ("GIT_", "LC_", "LANG")


def git(git_dir: Path, *arguments: str, work_tree: Path | None = None, given: bytes = b"") -> bytes:
    """What git prints about the repository behind `git_dir`.

    Raises:
        WorkspaceError: there is no git, or it fails.
    """
    program = shutil.which("git")
    if program is None:
        raise WorkspaceError(
            "a mount is a git repository, and git was not found on PATH",
            fix="Install it (apt install git), or leave git out: HostMount(…, git='none')",
        )
    command = [program, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *arguments]
    try:
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            env=_environment(git_dir, work_tree),
            cwd="/",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failed(git_dir, arguments, str(error)) from error
    if done.returncode != 0:
        raise _failed(git_dir, arguments, done.stderr.decode(errors="replace").strip()[-500:])
    return done.stdout


def _environment(git_dir: Path, work_tree: Path | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    kept |= {"GIT_DIR": str(git_dir), "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    return kept if work_tree is None else {**kept, "GIT_WORK_TREE": str(work_tree)}


def _failed(git_dir: Path, arguments: Sequence[str], why: str) -> WorkspaceError:
    return WorkspaceError(
        f"git cannot read the repository: git {arguments[0]}",
        where=[str(git_dir), *why.splitlines()[-3:]],
        fix="Look at it with: git fsck. Or copy without git: HostMount(…, git='none')",
    )
