"""A CLI that runs: its pipes, its first answer, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

PATIENCE = 5.0
"""Seconds that the CLI has to end by itself once its input has ended, and again once it was told to."""
_ANSWER_SECONDS = 60.0
_CHUNK = 256 * 1024


class TooLongError(ValueError):
    """A line of the CLI that is longer than anything it says."""


class StartedCLI:
    """One process of the CLI, between `start` and `close`."""

    def __init__(self, hear: Callable[[str], None], most_buffered: int) -> None:
        self._hear = hear
        self._most_buffered = most_buffered
        self._process: Process | None = None
        self._stderr: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._frames = self._read()
        self.request_id = f"req_1_{secrets.token_hex(4)}"
        """The id of the first request, as the CLI knows it."""
        self.request: dict[str, Any] | None = None
        """The first request, once it was sent."""
        self.prompt: dict[str, Any] | None = None
        """The first prompt, where it was sent already."""
        self._early: deque[dict[str, Any]] = deque()
        """What the CLI said until its first answer."""

    async def start(self, command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> None:
        """Start it.

        Raises:
            OSError: it cannot be started.
        """
        self._process = await asyncio.create_subprocess_exec(
            *command, cwd=folder, env=variables, stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        self._stderr = asyncio.create_task(self._listen(self._process))

    async def ask(self, request: dict[str, Any]) -> None:
        """Send the first request; its answer may be waited for with `answer`."""
        self.request = _as_read(request)
        await self.write({"type": "control_request", "request_id": self.request_id, "request": request})

    async def answer(self) -> dict[str, Any] | None:
        """The answer to the first request, which is also kept for whoever reads; None where none came."""
        with contextlib.suppress(TimeoutError, ValueError, OSError):
            async with asyncio.timeout(_ANSWER_SECONDS):
                async for frame in self._frames:
                    self._early.append(frame)
                    if self.is_answer(frame):
                        answer: dict[str, Any] = frame["response"]
                        return answer
        return None

    def is_answer(self, frame: Mapping[str, Any]) -> bool:
        """Whether a frame answers the first request."""
        return frame.get("type") == "control_response" and frame["response"].get("request_id") == self.request_id

    async def say(self, prompt: dict[str, Any]) -> None:
        """Send the first prompt."""
        await self.write(prompt)
        self.prompt = _as_read(prompt)

    async def write(self, frame: str | Mapping[str, Any]) -> None:
        """Write one line.

        Raises:
            OSError: it does not read any more.
        """
        text = frame if isinstance(frame, str) else json.dumps(frame) + "\n"
        async with self._writing:
            stdin = self._running.stdin
            if stdin is None or stdin.is_closing():
                raise BrokenPipeError("its input has ended")
            stdin.write(text.encode())
            await stdin.drain()

    async def frames(self) -> AsyncIterator[dict[str, Any]]:
        """All that it says, from its first word on.

        Raises:
            ValueError: a line that cannot be read.
        """
        while self._early:
            yield self._early.popleft()
        async for frame in self._frames:
            yield frame

    async def end_input(self) -> None:
        """Let it know that nothing more comes."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return None if self._process is None else self._process.returncode

    async def exit_code(self) -> int:
        """Its exit code, once it has ended."""
        return await self._running.wait()

    async def close(self) -> None:
        """End it: by the end of its input, else by signals. Takes no longer than six times `PATIENCE`."""
        process = self._process
        if process is None:
            return
        await self.end_input()
        # One that is stuck in writing what nobody reads would not end, and its pipe would outlive the event loop.
        reading = asyncio.create_task(self._read_away(process))
        for make_it in (process.terminate, process.kill, None):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await process.wait()
                break
            if make_it is not None:
                with contextlib.suppress(ProcessLookupError):
                    make_it()
        await asyncio.wait({reading}, timeout=PATIENCE)
        for task in (reading, self._stderr):
            if task is not None:
                task.cancel()
                await asyncio.wait({task}, timeout=PATIENCE)

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def _running(self) -> Process:
        assert self._process is not None, "it was not started"
        return self._process

    async def _read(self) -> AsyncIterator[dict[str, Any]]:
        async for line in self._lines():
            # Builds of the CLI that write something else to stdout write it in lines of its own.
            if line.startswith(b"{"):
                yield json.loads(line)

    async def _lines(self) -> AsyncIterator[bytes]:
        stdout = self._running.stdout
        assert stdout is not None
        pieces: list[bytes] = []
        size = 0
        while chunk := await stdout.read(_CHUNK):
            head, newline, rest = chunk.partition(b"\n")
            pieces.append(head)
            size += len(head)
            if size > self._most_buffered:
                raise TooLongError(f"a line is longer than {self._most_buffered:,} bytes")
            if not newline:
                continue
            yield b"".join(pieces)
            *whole, last = rest.split(b"\n")
            for line in whole:
                yield line
            pieces, size = [last], len(last)
        with contextlib.suppress(ValueError):  # cut off as it was written
            tail = b"".join(pieces)
            if tail.startswith(b"{"):
                json.loads(tail)
                yield tail

    async def _read_away(self, process: Process) -> None:
        assert process.stdout is not None
        with contextlib.suppress(RuntimeError):  # somebody still reads
            while await process.stdout.read(_CHUNK):
                pass

    async def _listen(self, process: Process) -> None:
        assert process.stderr is not None
        rest = b""
        while chunk := await process.stderr.read(_CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _CHUNK:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._tell(line)
        self._tell(rest)

    def _tell(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        if text:
            self._hear(text)


def _as_read(frame: dict[str, Any]) -> dict[str, Any]:
    """A frame as whoever reads it has it: JSON knows one kind of list."""
    read: dict[str, Any] = json.loads(json.dumps(frame))
    return read
