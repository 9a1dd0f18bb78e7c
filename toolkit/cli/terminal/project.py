"""The project file at a terminal: which one is obeyed, what it says, and whether its user accepts it."""

from __future__ import annotations

import contextlib
import os
import sys
import termios
from typing import TYPE_CHECKING, Any

import click

from toolkit._base.words import safe_name, safe_text, typed_path
from toolkit.cli.terminal.command import with_options

if TYPE_CHECKING:
    from toolkit.runs import ProjectFile

config_options = with_options(
    click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="Obey this project file; otherwise toolkit.toml, here or above.",
    ),
    click.option("--no-config", is_flag=True, help="Obey no project file."),
    click.option("--trust", is_flag=True, help="Accept the project file as it is now, without being asked."),
    title="Project file",
)
"""The options of every command that obeys a project file."""


def project_of(given: dict[str, Any]) -> ProjectFile | None:
    """The project file that holds here, accepted by its user; one line on stderr says which. None without one.

    Raises:
        ProjectFileError: it cannot be obeyed; NotAcceptedError: it was not accepted.
    """
    from pathlib import Path

    from toolkit.runs.projects import find_file

    if given["no_config"]:
        if given["config"] is not None:
            raise click.UsageError("--config names a project file and --no-config wants none: write one of them")
        return None
    named = given["config"]
    found = find_file() if named is None else named
    if found is None:
        if given["trust"]:
            raise click.UsageError("--trust accepts a project file, and there is none here: toolkit init writes one")
        return None
    from toolkit.runs import ProjectFile

    file = ProjectFile.read(found)
    shown = safe_name(typed_path(file.path, Path.cwd()))
    if file.trust != "accepted":
        _show(file, shown)
        if not given["trust"] and not _is_agreed(file, shown):
            raise _not_accepted(file)
        file.accept()
    click.echo(f"obeys {shown}", err=True)
    return file


def _show(file: ProjectFile, shown: str) -> None:
    """The whole text, or what has changed in it, with nothing in it that steers a terminal."""
    is_new = file.trust == "new"
    what = "is new on this machine; it says:" if is_new else "has changed since you accepted it:"
    text = file.text if is_new else file.difference()
    lines = [f"the project file {shown} {what}", *(f"  {line}" for line in safe_text(text).rstrip("\n").split("\n"))]
    lines += [f"note: {remark}" for remark in file.remarks()]
    for line in lines:
        click.echo(line, err=True)


def _is_agreed(file: ProjectFile, shown: str) -> bool:
    """The person's answer; no where nobody is there to ask."""
    terminal = person_at()
    if terminal is None:
        return False
    with contextlib.suppress(termios.error):  # what was typed before the question could be seen
        termios.tcflush(terminal, termios.TCIFLUSH)
    click.echo(f"Obey {shown} as it is, until it changes? [y/N] ", err=True, nl=False)
    try:
        answer = os.read(terminal, 4096)
    except OSError:
        return False
    return answer.decode(errors="replace").strip().lower() in ("y", "yes")


def _not_accepted(file: ProjectFile) -> Exception:
    from toolkit.runs import NotAcceptedError

    what = "has changed since it was accepted" if file.trust == "changed" else "was not accepted on this machine"
    return NotAcceptedError(
        f"the project file {what}, so it is not obeyed",
        file=file.path,
        where=[safe_name(str(file.path))],
        fix="Read it, then accept it as it is with --trust, or do without it: --no-config",
    )


def person_at() -> int | None:
    """Where the person can be asked; None where nobody is there."""
    if sys.stdin.isatty():
        return sys.stdin.fileno()
    if not sys.stderr.isatty():
        return None
    try:  # the prompt came from a pipe, and the person is at the terminal
        return os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
