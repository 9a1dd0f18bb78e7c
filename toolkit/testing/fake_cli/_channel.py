"""The CLI's end of the control protocol, as a `Transport` without a process.

Frames go out in the order they are emitted; requests to the SDK wait for their
answer by id, requests from the SDK are handed to `_control`, prompts to
`prompts`. What the CLI says and when is the business of a subclass: `_play` is
all of it, from the start to the exit code. It can die at any frame.
"""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections.abc import AsyncIterator

from claude_agent_sdk import CLIConnectionError, ProcessError, Transport

from toolkit.testing.fake_cli._frames import Frame, new_id, stamped


class Refused(Exception):
    """A control request of the SDK that is answered with an error."""


class Channel(Transport):
    """One end of the conversation between the SDK and a CLI that is not there."""

    def __init__(self, *, dies_after: int | None, exit_code: int) -> None:
        self._dies_after = dies_after
        self._exit_code = exit_code
        self.sent: list[Frame] = []
        """Every frame the SDK was given, oldest first."""
        self.received: list[Frame] = []
        """Every frame the SDK wrote, oldest first."""
        self.session = ""
        """The id of the session that is played."""
        self._ready = False
        self._dead: int | None = None

    @abstractmethod
    async def _play(self) -> int:
        """Play the CLI until its input ends; return its exit code."""

    @abstractmethod
    async def _control(self, request: Frame) -> Frame:
        """Answer a control request of the SDK, or raise Refused."""

    def say(self, frame: Frame) -> None:
        """Emit a frame of this session."""
        self.emit(stamped(frame, self.session))

    def emit(self, frame: Frame) -> None:
        """Say something to the SDK; nothing is heard of a CLI that has died."""
        if self._dead is not None:
            return
        copy = json.loads(json.dumps(frame))
        self.sent.append(copy)
        self._out.put_nowait(copy)
        self._emitted += 1
        if self._emitted == self._dies_after:
            self.die(self._exit_code)

    async def ask(self, request: Frame) -> Frame:
        """Send a control request and return the SDK's answer (`subtype`, then `response` or `error`).

        A task that is cancelled while it waits takes the request back first.
        """
        request_id = new_id()
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._asked[request_id] = answer
        self.emit({"type": "control_request", "request_id": request_id, "request": request})
        try:
            return await answer
        except asyncio.CancelledError:
            if request["subtype"] != "mcp_message":  # MCP has a cancellation of its own
                self.emit({"type": "control_cancel_request", "request_id": request_id})
            raise
        finally:
            self._asked.pop(request_id, None)

    def die(self, exit_code: int) -> None:
        """End here and now, as a killed process does: no result, no answer to what is open."""
        if self._dead is None:
            self._dead = exit_code
            self._out.put_nowait(None)
            self._playing.cancel()

    async def connect(self) -> None:
        """Start a fresh CLI."""
        self._out: asyncio.Queue[Frame | None] = asyncio.Queue()
        self.prompts: asyncio.Queue[Frame | None] = asyncio.Queue()
        self._asked: dict[str, asyncio.Future[Frame]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._emitted = 0
        self._dead = None
        self._broken: Exception | None = None
        self._ready = True
        self._playing = asyncio.create_task(self._run())
        if self._dies_after == 0:
            self.die(self._exit_code)

    async def _run(self) -> None:
        code = 1
        try:
            code = await self._play()
        except Exception as error:  # the double itself is broken: the test has to see that, not a hang
            self._broken = error
        if self._dead is None:
            self._dead = code
            self._out.put_nowait(None)

    async def write(self, data: str) -> None:
        """Take what the SDK writes, one or more lines."""
        if not self._ready:
            raise CLIConnectionError("ProcessTransport is not ready for writing")
        if self._dead is not None:
            raise CLIConnectionError(f"Cannot write to terminated process (exit code: {self._dead})")
        for line in data.splitlines():
            if line.strip():
                frame = json.loads(line)
                self.received.append(frame)
                self._take(frame)

    def _take(self, frame: Frame) -> None:
        match frame.get("type"):
            case "user":
                self.prompts.put_nowait(frame)
            case "control_response":
                answer = self._asked.get(frame["response"]["request_id"])
                if answer is not None and not answer.done():
                    answer.set_result(frame["response"])
            case "control_request":
                task = asyncio.create_task(self._answer(frame))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _answer(self, frame: Frame) -> None:
        answer: Frame = {"subtype": "success", "request_id": frame["request_id"]}
        try:
            answer["response"] = await self._control(frame["request"])
        except Refused as refused:
            answer |= {"subtype": "error", "error": str(refused)}
        self.emit({"type": "control_response", "response": answer})

    async def read_messages(self) -> AsyncIterator[Frame]:
        """Yield the frames, then end as the process ended."""
        while (frame := await self._out.get()) is not None:
            yield frame
        if self._broken is not None:
            raise self._broken
        if self._dead:
            raise ProcessError(
                f"Command failed with exit code {self._dead}",
                exit_code=self._dead,
                stderr="Check stderr output for details",
            )

    async def end_input(self) -> None:
        """Stdin is closed: the CLI ends after what it is doing."""
        self.prompts.put_nowait(None)

    async def close(self) -> None:
        """Stop everything that still runs for this connection."""
        self._ready = False
        if not hasattr(self, "_playing"):
            return
        running = [self._playing, *self._tasks]
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=5)
        self._out.put_nowait(None)

    def is_ready(self) -> bool:
        """Whether the SDK may write."""
        return self._ready
