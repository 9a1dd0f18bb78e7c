"""Let an agent work on a copy of a folder, look at what it changed, and take it back."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from toolkit import Limits, run
from toolkit.workspace import HostMount, WorkspaceSection

HERE = Path(__file__).parent


@dataclass
class Review:
    """What the agent reports back."""

    cause: str
    fixed: bool


async def main() -> None:
    shop = HostMount(HERE / "shop", exclude_glob=("__pycache__/",), max_bytes=1_000_000)
    with WorkspaceSection([shop], allowed_host_roots=[HERE]) as workspace:
        result = await run(
            "Members pay too little in prices.py. Find out why and fix it.",
            workspace=workspace,
            limits=Limits(seconds=600, tokens=200_000, usd=2),
            output=Review,
        )
        print(result.code, result.output)
        print(f"{result.total.total} tokens, ${result.known_cost:.4f}, {len(result.tools)} tool calls")
        print(workspace.changes().summary())
        if result.ok:
            workspace.apply()


if __name__ == "__main__":
    asyncio.run(main())
