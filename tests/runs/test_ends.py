"""How runs end, seen by the caller: code, message, partial text and usage. Played by a FakeCLI."""

from __future__ import annotations

import asyncio
import dataclasses
import pickle
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from tests.runs.play import SOON, Generous
from toolkit import Toolbox, tool
from toolkit.errors import RunError
from toolkit.runs import Limits, Prompt, RunFailedError, RunResult, run, run_sync, start
from toolkit.testing import FakeCLI, Status, Turn, text, tool_use


@tool
def add(title: str) -> str:
    """Add a note."""
    return f"added {title!r}"


BOX = Toolbox("notes", [add])


async def test_a_run_that_is_ok_says_so_and_what_it_used() -> None:
    cli = FakeCLI(
        Turn(
            [text("filing"), tool_use("mcp__notes__add", title="hi")],
            id="msg_1",
            usage={"input_tokens": 100, "output_tokens": 7, "cache_read_input_tokens": 3},
        ),
        Turn([text("done")], id="msg_2", usage={"input_tokens": 50, "output_tokens": 2}),
    )
    result = await run("go", tools=[BOX], transport=cli, run_id="run-1")

    assert (result.ok, result.code, result.message, result.text) == (True, "ok", "The run finished.", "done")
    assert [(call.key, call.input, call.output, call.cache_read) for call in result.calls] == [
        ("run-1/0/msg_1", 100, 7, 3),
        ("run-1/0/msg_2", 50, 2, 0),
    ]
    assert result.total.total == 162
    assert result.unattributed.total == 0
    assert [(use.name, use.ok) for use in result.tools] == [("mcp__notes__add", True)]
    assert cli.tool_results() == ["added 'hi'"]
    assert result.raise_for_status() is result


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (Status(429), "throttled"),
        (Status(529), "throttled"),
        (Status(401), "auth"),
        (Status(403), "auth"),
        (Status(500), "api_error"),
        (Status(404), "api_error"),
        (Status(413), "image_size"),
    ],
    ids=lambda value: str(getattr(value, "code", value)),
)
async def test_an_api_error_is_never_a_success(step: Status, code: str) -> None:
    result = await run("go", transport=FakeCLI(step))
    assert (result.ok, result.code) == (False, code)
    assert result.text == ""
    assert "scripted error" not in result.message
    assert result.debug["result"]
    assert result.debug["result"] not in str(result.message)


async def test_what_was_said_before_a_crash_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    cli = FakeCLI(
        Turn([text("half of the"), text("never sent")], chunk=100, usage={"input_tokens": 9}),
        dies_after=8,
        exit_code=-9,
    )
    result = await run("go", transport=cli)
    assert (result.code, result.text) == ("crashed", "half of the")
    assert [call.input for call in result.calls] == [9]
    assert "exit code" in result.debug["detail"]
    assert "exit code" not in result.message


async def test_the_turn_limit_is_its_own_code() -> None:
    cli = FakeCLI([tool_use("mcp__notes__add", title="a")], [text("never")], strict=False)
    result = await run("go", tools=[BOX], limits=Limits(turns=1), transport=cli)
    assert result.code == "turn_limit"


async def test_a_deadline_ends_a_run_that_calls_no_tools_and_keeps_its_text() -> None:
    cli = FakeCLI(Turn([text("thinking about it"), text("more")], stall_after=1, usage={"input_tokens": 4}))
    result = await asyncio.wait_for(run("go", limits=Limits(seconds=SOON), transport=cli), 60)
    assert (result.ok, result.code, result.text) == (False, "deadline", "thinking about it")
    assert [call.input for call in result.calls] == [4]


async def test_a_deadline_that_passes_while_a_tool_runs_ends_the_run() -> None:
    @tool
    async def hang() -> str:
        await asyncio.sleep(60)
        return "never"

    cli = FakeCLI([tool_use("mcp__slow__hang")], [text("never")], strict=False)
    box = Toolbox("slow", [hang])
    result = await asyncio.wait_for(run("go", tools=[box], limits=Limits(seconds=SOON), transport=cli), 60)
    assert result.code == "deadline"
    assert [(use.name, use.ok) for use in result.tools] == [("mcp__slow__hang", False)]


