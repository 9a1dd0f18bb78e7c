"""Ask the host's git about settings and about a copy, in a way that runs nothing of theirs.

Only plumbing is called, with the git folder named outright: so git neither searches for
one nor asks whom it belongs to, and no hook, filter or monitor is started. It is never
pointed at the files of a repository of the host, which may have been made to mislead it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolkit.errors import WorkspaceError

_SECONDS = 20
# What would point git at another repository, or make it write or print something else.
_DROPPED = ("GIT_", "LC_", "LANG")


def owner_settings(git_dir: Path) -> list[tuple[str, str]]:
    """The system's and the owner's settings with what they include, also what only for this git folder.

    Raises:
        WorkspaceError: as for `git`.
    """
    asked = ("config", "--includes", "--null", "--list")
    found = _pairs(_run(git_dir, {"GIT_DIR": os.devnull}, asked))
    if not any(name.startswith("includeif.") for name, _ in found):
        return found
    import tempfile

    # For a condition git has to know the place of the git folder; an empty one stands in for its settings.
    with tempfile.TemporaryDirectory(prefix="toolkit-git-") as empty:
        for name in ("objects", "refs"):
            (Path(empty) / name).mkdir()
        return _pairs(_run(git_dir, {"GIT_DIR": str(git_dir), "GIT_COMMON_DIR": empty}, asked))


def own_settings(git_dir: Path, text: bytes) -> list[tuple[str, str]]:
    """The settings that the text of a repository's `config` holds; nothing that they name is read.

    Raises:
        WorkspaceError: as for `git`.
    """
    asked = ("config", "--file", "-", "--no-includes", "--null", "--list")
    return _pairs(_run(git_dir, {"GIT_DIR": os.devnull}, asked, text))


def git(git_dir: Path, *arguments: str, work_tree: Path, given: bytes = b"") -> bytes:
    """What git prints about a copy, `git_dir` being a git folder that we made.

    Raises:
        WorkspaceError: there is no git, or it fails, or takes too long.
    """
    return _run(git_dir, {"GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(work_tree)}, arguments, given)


def _run(about: Path, places: Mapping[str, str], arguments: Sequence[str], given: bytes = b"") -> bytes:
    import shutil
    import subprocess

    program = shutil.which("git")
    if program is None:
        raise WorkspaceError(
            "a mount is a git repository, and git was not found on PATH",
            fix="Install it (apt install git), or leave git out: --git none, HostMount(…, git='none')",
        )
    command = [program, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *arguments]
    try:
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            env=_environment(places),
            cwd="/",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _failed(about, arguments, f"it took longer than {_SECONDS} seconds") from error
    except OSError as error:
        raise _failed(about, arguments, str(error)) from error
    if done.returncode != 0:
        raise _failed(about, arguments, done.stderr.decode(errors="replace").strip()[-500:])
    return done.stdout


def _environment(places: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    return {**kept, **places, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def _pairs(listed: bytes) -> list[tuple[str, str]]:
    entries = (entry.partition("\n") for entry in os.fsdecode(listed).split("\0") if entry)
    return [(name, value) for name, _, value in entries]


def _failed(git_dir: Path, arguments: Sequence[str], why: str) -> WorkspaceError:
    return WorkspaceError(
        f"git cannot read the repository: git {arguments[0]}",
        where=[str(git_dir), *why.splitlines()[-3:]],
        fix="Look at it with: git fsck. Or copy without git: --git none, HostMount(…, git='none')",
    )
