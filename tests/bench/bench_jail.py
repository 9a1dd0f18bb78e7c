"""What the jail costs: a whole run of the real CLI in it, against the same run without; and the check by itself.

The same on both sides: the tools offered, and for the first two rows a home that has seen a run before. What the second
row has besides the jail is the check, here before the CLI is started, and the start of the CLI's own sandbox. The third
is `run` as people use it: all of that, with the check beside the CLI's start, and what a run does besides, which is to
keep its events and its result.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from tests.bench._common import Row, interleave
from toolkit.runs import run
from toolkit.sandbox import TOOLS, check, confine, find_cli
from toolkit.sandbox.jail import proof
from toolkit.testing import ScriptedAPI, text

ROUNDS = 31
_QUIET = {"CLAUDE_CODE_MAX_RETRIES": "0"}


def main() -> Iterator[Row]:
    with ScriptedAPI(otherwise=[text("done")], strict=False) as api, tempfile.TemporaryDirectory() as folder:
        workspace, home, plain_home = (Path(folder, name) for name in ("workspace", "home", "plain-home"))
        for path in (workspace, home, plain_home):
            path.mkdir(mode=0o700)

        def plain() -> None:
            asyncio.run(_plain(workspace, api.url, plain_home))

        def jailed() -> None:
            asyncio.run(_confined(workspace, api.url, home, sandbox=False))

        def proven() -> None:
            proof._PASSED.clear()
            asyncio.run(_confined(workspace, api.url, home, sandbox=True))

        yield interleave(jailed, plain, rounds=ROUNDS).row("jail, a whole run / plain CLI", 1.1)
        yield interleave(proven, plain, rounds=ROUNDS).row("jail, its check and the nested sandbox / plain CLI", 1.25)

        def ran() -> None:
            proof._PASSED.clear()
            options: dict[str, Any] = {
                "api_url": api.url,
                "api_key": "made-up",
                "env": _QUIET,
                "home": Path(folder, "runs"),
            }
            assert asyncio.run(run("Go.", **options)).ok

        fresh = count()

        def plain_and_new() -> None:
            new = Path(folder, f"new-{next(fresh)}")
            new.mkdir(mode=0o700)
            asyncio.run(_plain(workspace, api.url, new))

        both = interleave(ran, plain_and_new, rounds=ROUNDS)
        yield both.row("run, with its jail, check and nested sandbox / plain CLI, each in a new home", 1.25)

        def checked() -> None:
            proof._PASSED.clear()
            assert check(workspace).ok

        alone = interleave(checked, lambda: None, rounds=ROUNDS)
        yield Row("toolkit sandbox check, seconds", sorted(alone.ours)[ROUNDS // 2], None, 1.5, "s")


async def _plain(workspace: Path, url: str, home: Path) -> None:
    private = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"), "IS_SANDBOX": "1"}
    calm = {"DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", **_QUIET}
    options = ClaudeAgentOptions(
        cli_path=find_cli(),
        cwd=workspace,
        env={**private, **calm, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "made-up"},
        permission_mode="bypassPermissions",
        setting_sources=[],
        strict_mcp_config=True,
        tools=list(TOOLS),
    )
    await _run(options)


async def _confined(workspace: Path, url: str, home: Path, *, sandbox: bool) -> None:
    async with confine(workspace, api_url=url, api_key="made-up", env=_QUIET, home=home) as jail:
        options = jail.options()
        if not sandbox:
            options["settings"] = "{}"
        await _run(ClaudeAgentOptions(**options))


async def _run(options: ClaudeAgentOptions) -> None:
    async for message in query(prompt="Go.", options=options):
        if isinstance(message, ResultMessage):
            assert message.result == "done"