async def test_a_used_up_token_budget_stops_at_the_next_tool() -> None:
    ran: list[str] = []

    @tool
    def note(title: str) -> str:
        ran.append(title)
        return "ok"

    cli = FakeCLI(
        Turn([tool_use("mcp__n__note", title="first")], usage={"input_tokens": 80, "output_tokens": 30}),
        Turn([tool_use("mcp__n__note", title="second")], usage={"input_tokens": 80, "output_tokens": 30}),
        [text("never")],
        strict=False,
    )
    result = await run("go", tools=[Toolbox("n", [note])], limits=Limits(tokens=150), transport=cli)
    assert (result.ok, result.code) == (False, "budget")
    assert ran == ["first"]
    assert [denied.reason for denied in result.denied] == ["Token budget exhausted"]


async def test_a_tool_that_was_not_offered_is_refused_and_the_run_goes_on() -> None:
    cli = Generous([tool_use("Bash", command="id")], [text("fine")], tools={"Bash": lambda **_: "leak"})
    result = await run("go", native=["Read"], transport=cli)
    assert (result.code, result.text) == ("ok", "fine")
    assert [(denied.name, denied.reason) for denied in result.denied] == [("Bash", "Bash is not offered in this run")]
    assert "leak" not in str(cli.tool_results())


async def test_another_permission_mode_is_refused_before_any_tool_runs() -> None:
    class Downgraded(FakeCLI):
        def take_options(self, options: Any) -> None:
            options.permission_mode = "default"
            super().take_options(options)

    ran: list[str] = []

    @tool
    def note(title: str) -> str:
        ran.append(title)
        return "ok"

    cli = Downgraded([tool_use("mcp__n__note", title="x")], [text("never")], strict=False)
    result = await run("go", tools=[Toolbox("n", [note])], transport=cli)
    assert (result.ok, result.code, ran) == (False, "unconfined", [])


@dataclass
class Review:
    verdict: str
    score: int


class Model(BaseModel):
    name: str


class Row(TypedDict):
    name: str


EITHER = {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}


@pytest.mark.parametrize(
    ("wanted", "sent", "output"),
    [
        (Review, {"verdict": "good", "score": 3}, Review("good", 3)),
        (Model, {"name": "n"}, Model(name="n")),
        (Row, {"name": "n"}, {"name": "n"}),
        (list[int], {"result": [1, 2]}, [1, 2]),
        (int, {"result": 5}, 5),
        (str | None, {"result": None}, None),
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1}, {"a": 1}),
        (EITHER, {"result": {"a": 1}}, {"a": 1}),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_structured_output_arrives_as_the_type_asked_for(wanted: Any, sent: Any, output: Any) -> None:
    cli = FakeCLI([tool_use("StructuredOutput", sent)])
    result = await run("go", output=wanted, transport=cli)
    assert (result.code, result.output) == ("ok", output)
    assert type(result.output) is type(output)


async def test_output_that_never_comes_is_bad_output_with_what_the_model_said() -> None:
    result = await run("go", output=Review, transport=FakeCLI([text("I'd rather not")], [text("still not")]))
    assert (result.ok, result.code, result.output) == (False, "bad_output", None)
    assert result.debug["said"] == "still not"


async def test_an_interrupt_ends_the_turn_and_the_conversation_goes_on() -> None:
    cli = FakeCLI(Turn([text("one"), text("two")], stall_after=1), [text("back again")])
    async with start("go", transport=cli) as live:
        async for event in live:
            if event.name == "assistant.block":
                await live.interrupt()
                break
        first = await asyncio.wait_for(live.result(), 60)
        second = await asyncio.wait_for(live.send("go on"), 60)
    assert (first.code, first.text) == ("aborted", "one")
    assert (second.code, second.text) == ("ok", "back again")


async def test_events_can_be_read_turn_by_turn() -> None:
    cli = FakeCLI([text("one")], [text("two")])
    async with start("first", transport=cli) as live, asyncio.timeout(60):
        first = [event async for event in live]
        sent = asyncio.ensure_future(live.send("second"))
        second = [event async for event in live]
        await sent
    for turn, events in enumerate((first, second), 1):
        assert [(events[0].name, events[0].data["turn"]), (events[-1].name, events[-1].data["turn"])] == [
            ("lifecycle.started", turn),
            ("lifecycle.finished", turn),
        ]
    assert [event.data["text"] for event in (*first, *second) if event.name == "assistant.block"] == ["one", "two"]


