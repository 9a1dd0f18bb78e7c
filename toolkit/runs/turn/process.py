"""The CLI as a process: started in its jail, with the SDK's client to talk to it, and gone when it is closed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit._base.handles import remove_folder
from toolkit.runs.outcome import safe_lines
from toolkit.runs.turn.early import (
    StartedCLI,
    command_line,
    initialize_request,
    is_held,
    is_loaded,
    load_sdk,
    variables,
)
from toolkit.sandbox import Confinement

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Transport

PATIENCE = 2.0
"""Seconds between asking the CLI to stop and making it."""
_UNTIL_ASKED = 1.0
"""Seconds to leave the processor to the CLI, from the prompt to its first request."""
_STDERR_LINES, _STDERR_WIDTH = 50, 500
_WARNING = "Warning: "
_KILLED = 137
"""How a launcher ends when the CLI was killed in its jail."""


class CLIProcess:
    """One CLI, its jail and its private home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._stack = AsyncExitStack()
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        """The last lines the CLI wrote there: often the only place that names a cause."""
        self._warnings: list[str] = []
        self._client: ClaudeSDKClient | None = None
        self.jail: Confinement | None = None
        self._cli: StartedCLI | None = None
        self._loading: asyncio.Future[None] | None = None
        self._told_tokens = self._told_kills = 0

    async def enter(
        self, jail: Confinement, options: Callable[[], Mapping[str, Any]], *, is_alone: bool, has_prompt: bool
    ) -> None:
        """Open the jail, and start the CLI in it while it is proven and the SDK is loaded; nothing is sent yet.

        A CLI that is not alone starts programs of others as it starts: it waits until the jail is proven. Where a
        prompt can be sent at once, the SDK is loaded when the CLI turns to the model with it: until then the CLI needs
        the processor.

        Raises:
            UnconfinedError: the jail is not certain; whatever ran in it is gone.
            ClaudeSDKError: the CLI could not be started.
        """

        async def start() -> None:
            given = options()
            self._cli = cli = StartedCLI(self.hear, given["max_buffer_size"])
            command = [str(given["cli_path"]), *command_line(given)]
            folder = Path(given["cwd"])
            try:
                await cli.start(command, folder, variables(given, folder))
                self._stack.push_async_callback(cli.close)
                if not has_prompt:
                    self._load()
                await cli.ask(initialize_request(given))
            except OSError as error:
                raise await _not_started(error) from error

        if is_alone:
            jail.when_open = start
        self.jail = await self._stack.enter_async_context(jail)
        if not is_alone:
            await start()

    async def say(self, prompt: dict[str, Any]) -> bool:
        """Send the first prompt, if the CLI has shown that it asks before every call; else it is for the client to."""
        assert self._cli is not None
        assert self.jail is not None
        if not is_held(await self._cli.answer()):
            return False
        self.jail.gate.reached.clear()
        try:
            await self._cli.say(prompt)
        except OSError:
            return False  # it has ended, and the client will say how
        if not is_loaded():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_UNTIL_ASKED):
                    await self.jail.gate.reached.wait()
        return True

    async def loaded(self) -> None:
        """Wait until the SDK is loaded."""
        await self._load()

    def _load(self) -> asyncio.Future[None]:
        if self._loading is None:
            self._loading = asyncio.ensure_future(asyncio.to_thread(load_sdk))
        return self._loading

    async def start(self, options: ClaudeAgentOptions, transport: Transport | None) -> None:
        """Connect the SDK's client: to the CLI that was started, or to a transport of the caller's.

        Raises:
            ClaudeSDKError: it could not be connected.
        """
        from claude_agent_sdk import ClaudeSDKClient

        _told_by_us()
        if self._cli is not None:
            from toolkit.runs.turn.early.handed_over import HandedOver

            transport = HandedOver(self._cli)
        take_options = getattr(transport, "take_options", None)
        if take_options is not None:  # a FakeCLI has no command line to read them from
            take_options(options)
        self._client = ClaudeSDKClient(options, transport=transport)
        self._stack.push_async_callback(self._disconnect)
        await self._client.connect()

    async def close(self, *, is_under_way: bool = False) -> None:
        """End the process and everything in its jail; nothing survives.

        With a turn under way that is ended first: asked to end, the CLI would go on with it, and with what that costs.
        """
        try:
            if is_under_way and self._cli is not None and self._cli.is_running:
                await self._end_turn()
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
        if line.startswith(_WARNING) and len(self._warnings) < _STDERR_LINES:
            self._warnings += safe_lines(line.removeprefix(_WARNING)[:_STDERR_WIDTH])

    def new_warnings(self) -> list[str]:
        """What it warned of since this was asked last, such as an option that it leaves out."""
        told, self._warnings = self._warnings, []
        return told

    @property
    def stderr(self) -> str:
        """The last lines that it wrote there."""
        return "\n".join(self._stderr)

    def causes(self) -> Mapping[str, Any]:
        """What it and its jail told beside the messages."""
        causes: dict[str, Any] = {"stderr": self.stderr}
        causes["exceeded"] = self.exceeded
        return {name: value for name, value in causes.items() if value}

    @property
    def exceeded(self) -> str | None:
        """The limit that its jail was ended for, or it alone, in words."""
        if self.jail is None:
            return None
        code = None if self._cli is None else self._cli.code
        found = self.jail.ended(code if code == _KILLED else None)
        return None if found is None else str(found)

    def new_kills(self) -> int:
        """How many processes in its jail the kernel has ended for their memory since this was asked last."""
        before, self._told_kills = self._told_kills, 0 if self.jail is None else self.jail.killed
        return self._told_kills - before

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

    async def _end_turn(self) -> None:
        """Have the CLI end its turn; what it has said until then is in the conversation."""
        reading = asyncio.create_task(self._read_away())
        try:
            async with asyncio.timeout(PATIENCE):
                await self.client.interrupt()
        except Exception:
            if self.jail is not None:
                await asyncio.to_thread(self.jail.kill)
        finally:
            reading.cancel()

    async def _read_away(self) -> None:
        """Take what nobody waits for, so that answers behind it are heard."""
        with contextlib.suppress(Exception):
            async for _ in self.client.receive_messages():
                pass

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


async def _not_started(error: OSError) -> Exception:
    await asyncio.to_thread(load_sdk)
    from claude_agent_sdk import CLIConnectionError

    return CLIConnectionError(f"the CLI could not be started: {error}")


def _told_by_us() -> None:
    """Let the SDK's log go to whoever asked for logs: where nobody did, Python would print it beside our own words."""
    log = logging.getLogger("claude_agent_sdk")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
