"""A tool that is served over stdio to the real CLI in a jail knows the span of its call."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from opentelemetry.trace import get_current_span

from tests.telemetry.conftest import Collected
from toolkit.runs import run
from toolkit.testing import ScriptedAPI, text, tool_use
from toolkit_servers.tracing import follow_call

ROOT = Path(__file__).parents[2]
SERVER = '''
from opentelemetry.trace import get_current_span
from toolkit import Toolbox, tool


@tool
async def whose() -> str:
    """Say below which span this runs."""
    parent = get_current_span().get_span_context()
    return f"{parent.trace_id:032x} {parent.span_id:016x}"


box = Toolbox("asked", [whose])
'''


async def test_a_tool_of_a_stdio_server_runs_below_the_span_of_its_call(collected: Collected, tmp_path: Path) -> None:
    program = tmp_path / "asked.py"
    program.write_text(SERVER, encoding="utf-8")
    server = {"command": sys.executable, "args": ["-m", "toolkit", "serve", str(program)]}
    shown = {ROOT / "toolkit", ROOT / "servers", ROOT / "workspace", program, Path(sys.prefix), Path(sys.base_prefix)}
    with ScriptedAPI([tool_use("mcp__asked__whose")], [text("done")]) as api:
        result = await asyncio.wait_for(
            run(
                "go",
                api_url=api.url,
                api_key="none",
                servers={"asked": server},
                readable=sorted(shown),
                telemetry=collected.telemetry,
            ),
            90,
        )
    assert result.code == "ok", result.debug
    call = collected.spans()["execute_tool mcp__asked__whose"].context
    assert call is not None
    assert api.tool_results() == [f"{call.trace_id:032x} {call.span_id:016x}"]


@pytest.mark.parametrize(
    "wrong", ["", "00-zz-1-01", "ff-" + "1" * 32 + "-" + "2" * 16 + "-01", "00-" + "0" * 32 + "-" + "2" * 16 + "-01"]
)
async def test_a_parent_that_is_none_is_left_alone(wrong: str) -> None:
    follow_call(wrong, None, "toolu_1")
    assert not get_current_span().get_span_context().is_valid


async def test_what_a_client_sends_with_a_call_is_its_parent() -> None:
    follow_call("00-" + "1" * 32 + "-" + "2" * 16 + "-01", None, "toolu_1")
    assert f"{get_current_span().get_span_context().span_id:x}" == "2" * 16
