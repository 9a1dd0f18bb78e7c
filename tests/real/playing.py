"""A scenario played through a CLI, real, fake or replayed, and what its host saw, made comparable."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ClaudeSDKError, Message

from tests.real.scenarios import MODEL, Scenario, notes_server
from toolkit.testing import FakeCLI, RealCLI, record


class Recorded:
    """A real CLI whose one run is written to a cassette."""

    def __init__(self, cli: RealCLI, path: Path) -> None:
        self._cli = cli
        self._path = path
        self._stack = ExitStack()

    def query(self, prompt: Any, **options: Any) -> AsyncIterator[Message]:
        return self._cli.query(prompt, self._recording(options))

    def client(self, **options: Any) -> AbstractAsyncContextManager[ClaudeSDKClient]:
        return self._cli.client(self._recording(options))

    def _recording(self, options: dict[str, Any]) -> ClaudeAgentOptions:
        return self._stack.enter_context(record(self._path, self._cli.options(**options)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


async def play(scenario: Scenario, cli: RealCLI | FakeCLI | Recorded) -> list[dict[str, Any]]:
    """Play a scenario and return what the SDK's user saw, made comparable."""
    options = {"mcp_servers": notes_server(), "model": MODEL, **scenario.options}
    heard: list[Any] = []
    error: ClaudeSDKError | None = None
    try:
        if scenario.conversation is None:
            async for message in cli.query(_prompt(options), **options):
                heard.append(message)
        else:
            async with cli.client(**options) as client:
                heard.extend(await scenario.conversation(client))
    except ClaudeSDKError as raised:
        error = raised
    seen = [entry for message in heard if (entry := _comparable(message)) is not None]
    return [*_renamed(seen), {"raised": type(error).__name__ if error else None}]


def _prompt(options: dict[str, Any]) -> Any:
    """The SDK wants a stream of prompts where a callback is asked for permission."""

    async def stream() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "user", "message": {"role": "user", "content": "go"}, "parent_tool_use_id": None}

    return stream() if "can_use_tool" in options else "go"


_TIMES_AND_IDS = {"uuid", "session_id", "duration_ms", "duration_api_ms", "total_cost_usd", "timestamp"}
_COUNTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_MODEL_COUNTS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
# Estimates and hints for a person at a terminal; the fake CLI has neither.
_ONLY_REAL = {"thinking_tokens", "notification"}


def _comparable(message: Message | dict[str, Any]) -> dict[str, Any] | None:
    if isinstance(message, dict):  # the answer to a control request
        return message
    seen = {key: value for key, value in asdict(message).items() if key not in _TIMES_AND_IDS}
    seen["kind"] = type(message).__name__
    if seen["kind"] == "SystemMessage":
        return _system(seen)
    if seen.get("usage"):
        seen["usage"] = {name: seen["usage"].get(name, 0) for name in _COUNTS}
    if seen.get("model_usage") is not None:
        used = seen["model_usage"].items()
        seen["model_usage"] = {model: [counts[name] for name in _MODEL_COUNTS] for model, counts in used}
    event = seen.get("event")
    if event and event["type"] == "message_delta":
        event["usage"] = {"output_tokens": event["usage"]["output_tokens"]}
    for name in ("errors", "result", "content"):
        if seen.get(name):
            seen[name] = re.sub(r"127\.0\.0\.1:\d+", "HOST", repr(seen[name]))
            seen[name] = re.sub(r"is only ~\d+ tokens", "is only ~N tokens", seen[name])
    return seen


def _system(seen: dict[str, Any]) -> dict[str, Any] | None:
    data = seen["data"]
    if data["subtype"] in _ONLY_REAL:
        return None
    kept: tuple[str, ...] = (
        "subtype",
        "permissionMode",
        "model",
        "mcp_servers",
        "status",
        "content",
        "tag",
        "tool_name",
        "message",
    )
    kept += ("prevent_continuation", "prompt_submit_outcome")
    told = {name: data[name] for name in kept if name in data}
    if data["subtype"] == "init":
        told["tools"] = [name for name in data["tools"] if name.startswith("mcp__")]
    return {"kind": "SystemMessage", **told}


def _renamed(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace made-up ids by their number in the run."""
    names: dict[str, str] = {}

    def rename(value: Any) -> Any:
        if isinstance(value, str):
            pattern = r"(toolu_scripted|msg_scripted)_\d+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
            return re.sub(pattern, lambda found: names.setdefault(found[0], f"{found[1]}#{len(names)}"), value)
        if isinstance(value, list):
            return [rename(item) for item in value]
        if isinstance(value, dict):
            return {key: rename(item) for key, item in value.items()}
        return value

    return [rename(entry) for entry in seen]
