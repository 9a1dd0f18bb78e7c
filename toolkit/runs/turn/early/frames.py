"""The first words to the CLI, as the SDK says them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def initialize_request(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the SDK asks first: which hooks there are, and which subagents."""
    hooks = dict(_hooks(options["hooks"]))
    request: dict[str, Any] = {"subtype": "initialize", "hooks": hooks or None}
    if options.get("agents"):
        request["agents"] = options["agents"]
    return request


def _hooks(hooks: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The hooks of each event; every function has a number, counted through."""
    count = 0
    for event, matchers in hooks.items():
        told = []
        for matcher in matchers:
            ids = [f"hook_{count + place}" for place in range(len(matcher.hooks))]
            count += len(ids)
            one = {"matcher": matcher.matcher, "hookCallbackIds": ids}
            one |= {} if matcher.timeout is None else {"timeout": matcher.timeout}
            one |= {} if matcher.on_failure is None else {"onFailure": matcher.on_failure}
            told.append(one)
        if told:
            yield event, told


def is_held(answer: Mapping[str, Any] | None) -> bool:
    """Whether the CLI has taken the hooks, and blocks a call whose hook fails; without that nothing is sent to it."""
    if answer is None or answer.get("subtype") != "success":
        return False
    said = answer.get("response")
    if not isinstance(said, Mapping) or said.get("hooks_applied") is False:
        return False
    return bool(said.get("hook_on_failure_supported"))
