"""Tell people once that what their code prints does not reach the client."""

from __future__ import annotations

import linecache
import sys
import sysconfig
from pathlib import Path
from types import FrameType
from typing import Any

from toolkit.errors import ToolkitError


def note_first_print() -> None:
    """Have the first write to `sys.stdout` from Python code say on stderr where it was made.

    For a process whose stdout belongs to a protocol and already goes to stderr.
    """
    stream = sys.stdout
    plain = stream.write

    def write(text: str) -> Any:
        stream.__dict__.pop("write", None)
        sys.stderr.write(f"{_note(sys._getframe(1))}\n")
        return plain(text)

    try:
        stream.__dict__["write"] = write  # print() looks the method up on the stream
    except (AttributeError, TypeError):
        return  # stdout is closed, or a stream of another kind: no note is better than no output


def _note(caller: FrameType) -> ToolkitError:
    frame = _user_frame(caller)
    file, line = frame.f_code.co_filename, frame.f_lineno
    path, cwd = Path(file), Path.cwd()
    shown = path.relative_to(cwd) if path.is_relative_to(cwd) else path
    return ToolkitError(
        f"{shown.name} prints to stdout, which belongs to the client: it goes to stderr instead",
        where=[f"{shown}:{line}  {linecache.getline(file, line).strip()}"],
        fix="Return what the model should read; for your own eyes write print(…, file=sys.stderr). This is said once",
    )


def _user_frame(caller: FrameType) -> FrameType:
    """The nearest frame that is neither of the standard library nor of an installed package."""
    libraries = tuple(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))
    frame: FrameType | None = caller
    while frame is not None:
        if not frame.f_code.co_filename.startswith((*libraries, "<frozen")):
            return frame
        frame = frame.f_back
    return caller
