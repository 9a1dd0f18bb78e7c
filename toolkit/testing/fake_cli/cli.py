"""The CLI played from a script: hooks, approvals and in-process tools in milliseconds, without a process.

A `FakeCLI` is a `Transport` for the SDK. It takes the same turns as a
`ScriptedAPI` and does with them what the real CLI does: one frame for every
block, hooks and permission before a tool, the in-process servers' answers, a
result at the end. It runs no command and touches no file; a built-in tool
exists only as the stand-in the test gives. It needs asyncio.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Message, query

from toolkit.errors import TestingError
from toolkit.testing.fake_cli import _frames
from toolkit.testing.fake_cli._calls import Caller, StandIn
from toolkit.testing.fake_cli._channel import Channel, Refused
from toolkit.testing.fake_cli._frames import Frame
from toolkit.testing.fake_cli._host import MODEL, MODES, Hooks, Servers, Settings
from toolkit.testing.fake_cli._loop import AgentLoop
from toolkit.testing.model.script import Script, Scripted
from toolkit.testing.model.turns import TurnLike

Aside = Frame | Callable[["FakeCLI"], Awaitable[None]]


class FakeCLI(Scripted, Channel):
    """A CLI that says what a script tells it to.

    Besides turns a script may hold frames (dicts, sent as they are: keep-alives, unknown types) and async
    functions of the FakeCLI (`await cli.ask(…)`, `cli.die(137)`); they are performed where they stand between
    the turns. `tools` gives stand-ins for built-in tools, `answers` the answers to further control requests,
    and `dies_after` the number of frames after which the CLI is gone.
    """

    def __init__(
        self,
        *steps: TurnLike | Aside,
        otherwise: TurnLike | None = None,
        tools: Mapping[str, StandIn] | None = None,
        answers: Mapping[str, Frame] | None = None,
        options: ClaudeAgentOptions | None = None,
        dies_after: int | None = None,
        exit_code: int = 1,
        strict: bool = True,
    ) -> None:
        turns: list[Any] = []
        self._asides: dict[int, list[Aside]] = {}
        for step in steps:
            if isinstance(step, dict) or inspect.iscoroutinefunction(step):
                if isinstance(step, dict) and not isinstance(step.get("type"), str):
                    raise TestingError(
                        f"a frame needs a type: {step!r}"[:200], fix='For example: {"type": "keep_alive"}'
                    )
                self._asides.setdefault(len(turns), []).append(step)
            else:
                turns.append(step)
        Scripted.__init__(self, Script(turns, otherwise), strict=strict)
        Channel.__init__(self, dies_after=dies_after, exit_code=exit_code)
        self._given = self._options = options
        self._stand_ins = dict(tools or {})
        self._answers = dict(answers or {})
        self._sessions: dict[str, list[Frame]] = {}

    async def query(
        self, prompt: str | AsyncIterable[dict[str, Any]], options: ClaudeAgentOptions | None = None, **overrides: Any
    ) -> AsyncGenerator[Message, None]:
        """Run one prompt and yield the SDK's messages; the same call as `RealCLI.query`."""
        running: Any = query(prompt=prompt, options=self._choose(options, overrides), transport=self)
        try:
            async for message in running:
                yield message
        finally:
            await running.aclose()

    @asynccontextmanager
    async def client(
        self, options: ClaudeAgentOptions | None = None, **overrides: Any
    ) -> AsyncIterator[ClaudeSDKClient]:
        """A connected `ClaudeSDKClient`; the same call as `RealCLI.client`."""
        async with ClaudeSDKClient(self._choose(options, overrides), transport=self) as client:
            yield client

    def options(self, **overrides: Any) -> ClaudeAgentOptions:
        """Options for the SDK as `RealCLI.options` gives them: every tool allowed unless said otherwise."""
        return ClaudeAgentOptions(**{"permission_mode": "bypassPermissions", **overrides})

    def take_options(self, options: ClaudeAgentOptions) -> None:
        """Play the CLI that was started with these options; `toolkit.run(transport=…)` calls it."""
        self._options = options

    def _choose(self, options: ClaudeAgentOptions | None, overrides: dict[str, Any]) -> ClaudeAgentOptions:
        if options is None:
            options = self._given if self._given is not None and not overrides else self.options(**overrides)
        self._options = options
        return options

    async def connect(self) -> None:
        """Start a fresh CLI with the options of this run."""
        self.settings = Settings(self._options)
        """How this CLI was started."""
        keeps = self.settings.resume is not None and not self.settings.given.fork_session
        self.session = (self.settings.resume if keeps else self.settings.given.session_id) or _frames.new_id()
        self.messages: list[Frame] = list(self._sessions.get(self.settings.resume or "", ()))
        """The conversation of this session so far, as the model sees it."""
        self._user_ids: set[str] = set()
        self._hooks = Hooks(self)
        self._servers = Servers(self)
        self._loop = AgentLoop(self, Caller(self, self.settings, self._hooks, self._servers, self._stand_ins))
        await super().connect()

    async def _play(self) -> int:
        if self.settings.resume is not None and self.settings.resume not in self._sessions:
            self.say(self._loop.failed(f"No conversation found with session ID: {self.settings.resume}"))
            return 1
        code = 0
        while (prompt := await self.prompts.get()) is not None:
            self.say(_frames.activity("running"))
            result = await self._loop.prompt(prompt)
            self._sessions[self.session] = list(self.messages)
            self.say(result)
            self.say(_frames.activity("idle"))
            code = 1 if result["is_error"] else 0
        return code

    def echo(self, prompt: Frame) -> None:
        """Take the id under which files can be rewound to a prompt, and repeat it to a host that asked for that."""
        frame = _frames.stamped(_frames.user(prompt["message"]["content"], isReplay=True), self.session)
        frame["uuid"] = prompt.get("uuid") or frame["uuid"]
        self._user_ids.add(frame["uuid"])
        if self.settings.echo:
            self.emit(frame)

    async def perform(self, calls_made: int) -> None:
        """Perform what stands in the script after this many turns."""
        for aside in self._asides.pop(calls_made, ()):
            if isinstance(aside, dict):
                self.emit(aside)
            else:
                await aside(self)

    async def _control(self, request: Frame) -> Frame:
        subtype = str(request.get("subtype"))
        if subtype in self._answers:
            return self._answers[subtype]
        match subtype:
            case "initialize":
                return await self._initialize(request)
            case "interrupt":
                await self._loop.interrupt()
                return {"still_queued": []}
            case "set_model":
                return self._set_model(request.get("model") or MODEL)
            case "set_permission_mode":
                return self._set_mode(str(request.get("mode")))
            case "mcp_status":
                return {"mcpServers": self._servers.status()}
            case "set_max_thinking_tokens":
                return self._set_thinking(request.get("max_thinking_tokens"))
            case "mcp_set_servers":
                return await self._servers.set(self.settings, request.get("servers") or {})
            case "rewind_files":
                return self._rewind(request.get("user_message_id"), dry_run=bool(request.get("dry_run")))
            case "mcp_message":
                answer = await self.ask({**request})
                return dict(answer.get("response") or {})
            case _:
                raise Refused(f"Unsupported control request subtype: {subtype}")

    async def _initialize(self, request: Frame) -> Frame:
        self._hooks.registered = request.get("hooks") or {}
        self._hooks.common = {
            "session_id": self.session,
            "transcript_path": f"{self.settings.cwd}/{self.session}.jsonl",
            "cwd": self.settings.cwd,
            "permission_mode": self.settings.mode,
        }
        for name in self.settings.sdk_servers:
            await self._servers.connect(name)
        return _frames.initialized(self.settings.mode)

    def _set_model(self, model: str) -> Frame:
        self.settings.model = model
        done = f"<local-command-stdout>Set model to `{model}`</local-command-stdout>"
        self.say(_frames.user(done, isReplay=True))
        self.messages.append({"role": "user", "content": done})
        return {"model": model}

    def _set_mode(self, mode: str) -> Frame:
        if mode not in MODES:
            raise Refused(f"Cannot set permission mode: must be one of {', '.join(MODES)}")
        if mode == "auto":
            raise Refused("Cannot set permission mode to auto: auto mode unavailable for this model")
        if mode == "bypassPermissions" and not self.settings.may_bypass:
            raise Refused(
                "Cannot set permission mode to bypassPermissions because the session was not launched with "
                "--dangerously-skip-permissions"
            )
        if mode != self.settings.mode:
            self.settings.mode = mode
            self.say({"type": "system", "subtype": "status", "status": None, "permissionMode": mode})
        return {"mode": mode}

    def _set_thinking(self, tokens: Any) -> Frame:
        if tokens is not None and (not isinstance(tokens, int) or isinstance(tokens, bool)):
            raise Refused(
                "set_max_thinking_tokens: max_thinking_tokens must be an integer or null and thinking_display must be "
                '"summarized", "omitted", "highlights", or null'
            )
        self.settings.thinking_tokens = tokens
        return {}

    def _rewind(self, message: Any, *, dry_run: bool) -> Frame:
        """There are no files here: a rewind to a prompt that was sent changes nothing and is fine."""
        refusal = "File rewinding is not enabled."
        if self.settings.checkpoints:
            refusal = "" if message in self._user_ids else "No file checkpoint found for this message."
        if refusal and not dry_run:
            raise Refused(refusal)
        if refusal:
            return {"canRewind": False, "error": refusal}
        told = {"filesChanged": [], "insertions": 0, "deletions": 0} if dry_run else {"skippedLinks": 0}
        return {"canRewind": True, **told}
