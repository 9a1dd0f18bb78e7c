"""Serve a Toolbox over stdin and stdout.

`claim_stdio` takes both descriptors for the protocol before any user code is
imported; from then until the process is gone, whatever prints to stdout (Python,
C, a child) prints to stderr, and whatever reads stdin finds it empty.
`serve_stdio` serves until the client is gone, and then the process ends within a
second, running tools included.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import signal
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.errors import ToolkitError
from toolkit_servers.ending import Lifeline

if TYPE_CHECKING:
    from types import FrameType

    from toolkit.tools import Toolbox
    from toolkit_servers.reload import Reload


@dataclass(frozen=True)
class Wires:
    """The protocol's own descriptors; no child inherits them."""

    reading: int
    writing: int
    lifeline: Lifeline
    """Ends the process when its parent dies, from now on."""
    path: tuple[str, ...]
    """Where modules were looked for before the user's code was imported."""


_claimed: Wires | None = None


def claim_stdio() -> Wires:
    """Keep stdin and stdout for the protocol: from now on prints go to stderr.

    Call it before user code is imported. The claim lasts as long as the process;
    a second call returns the same wires.
    """
    global _claimed
    if _claimed is None:
        # The descriptors themselves, not only sys.stdout: C code and child processes write to fd 1, and one
        # stray line between two messages breaks the client's parser. Fd 0, so that input() or a child that
        # reads cannot swallow a request.
        reading, writing = _take(0, "stdin"), _unblocked(_take(1, "stdout"))
        _claimed = Wires(reading, writing, Lifeline(reading), tuple(sys.path))
        _redirect(0, os.O_RDONLY, None)
        _redirect(1, os.O_WRONLY, 2)
        # Not a pipe to the client any more: show prints as they are made.
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(line_buffering=True)
        # A forked child keeps descriptors that exec would close, and with them the client's pipe.
        os.register_at_fork(after_in_child=_forget)
    return _claimed


def serve_stdio(tools: Toolbox | Reload, wires: Wires | None = None) -> None:
    """Serve until the client closes its side, its process dies, or a signal asks to end.

    Replies that are ready are still sent. After this returns the process has a second
    to live, whatever it does.
    """
    _refuse_running_loop()
    wires, signals = wires or claim_stdio(), _free_signals()
    with _quick_imports():
        from toolkit.tools import Toolbox
        from toolkit_servers.stdio._first import Begun, Ended, begin

    served: Reload | Begun
    try:
        with _own_imports(wires.path):
            served = begin(tools, wires, signals) if isinstance(tools, Toolbox) else tools
            if isinstance(served, Begun) and served.is_done:
                wires.lifeline.end_soon()
                return
            with _quick_imports():
                import asyncio

                # What a call needs, too: loaded in the loop it would be taken for a tool that blocks it.
                import toolkit.tools.calling
                import toolkit.tools.schema.compiling  # noqa: F401
                from toolkit_servers.stdio._connection import run
        asyncio.run(run(served, wires, signals))
    except Ended:
        return


def explain_first_print() -> None:
    """Have the first write to `sys.stdout` from Python code say on stderr where it was made and where it goes.

    For a process whose stdout belongs to a protocol and already goes to stderr.
    """
    stream = sys.stdout
    plain = stream.write

    def write(text: str) -> object:
        stream.__dict__.pop("write", None)
        sys.stderr.write(f"{_explanation(sys._getframe(1))}\n")
        return plain(text)

    try:
        stream.__dict__["write"] = write  # print() looks the method up on the stream
    except (AttributeError, TypeError):
        return  # stdout is closed, or a stream of another kind: no explanation is better than no output


def _free_signals() -> list[int]:
    """The signals that end a process and that the user's code has not taken for itself."""
    if threading.current_thread() is not threading.main_thread():
        return []
    untouched = (signal.SIG_DFL, signal.default_int_handler)
    return [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) in untouched]


@contextlib.contextmanager
def _quick_imports() -> Iterator[None]:
    """Import without the garbage collector walking over everything imported so far, now or later."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def _refuse_running_loop() -> None:
    """Raise where a loop runs already: it would stand still, and the first call could not be made."""
    loaded = sys.modules.get("asyncio")
    if loaded is None:
        return
    with contextlib.suppress(RuntimeError):  # none runs
        loaded.get_running_loop()
        raise ToolkitError(
            "serve_stdio cannot be called from a coroutine: it has an event loop of its own",
            fix="Call it from a plain function, or in a thread: await asyncio.to_thread(serve_stdio, box)",
        )


@contextlib.contextmanager
def _own_imports(path: Sequence[str]) -> Iterator[None]:
    """Import what is ours as if the user's code had not put a folder of its own first, with a `logging.py` in it."""
    theirs, sys.path = sys.path, [*path]
    try:
        yield
    finally:
        sys.path = theirs


def _take(fd: int, name: str) -> int:
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError as problem:
        raise ToolkitError(
            f"cannot serve over stdio: {name} is closed",
            fix="Start it with stdin and stdout connected to the client, or serve over HTTP: toolkit serve --http",
        ) from problem


def _unblocked(fd: int) -> int:
    """The same pipe, but a write to it does not block.

    O_NONBLOCK belongs to the open file, which stderr or another process may share, so the pipe
    is opened anew. A socket is told for each write instead; a regular file never blocks.
    """
    kind = os.fstat(fd).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISCHR(kind)):
        return fd
    try:
        own = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        os.set_blocking(fd, False)
        return fd
    os.close(fd)
    return own


def _redirect(fd: int, flags: int, to: int | None) -> None:
    try:
        if to is not None:
            os.dup2(to, fd)
            return
    except OSError:
        pass
    null = os.open(os.devnull, flags)
    os.dup2(null, fd)
    os.close(null)


def _forget() -> None:
    if _claimed is not None:
        for fd in (_claimed.reading, _claimed.writing):
            with contextlib.suppress(OSError):
                os.close(fd)


def _explanation(caller: FrameType) -> ToolkitError:
    import linecache
    from pathlib import Path

    from toolkit._base.words import typed_path

    frame = _user_frame(caller)
    file, line = frame.f_code.co_filename, frame.f_lineno
    return ToolkitError(
        f"{Path(file).name} prints to stdout, which belongs to the client: it goes to stderr instead",
        where=[f"{typed_path(file, Path.cwd())}:{line}  {linecache.getline(file, line).strip()}"],
        fix="Return what the model should read; for your own eyes write print(…, file=sys.stderr). This is said once",
    )


def _user_frame(caller: FrameType) -> FrameType:
    """The nearest frame that is neither of the standard library nor of an installed package."""
    import sysconfig

    libraries = tuple(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))
    frame: FrameType | None = caller
    while frame is not None:
        if not frame.f_code.co_filename.startswith((*libraries, "<frozen")):
            return frame
        frame = frame.f_back
    return caller
