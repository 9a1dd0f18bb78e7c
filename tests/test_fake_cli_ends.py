"""How a fake CLI ends: well, with an error, or killed at any frame; and what becomes of a bad script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    CLIConnectionError,
    ProcessError,
    ResultError,
    TextBlock,
)

from tests.fake_notes import ADD, DONE, collect, messages, notes
from toolkit.errors import TestingError
from toolkit.testing import FakeCLI, Status, Turn, text, tool_use


async def _frames_of_a_run() -> int:
    cli = FakeCLI(ADD, DONE)
    await messages(cli, mcp_servers=notes())
    return len(cli.sent)


@pytest.mark.parametrize("exit_code", [-9, 143, 1])
async def test_it_can_die_at_any_frame_and_the_sdk_ends_with_its_exit_code(exit_code: int) -> None:
    total = await _frames_of_a_run()
    assert total > 10
    for frames in range(total - 2):  # up to the result; what comes after it is not an accident
        cli = FakeCLI(ADD, DONE, dies_after=frames, exit_code=exit_code, strict=False)
        with pytest.raises((ProcessError, CLIConnectionError)) as caught:
            await messages(cli, mcp_servers=notes())
        assert str(exit_code) in str(caught.value)
        assert len(cli.sent) == frames


async def test_a_step_can_kill_it_in_the_middle_and_what_was_said_is_kept(fake_cli: Callable[..., FakeCLI]) -> None:
    async def killed(cli: FakeCLI) -> None:
        cli.die(-9)

    heard: list[Any] = []
    with pytest.raises(ProcessError) as caught:
        await collect(fake_cli([text("partial")], killed).query("go"), heard)
    assert caught.value.exit_code == -9
    assert [message.content for message in heard if isinstance(message, AssistantMessage)] == [[TextBlock("partial")]]


@pytest.mark.parametrize(
    ("steps", "options", "subtype", "reason"),
    [
        ([ADD], {"max_turns": 1}, "error_max_turns", "max_turns"),
        (
            [Turn(DONE, usage={"input_tokens": 10**6})],
            {"max_budget_usd": 0.1},
            "error_max_budget_usd",
            "budget_exhausted",
        ),
        (
            [[tool_use("StructuredOutput", n="x")]] * 5,
            {"output_format": {"type": "json_schema", "schema": {"properties": {"n": {"type": "integer"}}}}},
            "error_max_structured_output_retries",
            "structured_output_retry_exhausted",
        ),
        ([Status(429)], {}, "success", "api_error"),
        ([Status(413)], {}, "success", "image_error"),
    ],
)
async def test_every_bad_end_is_a_result_and_then_an_error(
    fake_cli: Callable[..., FakeCLI], steps: list[Any], options: dict[str, Any], subtype: str, reason: str
) -> None:
    heard: list[Any] = []
    with pytest.raises(ResultError) as caught:
        await collect(fake_cli(*steps).query("go", mcp_servers=notes(), **options), heard)
    assert (caught.value.subtype, caught.value.terminal_reason) == (subtype, reason)
    assert heard[-1].is_error


async def test_structured_output_is_checked_and_handed_over(fake_cli: Callable[..., FakeCLI]) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    cli = fake_cli([tool_use("StructuredOutput")], [tool_use("StructuredOutput", n=3)])
    heard = await messages(cli, output_format={"type": "json_schema", "schema": schema})
    assert heard[-1].structured_output == {"n": 3}
    assert cli.tool_results() == ["Output does not match required schema: root: must have required property 'n'"]


async def test_a_connection_that_is_cut_is_asked_again(fake_cli: Callable[..., FakeCLI]) -> None:
    cli = fake_cli(Turn([text("lost"), text("lost too")], cut_after=1), DONE)
    heard = await messages(cli)
    assert [message.content for message in heard if isinstance(message, AssistantMessage)] == [[TextBlock("done")]]
    assert heard[-1].usage["input_tokens"] == 10


async def test_a_script_that_ran_out_is_the_tests_failure() -> None:
    with pytest.raises(TestingError, match="the script ran out: model call 2 has no turn") as caught:
        async with FakeCLI(ADD) as cli:
            await messages(cli, mcp_servers=notes())
    assert isinstance(caught.value.__cause__, ResultError)


@pytest.mark.parametrize("step", ["text", 3, {"no": "type"}, [{"type": "tool_use"}]])
def test_a_step_that_is_no_step_is_refused(step: Any) -> None:
    with pytest.raises(TestingError) as caught:
        FakeCLI(step)
    assert caught.value.fix


async def test_a_broken_step_reaches_the_test_as_it_is(fake_cli: Callable[..., FakeCLI]) -> None:
    async def broken(cli: FakeCLI) -> None:
        raise ZeroDivisionError("in the step")

    with pytest.raises(ZeroDivisionError, match="in the step"):
        await messages(fake_cli(broken, DONE, strict=False))
