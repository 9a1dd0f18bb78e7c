"""What can be changed of a CLI that runs, and what is expected of it since.

None of it loosens the jail or the guard: servers start where the CLI is, inside the jail, and their
calls are judged like all others; a mode decides only what no rule of the policy does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolkit.errors import RunError
from toolkit.runs.asking.approvals import Approvals
from toolkit.runs.fields import RULES
from toolkit.runs.kinds import OptionError, wrong
from toolkit.runs.turn.servers import Servers, as_configured

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeSDKClient


async def ask(client: ClaudeSDKClient, request: Mapping[str, Any]) -> dict[str, Any]:
    """Send one control request and return the CLI's answer.

    Raises:
        Exception: the CLI refuses, is gone, or does not answer within a minute.
    """
    # The SDK sends such requests for its own methods and has no public way to send another one.
    query = client._query
    if query is None:
        raise ConnectionError("the CLI is not connected")
    answer: dict[str, Any] = await query._send_control_request(dict(request))
    return answer


class Controls:
    """The mode and the servers of one run, as they are now."""

    def __init__(self, approvals: Approvals, boxes: Iterable[str], servers: Servers, offered: Iterable[str]) -> None:
        self._approvals = approvals
        self._boxes = tuple(boxes)
        self._offered = tuple(offered)
        self._modes = [approvals.policy.cli_mode]
        self._servers = servers
        self.changed: dict[str, Any] = {}
        """What was set since, as options of a run: another process that goes on has it, too."""
        self.on_change: Callable[[str, Any], None] = lambda what, value: None
        """Told of every change that was made."""

    @property
    def wanted(self) -> set[str]:
        """Every server that the CLI must have."""
        return {*self._boxes, *self._servers.required}

    def is_expected(self, mode: Any) -> bool:
        """Whether the CLI may greet with this permission mode: the one it was told last, or one it was told since."""
        if mode not in self._modes:
            return False
        del self._modes[: self._modes.index(mode)]
        return True

    @property
    def mode(self) -> str:
        """The permission mode that the CLI was told last."""
        return self._modes[-1]

    def offered(self) -> list[str]:
        """Every tool name that a call may have now, as patterns: what is not here is refused."""
        return [*self._offered, *(f"mcp__{name}__*" for name in self._servers.names)]

    async def set_model(self, client: ClaudeSDKClient, model: str | None) -> None:
        """Use another model from the next model call on."""
        await asked("the model cannot be set", client.set_model(RULES["model"]("model", model)))
        self.changed["model"] = model
        self.on_change("model", model)

    async def set_mode(self, client: ClaudeSDKClient, mode: str) -> None:
        """Have another mode decide what no rule does; a read-only run stays one."""
        policy = self._approvals.policy
        wanted = replace(policy, mode=RULES["mode"]("mode", mode))
        if policy.mode == "read-only" != mode:
            raise RunError("a read-only run stays read-only", fix=f"Start another one: run(…, mode={mode!r})")
        if wanted.cli_mode != policy.cli_mode:
            self._modes.append(wanted.cli_mode)
            try:
                request = {"subtype": "set_permission_mode", "mode": wanted.cli_mode}
                await asked(f"the mode cannot be '{mode}'", ask(client, request))
            except RunError:
                self._modes.pop()
                raise
        self._approvals.policy = wanted
        self.on_change("mode", mode)

    async def set_thinking(self, client: ClaudeSDKClient, tokens: int | None) -> None:
        """Limit the tokens for thinking from the next model call on."""
        if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0):
            raise wrong("tokens", tokens, "it is a whole number, or None for the CLI's own choice", "0 is no thinking")
        request = {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": tokens}
        await asked("the thinking cannot be set", ask(client, request))
        self.changed["thinking"] = "off" if tokens == 0 else tokens
        self.on_change("thinking", tokens)

    async def set_servers(self, client: ClaudeSDKClient, servers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Have these further servers and no others; the run's own boxes stay."""
        checked: dict[str, dict[str, Any]] = RULES["servers"]("servers", servers)
        for name, config in checked.items():
            if name in self._boxes:
                raise RunError(f"two servers are called '{name}'", fix="Give the new one another name")
            if config.get("type") == "sdk":
                what = f"servers[{name!r}]: a server inside this process cannot come later"
                raise OptionError("servers", what, fix="Give it when the run starts: run(…, tools=[box])")
        self._servers.check_later(checked)
        # The CLI drops every server that is not listed, also those of this process.
        ours = {name: {"type": "sdk", "name": name} for name in self._boxes}
        listed = {**ours, **as_configured(checked, is_heard=self._servers.are_heard)}
        self._servers.replacing(checked)
        request = {"subtype": "mcp_set_servers", "servers": listed}
        answer = await asked("the servers cannot be set", ask(client, request))
        # Until here a call of their tools is refused: they are not offered yet.
        errors = await self._servers.replaced(client, checked)
        self.changed["servers"] = {name: one for name, one in checked.items() if name not in errors}
        self.on_change("servers", sorted(self._servers.names))
        return {
            "added": list(answer.get("added") or ()),
            "removed": list(answer.get("removed") or ()),
            "errors": errors,
        }


async def asked(what: str, request: Any) -> Any:
    """What the CLI answers to a request; its refusal in words of ours."""
    try:
        return await request
    except Exception as error:
        raise RunError(what, where=[str(error)]) from error
