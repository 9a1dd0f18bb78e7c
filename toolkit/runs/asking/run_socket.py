"""Answer a run's questions, or stop it, from another process, through a socket in the run's folder.

One JSON object a line, both ways:

    {"do": "list"}                                  → {"pending": [question, …]}
    {"do": "answer", "id": …, "decision": …, …}     → {"ok": true} or {"ok": false, "why": …}
                                                      "fields": {name: text} fills in the form of a question
    {"do": "watch"}                                 → {"asked": question} and {"answered": {…}} as they happen
    {"do": "stop"}                                  → {"ok": true}; the turn under way ends, and the run with it
    {"do": "interrupt"}                             → {"ok": true}; the turn under way ends, and no more

The folder and the socket are the owner's alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import RunError
from toolkit.runs.asking.approvals import Decision

if TYPE_CHECKING:
    from toolkit.runs.asking.approvals import Approvals, Question
    from toolkit.runs.outcome.events import Event

SOCKET_NAME = "run.sock"
_MOST_LINE = 1024 * 1024
_PATIENCE = 10.0
_STEPS = 5
"""Rounds of the event loop in which one that has just come is taken in: a closed server would leave it hanging."""
_NOBODY = "the run takes no answers: nobody is to be asked in it"


class RunSocket:
    """The run's side: open while the run lives."""

    def __init__(
        self, folder: Path, approvals: Approvals, *, asks: bool, ends: Mapping[str, Callable[[], None]]
    ) -> None:
        self._folder = folder
        self._approvals = approvals
        self._asks = asks
        """Whether anybody outside is asked anything."""
        self._ends = ends
        """What `stop` and `interrupt` do."""
        self._server: asyncio.Server | None = None
        self._watchers: set[asyncio.StreamWriter] = set()
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def open(self) -> None:
        """Listen for what the owner says."""
        with _short_path(self._folder) as path:
            self._server = await asyncio.start_unix_server(self._connected, path, limit=_MOST_LINE)
        try:
            (self._folder / SOCKET_NAME).chmod(0o600)
        except OSError:  # whoever else might be let in is not
            with contextlib.suppress(OSError):
                await self.close()
            raise

    async def close(self) -> None:
        """Say goodbye to whoever is there, and be gone."""
        server = self._server
        try:
            (self._folder / SOCKET_NAME).unlink(missing_ok=True)
            for _ in range(_STEPS if server is not None else 0):
                await asyncio.sleep(0)
        finally:  # also when whoever closes it is cancelled
            self._server = None
            if server is not None:
                server.close()
            for writer in self._connections.values():
                writer.close()
        if self._connections:
            await asyncio.wait(self._connections, timeout=_PATIENCE)

    def tell(self, event: Event) -> None:
        """Pass an approval event on to those who watch."""
        said = {"answered": {"id": event.id, **event.data}}
        if event.kind == "asked":
            said = {"asked": {"id": event.id, **event.data}}
        for writer in self._watchers:
            _send(writer, said)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Not a coroutine: one that has not begun when the run ends would leave its connection open."""
        if self._server is None:  # it came as the run ended
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections[task] = writer
        task.add_done_callback(self._connections.pop)

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
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _answer(self, writer: asyncio.StreamWriter, line: bytes) -> None:
        try:
            asked = json.loads(line)
            if asked["do"] in self._ends:
                self._ends[asked["do"]]()
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
                decision = self._decision(asked)
                waits = self._approvals.answer(asked["id"], decision, by="socket")
                _send(writer, {"ok": True} if waits else {"ok": False, "why": f"no question '{asked['id']}' waits"})
        except (ValueError, KeyError, TypeError, RunError) as error:
            why = error.what if isinstance(error, RunError) else f"not understood: {error}"
            _send(writer, {"ok": False, "why": why})

    def _decision(self, asked: dict[str, Any]) -> Decision:
        """The answer, with the form that was filled in for it."""
        form = next((one.form for one in self._approvals.pending if one.id == asked["id"]), None)
        fields, arguments = asked.get("fields"), None
        if fields is not None:
            if form is None:
                raise RunError("this question has no form to fill in")
            from toolkit.tools.asking import filled

            arguments = filled(form, {str(name): str(text) for name, text in dict(fields).items()})
        return Decision(asked["decision"], asked.get("message", ""), asked.get("stop", False), arguments)


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

    def answer(self, id: str, decision: Decision, *, fields: Mapping[str, str] | None = None) -> None:
        """Answer a question; `fields` is what was typed for each field of its form.

        Raises:
            RunError: it does not wait for an answer, or a field cannot have that value.
        """
        sent: dict[str, Any] = {"do": "answer", "id": id, "decision": decision.kind}
        sent |= {"message": decision.message, "stop": decision.stop, **({"fields": dict(fields)} if fields else {})}
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

    def interrupt(self) -> None:
        """End the turn under way; whoever began the run may send another prompt."""
        self._ask({"do": "interrupt"})

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
    from pydantic_core import to_jsonable_python

    writer.write(json.dumps(said, ensure_ascii=False, default=to_jsonable_python).encode() + b"\n")


def _shown(question: Question) -> dict[str, Any]:
    return {"id": question.id, **question.as_data()}
