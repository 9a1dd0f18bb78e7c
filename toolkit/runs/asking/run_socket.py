"""Answer a run's questions, or stop it, from another process, through a socket in the run's folder.

One JSON object a line, both ways:

    {"do": "list"}                                  → {"pending": [question, …]}
    {"do": "answer", "id": …, "decision": …, …}     → {"ok": true} or {"ok": false, "why": …}
    {"do": "watch"}                                 → {"asked": question} and {"answered": {…}} as they happen
    {"do": "stop"}                                  → {"ok": true}; the turn under way ends, and the run with it

The folder and the socket are the owner's alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from toolkit.errors import RunError
from toolkit.runs.asking.approvals import Decision

if TYPE_CHECKING:
    from toolkit.runs.asking.approvals import Approvals, Question
    from toolkit.runs.outcome.events import Event

SOCKET_NAME = "run.sock"
_MOST_LINE = 1024 * 1024
_PATIENCE = 10.0
_NOBODY = "the run takes no answers: nobody is to be asked in it"


class RunSocket:
    """The run's side: open while the run lives."""

    def __init__(self, folder: Path, approvals: Approvals, *, asks: bool, stop: Callable[[], None]) -> None:
        self._folder = folder
        self._approvals = approvals
        self._asks = asks
        """Whether anybody outside is asked anything."""
        self._stop = stop
        self._server: asyncio.Server | None = None
        self._watchers: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        """Listen for what the owner says."""
        with _short_path(self._folder) as path:
            self._server = await asyncio.start_unix_server(self._serve, path, limit=_MOST_LINE)
        (self._folder / SOCKET_NAME).chmod(0o600)

    async def close(self) -> None:
        """Say goodbye to whoever watches, and be gone."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._watchers):
            writer.close()
        (self._folder / SOCKET_NAME).unlink(missing_ok=True)

    def tell(self, event: Event) -> None:
        """Pass an approval event on to those who watch."""
        said = {"answered": {"id": event.id, **event.data}}
        if event.kind == "asked":
            said = {"asked": {"id": event.id, **event.data}}
        for writer in self._watchers:
            _send(writer, said)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                self._answer(writer, line)
                await writer.drain()
        except (OSError, ValueError):
            pass  # the other side left, or sent a line without end
        finally:
            self._watchers.discard(writer)
            writer.close()

    def _answer(self, writer: asyncio.StreamWriter, line: bytes) -> None:
        try:
            asked = json.loads(line)
            if asked["do"] == "stop":
                self._stop()
                _send(writer, {"ok": True})
            elif not self._asks:
                _send(writer, {"ok": False, "why": _NOBODY})
                if asked["do"] == "watch":
                    writer.close()
            elif asked["do"] == "list":
                _send(writer, {"pending": [_shown(question) for question in self._approvals.pending]})
            elif asked["do"] == "watch":
                self._watchers.add(writer)
                for question in self._approvals.pending:
                    _send(writer, {"asked": _shown(question)})
            else:
                decision = Decision(asked["decision"], asked.get("message", ""), asked.get("stop", False))
                waits = self._approvals.answer(asked["id"], decision, by="socket")
                _send(writer, {"ok": True} if waits else {"ok": False, "why": f"no question '{asked['id']}' waits"})
        except (ValueError, KeyError, TypeError, RunError) as error:
            _send(writer, {"ok": False, "why": f"not understood: {error}"})


class RunClient:
    """The other terminal's side: asks, answers and stops one run. Close it, or use it with `with`.

    Raises:
        RunError: the run has ended.
    """

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_PATIENCE)
        try:
            with _short_path(folder) as path:
                self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise RunError(
                f"run {folder.name} has ended",
                fix=f"See: toolkit runs show {folder.name}",
            ) from error
        self._lines = self._socket.makefile("rb")

    def pending(self) -> list[dict[str, Any]]:
        """The questions that wait.

        Raises:
            RunError: nobody is to be asked in this run.
        """
        said = self._ask({"do": "list"})
        if "pending" not in said:
            raise self._refused(said)
        found: list[dict[str, Any]] = said["pending"]
        return found

    def answer(self, id: str, decision: Decision) -> None:
        """Answer a question.

        Raises:
            RunError: it does not wait for an answer.
        """
        sent = {"do": "answer", "id": id, "decision": decision.kind, "message": decision.message, "stop": decision.stop}
        said = self._ask(sent)
        if not said["ok"]:
            raise self._refused(said)

    def watch(self) -> Iterator[dict[str, Any]]:
        """Questions and answers as they happen, those that wait already first, until the run ends.

        Raises:
            RunError: nobody is to be asked in this run.
        """
        self._socket.sendall(b'{"do": "watch"}\n')
        self._socket.settimeout(None)
        with contextlib.suppress(OSError):
            for line in self._lines:
                said = json.loads(line)
                if "why" in said:
                    raise self._refused(said)
                yield said

    def stop(self) -> None:
        """End the turn under way, and the run with it; what it gave is kept."""
        self._ask({"do": "stop"})

    def close(self) -> None:
        """Hang up."""
        self._lines.close()
        self._socket.close()

    def __enter__(self) -> RunClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refused(self, said: dict[str, Any]) -> RunError:
        return RunError(str(said["why"]), fix="Look at what waits: toolkit approvals watch RUN")

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._socket.sendall(json.dumps(asked).encode() + b"\n")
        line = self._lines.readline()
        if not line:
            raise RunError("the run ended before it answered", fix="See: toolkit runs list")
        said: dict[str, Any] = json.loads(line)
        return said


@contextmanager
def _short_path(folder: Path) -> Iterator[str]:
    """A path to the socket that fits the kernel's 108 bytes, however deep the folder lies."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{SOCKET_NAME}"
    finally:
        os.close(handle)


def _send(writer: asyncio.StreamWriter, said: dict[str, Any]) -> None:
    writer.write(json.dumps(said, ensure_ascii=False, default=to_jsonable_python).encode() + b"\n")


def _shown(question: Question) -> dict[str, Any]:
    return {"id": question.id, **question.as_data()}
