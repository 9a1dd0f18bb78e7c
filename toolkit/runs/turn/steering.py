"""What one can do to a run under way, once its CLI runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from toolkit.errors import RunError
from toolkit.runs.turn.controls import ask, asked
from toolkit.runs.turn.engine import Engine


class Steering(ABC):
    """The methods of a live run that ask its CLI for something.

    Each raises a RunError when the run is over, or the CLI refuses.
    """

    @abstractmethod
    async def _open(self) -> Engine:
        """The engine, once it is open."""

    async def interrupt(self) -> None:
        """End the turn under way and keep what it gave; the conversation can go on with `send`."""
        await (await self._open()).interrupt()

    async def set_model(self, model: str | None) -> None:
        """Use another model from the next model call on; None goes back to the default."""
        engine = await self._open()
        await engine.controls.set_model(engine.client, model)

    async def set_permission_mode(self, mode: str) -> None:
        """Have another mode decide what no rule of the policy does: one of ours, or one of the CLI's own.

        The guard judges every call as before: what is not offered, over a limit or denied by the policy stays
        refused in every mode. A read-only run stays read-only.
        """
        engine = await self._open()
        await engine.controls.set_mode(engine.client, mode)

    async def set_max_thinking_tokens(self, tokens: int | None) -> None:
        """Limit the tokens for thinking from the next model call on; 0 is none, None the CLI's own choice."""
        engine = await self._open()
        await engine.controls.set_thinking(engine.client, tokens)

    async def mcp_status(self) -> dict[str, str]:
        """The MCP servers of the run by name, each with its status; waits until the CLI has started them."""
        engine = await self._open()
        await engine.greeted.wait()
        answer = await asked("there is no status of the servers", engine.client.get_mcp_status())
        return {server["name"]: server["status"] for server in answer["mcpServers"]}

    async def mcp_set_servers(self, servers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Have these further servers from now on, and no others; the run's toolboxes stay.

        They start inside the jail, and their calls are judged like all others. Gives the names that were `added` and
        `removed`, and the `errors` of those that could not be started, by name.
        """
        engine = await self._open()
        return await engine.controls.set_servers(engine.client, servers)

    async def server_info(self) -> dict[str, Any]:
        """What the CLI said of itself when it started: commands, models, output styles, and more."""
        engine = await self._open()
        return dict(await engine.client.get_server_info() or {})

    async def rewind(self, to: int | str, *, dry_run: bool = False) -> dict[str, Any]:
        """Set the files of the workspace back to how they were when a prompt was sent, or say what that would change.

        `to` is the number of the turn (1 is the first), or the `message` of its `lifecycle.started`.
        A dry run gives `filesChanged`, `insertions` and `deletions`.
        """
        engine = await self._open()
        if isinstance(to, int):
            if not 1 <= to <= len(engine.prompts):
                raise RunError(f"there is no turn {to} to go back to", fix=f"Use 1 to {len(engine.prompts)}")
            to = engine.prompts[to - 1]
        request = {"subtype": "rewind_files", "user_message_id": to, "dry_run": dry_run}
        answer: dict[str, Any] = await asked(f"the files cannot be set back to '{to}'", ask(engine.client, request))
        return answer