async def test_each_turn_has_its_own_result_and_usage() -> None:
    cli = FakeCLI(
        Turn([text("one")], usage={"input_tokens": 10, "output_tokens": 1}),
        Turn([text("two")], usage={"input_tokens": 20, "output_tokens": 2}),
    )
    async with start("first", transport=cli) as live:
        one = await live.result()
        two = await live.send("second")
        with pytest.raises(RunError, match="the prompt is empty"):
            await live.send(" ")
    assert [(r.text, r.total.input, r.total.output, len(r.calls)) for r in (one, two)] == [
        ("one", 10, 1, 1),
        ("two", 20, 2, 1),
    ]
    with pytest.raises(RunError, match="is over"):
        await live.send("third")


async def test_the_result_comes_even_if_nobody_reads_the_events() -> None:
    async with start("go", transport=FakeCLI([text("x" * 5000)])) as live:
        result = await asyncio.wait_for(live.result(), 60)
    assert result.ok


async def test_run_sync_works_inside_and_outside_a_running_loop() -> None:
    inside = run_sync("go", transport=FakeCLI([text("in")]))
    outside = await asyncio.to_thread(lambda: run_sync("go", transport=FakeCLI([text("out")])))
    assert (inside.text, outside.text) == ("in", "out")


async def test_a_prompt_is_rendered_from_its_sections_with_the_tools_listed() -> None:
    class Place:
        def render(self) -> str:
            return "You work in a copy."

    cli = FakeCLI([text("ok")])
    await run(Prompt(["Do it.", Place()]), tools=[BOX], transport=cli)
    prompt = "Do it.\n\nYou work in a copy.\n\nTools of this run:\n- mcp__notes__add: Add a note."
    assert cli.requests[-1].contains(prompt)


async def test_hooks_before_and_after_are_called_once_also_on_failure() -> None:
    seen: list[Any] = []

    async def before(spec: Any) -> str:
        seen.append(spec.run_id)
        return "Remember: be kind."

    def after(result: RunResult[Any]) -> None:
        seen.append(result.code)

    cli = FakeCLI(Status(500))
    await run("go", transport=cli, before_run=before, after_run=after, run_id="run-h")
    assert seen == ["run-h", "api_error"]
    assert cli.requests[-1].contains("Remember: be kind.\n\ngo")


async def test_results_can_be_raised_stored_and_pickled() -> None:
    result = dataclasses.replace(await run("go", transport=FakeCLI(Status(429))), changes=None)
    with pytest.raises(RunFailedError) as caught:
        result.raise_for_status()
    assert caught.value.code == "throttled"
    again = pickle.loads(pickle.dumps(result))
    assert again == result
    assert pickle.loads(pickle.dumps(caught.value)).result == result
    assert RunResult.from_data(result.to_data()) == result


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": "  "}, "the prompt is empty"),
        ({"seed": 1}, "a run has no option 'seed'"),
        ({"presence_penalty": 1}, "a run has no option 'presence_penalty'"),
        ({"modell": "x"}, "did you mean 'model'"),
        ({"output": type(BOX)}, "has no JSON Schema"),
        ({"tools": [BOX, BOX]}, "two servers are called 'notes'"),
        ({"tools": [BOX], "servers": {"notes": {"command": "x"}}}, "two servers are called 'notes'"),
    ],
)
async def test_a_run_that_cannot_be_is_refused_before_anything_starts(
    options: dict[str, Any], message: str, toolkit_home: Any
) -> None:
    prompt = options.pop("prompt", "go")
    with pytest.raises(RunError, match=message):
        await run(prompt, transport=FakeCLI([text("x")], strict=False), **options)
    assert not toolkit_home.exists()


@pytest.mark.parametrize(
    "limit", [{"seconds": -1}, {"turns": 0}, {"tokens": 1.5}, {"usd": float("nan")}, {"turns": True}]
)
def test_a_limit_below_or_beside_zero_is_refused(limit: dict[str, Any]) -> None:
    with pytest.raises(RunError, match="a limit is a"):
        Limits(**limit)


async def test_no_key_and_no_address_is_said_with_the_variable_and_the_demo() -> None:
    with pytest.raises(RunError) as caught:
        await run("go")
    assert str(caught.value) == (
        "there is no key for the model API\n"
        "  ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, CLAUDE_CODE_OAUTH_TOKEN and ANTHROPIC_BASE_URL are not set\n"
        "  Set ANTHROPIC_API_KEY, or try it without one: toolkit demo"
    )
