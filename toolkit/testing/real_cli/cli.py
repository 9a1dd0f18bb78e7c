"""The real CLI in a private home, against a scripted model: nothing of the machine gets in.

A `RealCLI` owns one temporary directory (home, config, workspace) and starts the
CLI with an environment made from nothing, a made-up key and the API's address.
It refuses to start without a CLI it can execute, and when it is closed no
process of a run may be left; those that are get ended and reported.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import tempfile
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from toolkit._base.files import write_whole
from toolkit._base.handles import remove_folder
from toolkit.errors import SandboxError, TestingError
from toolkit.testing.real_cli import _processes

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Message

FAKE_KEY = "sk-ant-api03-scripted-not-a-key"
_STDERR_LINES = 200
_PID_FILE = "TOOLKIT_TESTING_PID_FILE"

T = TypeVar("T")

# Set by the SDK itself for the CLI; everything else of the caller's environment stays outside.
_FROM_THE_SDK = (
    "CLAUDE_AGENT_SDK_CLIENT_APP",
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE",
    "PWD",
)


class HasURL(Protocol):
    """Something that answers as the Messages API; a `ScriptedAPI`, as a rule."""

    @property
    def url(self) -> str:
        """Where it listens."""


def find_cli(cli_path: str | os.PathLike[str] | None = None) -> Path:
    """Return the CLI to run: the given path, else `CLAUDE_BIN`, else the SDK's own, else one on PATH.

    Raises:
        TestingError: it does not exist, or is not executable.
    """
    from toolkit.sandbox import find_cli as find

    try:
        return find(None if cli_path is None else Path(cli_path))
    except SandboxError as error:
        origin = "cli_path" if cli_path is not None else "CLAUDE_BIN" if os.environ.get("CLAUDE_BIN") else None
        raise TestingError(error.what, where=[f"named by {origin}"] if origin else [], fix=error.fix) from None


class RealCLI:
    """Runs of the real CLI that see nothing but their own temporary directory and the scripted API.

    Use it as a context manager, sync or async. `env` adds variables for the CLI; `cli_path` names another CLI.
    """

    def __init__(
        self,
        api: HasURL | str,
        *,
        cli_path: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._api = api
        self.cli_path = find_cli(cli_path)
        """The CLI that is run."""
        self._extra_env = _checked(env or {})
        self._mark = uuid.uuid4().hex
        self._root: Path | None = None
        # Kept until the end: a run dropped half read would be closed by the garbage collector, in a hurry.
        self._runs: list[AsyncGenerator[Message, None]] = []
        self._unfinished = 0
        self.stderr: list[str] = []
        """The last lines the CLI wrote to stderr."""

    @property
    def root(self) -> Path:
        """The temporary directory that holds all of it."""
        if self._root is None:
            raise TestingError(
                "this RealCLI is not open", fix="Use it in a with block: async with RealCLI(api) as cli:"
            )
        return self._root

    @property
    def home(self) -> Path:
        """The CLI's HOME."""
        return self.root / "home"

    @property
    def config_dir(self) -> Path:
        """The CLI's configuration directory; sessions are kept here."""
        return self.root / "home" / ".claude"

    @property
    def workspace(self) -> Path:
        """The working directory of the runs."""
        return self.root / "workspace"

    def env(self) -> dict[str, str]:
        """The whole environment the CLI gets, apart from what the SDK adds."""
        url = self._api if isinstance(self._api, str) else self._api.url
        return {
            "ANTHROPIC_API_KEY": FAKE_KEY,
            "ANTHROPIC_BASE_URL": url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "CLAUDE_CONFIG_DIR": str(self.config_dir),
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "HOME": str(self.home),
            # Without it the CLI refuses bypassPermissions to root.
            "IS_SANDBOX": "1",
            "LANG": "C.UTF-8",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "TMPDIR": str(self.root / "tmp"),
            _processes.MARK: self._mark,
            **self._extra_env,
        }

    def options(self, **overrides: Any) -> ClaudeAgentOptions:
        """Options for the SDK that run this CLI here; `overrides` are fields of `ClaudeAgentOptions`.

        Without overrides: every tool allowed, no settings files, only the given MCP servers.
        """
        from claude_agent_sdk import ClaudeAgentOptions

        values: dict[str, Any] = {
            "cwd": self.workspace,
            "permission_mode": "bypassPermissions",
            "setting_sources": [],
            "strict_mcp_config": True,
            **overrides,
        }
        pid_file = self.root / "bin" / f"{uuid.uuid4().hex}.pid"
        env = {**self.env(), **_checked(values.pop("env", {})), _PID_FILE: str(pid_file)}
        cli = find_cli(values.pop("cli_path", None) or self.cli_path)
        theirs = values.pop("stderr", None)

        def keep(line: str) -> None:
            self.stderr.append(line)
            del self.stderr[:-_STDERR_LINES]
            if theirs is not None:
                theirs(line)

        return ClaudeAgentOptions(cli_path=self._launcher(cli, env), env=env, stderr=keep, **values)

    def query(
        self, prompt: str | AsyncIterable[dict[str, Any]], options: ClaudeAgentOptions | None = None, **overrides: Any
    ) -> AsyncGenerator[Message, None]:
        """Run one prompt and yield the SDK's messages, as `claude_agent_sdk.query` does."""
        running = self._query(prompt, self._with(options, overrides))
        self._runs.append(running)
        return running

    async def _query(
        self, prompt: str | AsyncIterable[dict[str, Any]], options: ClaudeAgentOptions
    ) -> AsyncGenerator[Message, None]:
        from claude_agent_sdk import ResultMessage, query

        running: Any = query(prompt=prompt, options=options)
        at_a_result = False
        self._unfinished += 1
        try:
            with self._explaining():
                yield await self._begin(anext(running), options)
                async for message in running:
                    at_a_result = isinstance(message, ResultMessage)
                    yield message
        except StopAsyncIteration:
            return
        finally:
            if not at_a_result:
                _processes.terminate(_pid_file(options))
            await _run_out(running)
            self._unfinished -= 1

    @asynccontextmanager
    async def client(
        self, options: ClaudeAgentOptions | None = None, **overrides: Any
    ) -> AsyncIterator[ClaudeSDKClient]:
        """A connected `ClaudeSDKClient` for several prompts in one process."""
        from claude_agent_sdk import ClaudeSDKClient

        chosen = self._with(options, overrides)
        client = ClaudeSDKClient(chosen)
        with self._explaining():
            await self._begin(client.connect(), chosen)
            try:
                yield client
            finally:
                await client.disconnect()

    async def _begin(self, first: Awaitable[T], options: ClaudeAgentOptions) -> T:
        """Wait for the first sign of life; the SDK itself would wait a minute for a CLI that has already ended."""
        from claude_agent_sdk import CLIConnectionError

        pid_file = _pid_file(options)
        task = asyncio.ensure_future(first)
        try:
            while not (await asyncio.wait([task], timeout=0.1))[0]:
                if _processes.has_ended(pid_file) and not (await asyncio.wait([task], timeout=1))[0]:
                    raise self._said_nothing()
            return task.result()
        except CLIConnectionError as error:
            # It may already have been gone when the SDK wrote its first line.
            if _processes.has_ended(pid_file):
                raise self._said_nothing() from error
            raise
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=20)

    def _said_nothing(self) -> TestingError:
        return TestingError(
            "the CLI ended without having said anything",
            where=[str(self.cli_path), *self.stderr[-5:]],
            fix="See that it is a claude CLI: run it with --version.",
        )

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Add what the CLI wrote to stderr to the SDK's errors, which do not have it."""
        try:
            yield
        except Exception as error:
            if self.stderr:
                error.add_note("the CLI wrote to stderr:\n" + "\n".join(self.stderr[-20:]))
            raise

    def _with(self, options: ClaudeAgentOptions | None, overrides: dict[str, Any]) -> ClaudeAgentOptions:
        if options is None:
            return self.options(**overrides)
        return replace(options, **overrides) if overrides else options

    def _launcher(self, cli: Path, env: Mapping[str, str]) -> Path:
        """Write the script that starts the CLI with these variables and no others.

        The SDK can only add to the environment it inherits; this drops the rest again.
        """
        names = sorted({*env, *_FROM_THE_SDK})
        kept = " ".join(f'${{{name}+"{name}=${name}"}}' for name in names)
        start = f'exec /usr/bin/env -i {kept} {shlex.quote(str(cli))} "$@"'
        path = self.root / "bin" / f"claude-{uuid.uuid4().hex}"
        write_whole(path, f'#!/bin/sh\necho $$ > "${_PID_FILE}"\n{start}\n', mode=0o700)
        return path

    def open(self) -> Self:
        """Make the temporary directory."""
        if self._root is not None:
            raise TestingError("this RealCLI is already open", fix="Make a new one for every use.")
        self._root = Path(tempfile.mkdtemp(prefix="toolkit-cli-")).resolve()
        for path in (self.home, self.config_dir, self.workspace, self.root / "bin", self.root / "tmp"):
            path.mkdir()
        return self

    def processes(self) -> list[int]:
        """The ids of the processes of this CLI's runs that are alive now."""
        return list(_processes.marked(self._mark))

    def close(self) -> None:
        """Remove the directory; raise if a process had outlived its run (it is ended first)."""
        if self._root is None:
            return
        # A run that was left half read is not a leak, and in a sync program nobody can finish it any more.
        abandoned = self._unfinished > 0
        left = _processes.wait_until_gone(self._mark, 0.0 if abandoned else 2.0)
        _processes.end(self._mark)
        with suppress(OSError):  # as much of it as can be removed
            remove_folder(self._root)
        self._root = None
        if left and not abandoned:
            raise TestingError(
                f"{len(left)} process(es) outlived their run and were ended",
                where=[f"{pid}: {command[:200]}" for pid, command in left.items()],
                fix="Stop what the run started before it ends.",
            )

    async def aclose(self) -> None:
        """End the runs that were left half read, then close."""
        for running in self._runs:
            await running.aclose()
        # In a thread: what is still ending in this loop has to get its turn.
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with _only_if_no(error):
            self.close()

    async def __aenter__(self) -> Self:
        return self.open()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with _only_if_no(error):
            await self.aclose()


async def _run_out(running: AsyncGenerator[Message, None]) -> None:
    """Let a run come to its end unheard.

    Closing the SDK's generator half way leaves the CLI to the garbage collector; at its own end it cleans up.
    """
    try:
        async with asyncio.timeout(20):
            async for _ in running:
                pass
    except Exception:
        pass  # how a run ends that nobody listens to does not matter
    await running.aclose()


def _checked(env: Mapping[str, str]) -> dict[str, str]:
    """The variables, if their names are ones that a shell can pass on."""
    for name in env:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise TestingError(f"env: {name!r} is no variable name", fix="Use letters, digits and underscores.")
    return dict(env)


def _pid_file(options: ClaudeAgentOptions) -> Path:
    """Where the launcher of a run writes its process id; options from elsewhere have none."""
    return Path(options.env.get(_PID_FILE, os.devnull))


@contextmanager
def _only_if_no(error: BaseException | None) -> Iterator[None]:
    """Let a complaint at the end through only where it hides no earlier error."""
    try:
        yield
    except TestingError:
        if error is None:
            raise
