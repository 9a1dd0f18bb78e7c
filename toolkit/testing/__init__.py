"""Test tools, hooks and whole agent runs offline, without a key and without a network.

`ScriptedAPI` plays the model for the real CLI, `RealCLI` starts that CLI in a
private home, `FakeCLI` plays the CLI itself for tests that take milliseconds,
`record` and `replay` keep a real run as a file. With pytest installed the
fixtures `scripted_api`, `real_cli`, `fake_cli` and `call_tool` are simply there.

The names are loaded on first use: a script that only needs `ScriptedAPI`
imports neither mcp nor claude_agent_sdk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit._base.lazy import lazy_names

if TYPE_CHECKING:
    from toolkit.testing.cassette import record as record, replay as replay
    from toolkit.testing.fake_cli import FakeCLI as FakeCLI
    from toolkit.testing.model.request import Request as Request
    from toolkit.testing.model.scripted_api import ScriptedAPI as ScriptedAPI
    from toolkit.testing.model.turns import (
        Status as Status,
        Turn as Turn,
        text as text,
        thinking as thinking,
        tool_use as tool_use,
    )
    from toolkit.testing.real_cli import RealCLI as RealCLI

_HOMES = {
    "toolkit.testing.cassette": "record replay",
    "toolkit.testing.fake_cli": "FakeCLI",
    "toolkit.testing.model.request": "Request",
    "toolkit.testing.model.scripted_api": "ScriptedAPI",
    "toolkit.testing.model.turns": "Status Turn text thinking tool_use",
    "toolkit.testing.real_cli": "RealCLI",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
