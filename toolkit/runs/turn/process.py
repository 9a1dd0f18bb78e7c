"""The CLI as a process: started in its jail, with the SDK's client to talk to it, and gone when it is closed."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit._base.handles import remove_folder
from toolkit.sandbox import Confinement

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Transport

PATIENCE = 2.0
"""Seconds between asking the CLI to stop and making it."""
_STDERR_LINES, _STDERR_WIDTH = 50, 500


class CLIProcess:
    """One CLI, its jail and its private home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._stack = AsyncExitStack()
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        """The last lines the CLI wrote there: often the only place that names a cause."""
        self._client: ClaudeSDKClient | None = None
        self.jail: Confinement | None = None
        self._told_tokens = 0

    async def enter(self, jail: Confinement) -> None:
        """Open the jail that it is to run in.

        Raises:
            UnconfinedError: the jail is not certain; nothing was started.
        """
        self.jail = await self._stack.enter_async_context(jail)

    async def start(self, options: ClaudeAgentOptions, transport: Transport | None) -> None:
        """Start it.

        Raises:
            ClaudeSDKError: it could not be started.
        """
        from claude_agent_sdk import ClaudeSDKClient

        take_options = getattr(transport, "take_options", None)
        if take_options is not None:  # a FakeCLI has no command line to read them from
            take_options(options)
        self._client = ClaudeSDKClient(options, transport=transport)
        self._stack.push_async_callback(self._disconnect)
        await self._client.connect()

    async def close(self) -> None:
        """End the process and everything in its jail; nothing survives."""
        try:
            await self._stack.aclose()
        finally:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(remove_folder, self._home)

    @property
    def client(self) -> ClaudeSDKClient:
        """The SDK's client, once it was started."""
        assert self._client is not None, "the engine is not open"
        return self._client

    def hear(self, line: str) -> None:
        """Keep a line that it wrote to stderr."""
        self._stderr.append(line.rstrip("\n")[:_STDERR_WIDTH])

    @property
    def stderr(self) -> str:
        """The last lines that it wrote there."""
        return "\n".join(self._stderr)

    def causes(self) -> Mapping[str, Any]:
        """What it and its jail told beside the messages."""
        causes: dict[str, Any] = {"stderr": self.stderr}
        if self.jail is not None:
            causes["exceeded"] = None if self.jail.exceeded is None else str(self.jail.exceeded)
        return {name: value for name, value in causes.items() if value}

    def unenforced(self) -> tuple[str, ...]:
        """Limits asked for that this machine cannot enforce."""
        return () if self.jail is None else self.jail.report.not_enforced

    @property
    def gate_tokens(self) -> int:
        """All tokens that went through its gate until now."""
        return 0 if self.jail is None else self.jail.gate.usage.tokens

    def new_gate_tokens(self) -> int | None:
        """Those that went through since this was asked last; None without a gate."""
        if self.jail is None:
            return None
        before, self._told_tokens = self._told_tokens, self.gate_tokens
        return self._told_tokens - before

    async def _disconnect(self) -> None:
        """Close the client; when it does not close in time, the end of the jail makes it."""
        task = asyncio.ensure_future(self.client.disconnect())
        done, _ = await asyncio.wait({task}, timeout=PATIENCE)
        if not done and self.jail is not None:
            await asyncio.to_thread(self.jail.kill)
            await asyncio.wait({task}, timeout=PATIENCE * 5)
        if task.done() and not task.cancelled():
            task.exception()
        else:
            task.cancel()
