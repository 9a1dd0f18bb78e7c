"""The SDK's `Transport` on a CLI that was started before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from claude_agent_sdk import CLIConnectionError, CLIJSONDecodeError, ProcessError, Transport

from toolkit.runs.turn.early.started import StartedCLI


class HandedOver(Transport):
    """What the CLI was told already is compared with what the SDK says, and not sent again."""

    def __init__(self, cli: StartedCLI) -> None:
        self._cli = cli
        self._sdk_id: str | None = None
        """The id of the first request, as the SDK knows it."""
        self._asked = asyncio.Event()
        self._said = asyncio.Event()
        """Set once the SDK has sent the prompt that was sent before; what follows it is told from then on."""
        if cli.prompt is None:
            self._said.set()
        self._is_closed = False

    async def connect(self) -> None:
        """Nothing: it runs."""

    async def write(self, data: str) -> None:
        """Pass on what is new to the CLI.

        Raises:
            CLIConnectionError: it does not read any more, or it was told something else before.
        """
        if not self._asked.is_set() or not self._said.is_set():
            frame = json.loads(data)
            if self._is_known(frame):
                return
        try:
            await self._cli.write(data)
        except OSError as error:
            raise CLIConnectionError(f"the CLI does not read any more: {error}") from error

    def _is_known(self, frame: dict[str, Any]) -> bool:
        """Whether the CLI was told this before.

        Raises:
            CLIConnectionError: it was told something else in its place.
        """
        if not self._asked.is_set():
            if frame.get("request") != self._cli.request:
                raise CLIConnectionError("the SDK asks for something else than the CLI was started with")
            self._sdk_id = frame["request_id"]
            self._asked.set()
            return True
        if frame.get("type") != "user":
            return False
        if frame != self._cli.prompt:
            raise CLIConnectionError("the SDK sends another prompt than the CLI was started with")
        self._said.set()
        return True

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """What the CLI says.

        Raises:
            CLIJSONDecodeError: a line that cannot be read.
            ProcessError: it ended with an error, or before it answered at all.
        """
        await self._asked.wait()
        has_answered = False
        try:
            async for frame in self._cli.frames():
                if self._cli.is_answer(frame):
                    has_answered = True
                    frame["response"]["request_id"] = self._sdk_id
                    yield frame
                    await self._said.wait()
                else:
                    yield frame
        except ValueError as error:
            raise CLIJSONDecodeError(str(error)[:200], error) from error
        code = await self._cli.exit_code()
        if (code != 0 or not has_answered) and not self._is_closed:
            raise ProcessError(
                f"Command failed with exit code {code}", exit_code=code, stderr="Check stderr output for details"
            )

    async def close(self) -> None:
        """End the CLI; waits are bounded."""
        self._is_closed = True
        self._asked.set()
        self._said.set()
        await self._cli.close()

    def is_ready(self) -> bool:
        """Whether it runs."""
        return self._cli.is_running and not self._is_closed

    async def end_input(self) -> None:
        """Let the CLI know that nothing more comes."""
        await self._cli.end_input()
