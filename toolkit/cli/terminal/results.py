"""stdout is for results: whatever a user's code prints while a command runs goes to stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any, Literal, Protocol, TextIO

import click

from toolkit._base.words import count_text, safe_name, safe_text
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolkit.errors import WorkspaceError
    from toolkit.tools import Toolbox
    from toolkit.workspace import Applied, Changes

_MOST_ROWS = 500


def take_stdout() -> TextIO:
    """A stream to the real stdout; from now until the process ends, prints go to stderr.

    Call it before a user's code is imported.
    """
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    kept = os.dup(1)
    os.set_inheritable(kept, False)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        _discard(1)
    # A result is printed even where the terminal's encoding has no letter for part of it.
    return os.fdopen(kept, "w", encoding=encoding, errors="backslashreplace")


def write_result(stream: TextIO, result: str | bytes) -> bool:
    """Print a result, bytes as they are; a reader that has gone away (`| head`) is no error, but False.

    Raises:
        ToolkitError: it cannot be written: the disk is full, say.
    """
    try:
        if isinstance(result, bytes):
            stream.buffer.write(result)
        else:
            stream.write(result if result.endswith("\n") else result + "\n")
        stream.flush()
    except OSError as error:
        # What is still buffered would fail once more when the stream is closed at exit.
        _discard(stream.fileno())
        if isinstance(error, BrokenPipeError):
            return False
        where = [f"stdout: {error.strerror or error}"]
        fix = "Make room, or let it go elsewhere."
        raise ToolkitError("the result cannot be written", where=where, fix=fix) from error
    return True


def _discard(handle: int) -> None:
    """Let whatever is written to a handle go nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, handle)
    os.close(null)


def as_json(value: Any) -> str:
    """A value as JSON for people and programs alike."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def echo_json(value: Any) -> None:
    """Print a value as JSON in plain ASCII, where no user's code has run."""
    click.echo(json.dumps(value, indent=2))


def print_changes(stdout: TextIO, changes: Changes, form: Literal["table", "patch", "json"]) -> None:
    """The changes on stdout; what no patch can hold is named on stderr."""
    if form == "json":
        write_result(stdout, as_json(changes.to_json()))
    elif form == "table":
        write_result(stdout, changes.summary(max_rows=_MOST_ROWS))
    else:
        patch = changes.patch()
        # Byte by byte for a file or pipe; a terminal gets none of the codes that could rewrite its screen.
        write_result(stdout, safe_text(patch.decode("utf-8", "backslashreplace")) if stdout.isatty() else patch)
        for path, reason in changes.not_in_patch():
            click.echo(f"not in the patch: {safe_name(path)} ({reason})", err=True)


def print_applied(stdout: TextIO, applied: Applied, *, wants_json: bool) -> None:
    """What was done to the host, or would be, on stdout; what was left on stderr."""
    if wants_json:
        write_result(stdout, as_json(applied.to_json()))
        return
    would_be = "would be " if applied.dry_run else ""
    for one in applied.changes:
        write_result(stdout, f"{would_be}{one.action:8}  {safe_name(applied.name_of(one.path))}")
    for path, reason in applied.left:
        click.echo(f"left: {safe_name(applied.name_of(path))} ({reason})", err=True)
    if not applied.changes:
        click.echo("nothing to apply", err=True)


def say_warnings(box: Toolbox) -> str:
    """Print on stderr what clients may not take of these tools; how many that are, in words."""
    warnings = box.warnings()
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    return count_text(len(warnings), "warning") if warnings else ""


@contextlib.contextmanager
def telling_at_ctrl_c(unfinished: Callable[[], WorkspaceError | None]) -> Iterator[None]:
    """Say at Ctrl-C what is half applied, or half taken back, by then."""
    try:
        yield
    except KeyboardInterrupt:
        if (half := unfinished()) is not None:
            click.echo(f"\n{half}", err=True)
        raise


class _Applying(Protocol):
    """What an apply was begun on: a workspace, or a stored run."""

    def undo_apply(self) -> bool: ...

    def resume_apply(self) -> bool: ...


def print_gone_on(stdout: TextIO, applying: _Applying, *, undo: bool, wants_json: bool) -> None:
    """Finish an apply that was interrupted, or take one back, and say so."""
    done = applying.undo_apply() if undo else applying.resume_apply()
    if wants_json:
        write_result(stdout, as_json({"undone" if undo else "resumed": done}))
    elif done:
        write_result(stdout, "taken back: the host is as it was" if undo else "finished: all changes are applied")
    else:
        click.echo("no apply had begun to write: nothing to " + ("take back" if undo else "finish"), err=True)
