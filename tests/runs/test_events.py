"""Events: their order, what they carry, who hears them, and where they are kept."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runs.play import play
from toolkit import Toolbox, ToolContext, ToolError, tool
from toolkit.runs import Event, Question, load_run, run, start
from toolkit.runs.outcome import KINDS, as_line, events as outcome_events
from toolkit.runs.outcome.events import piece_of
from toolkit.runs.storage import EventFile, EventLog
from toolkit.runs.turn import engine
from toolkit.runs.turn.translate import Translator
from toolkit.testing import FakeCLI, Turn, text, thinking, tool_use


@tool
def work(fail: bool = False, ctx: ToolContext | None = None) -> str:
    """Work."""
    if ctx is not None:
        ctx.progress(1, 2, "half")
    if fail:
        raise ToolError("it broke")
    return "worked"


BOX = Toolbox("box", [work])


def script() -> FakeCLI:
    usage = {"input_tokens": 10, "output_tokens": 4, "cache_creation_input_tokens": 2}
    return FakeCLI(
        Turn(
            [thinking("hm"), text("first"), tool_use("mcp__box__work") | {"id": "toolu_1"}],
            id="msg_1",
            usage=usage,
            chunk=3,
        ),
        Turn([tool_use("mcp__box__work", fail=True) | {"id": "toolu_2"}], id="msg_2", usage=usage),
        Turn([text("done")], id="msg_3", usage=usage),
    )


async def events_of(cli: FakeCLI, **options: Any) -> list[Event]:
    async with start("go", tools=[BOX], transport=cli, run_id="run-e", **options) as live:
        return [event async for event in live]


async def test_the_order_of_a_whole_run() -> None:
    events = await events_of(script())
    names = [f"{event.name} {event.id}" for event in events]
    assert names[:8] == [
        "lifecycle.started run-e",
        "assistant.started msg_1",
        "assistant.thinking msg_1",
        "assistant.block msg_1",
        "assistant.text msg_1",
        "assistant.text msg_1",
        "assistant.block msg_1",
        "tool.started toolu_1",
    ]
    assert names[-1] == "lifecycle.finished run-e"
    for before, after in [
        ("tool.started toolu_1", "tool.progress toolu_1"),
        ("tool.progress toolu_1", "tool.ended toolu_1"),
        ("usage.call msg_1", "assistant.ended msg_1"),
        ("tool.ended toolu_1", "assistant.started msg_2"),
        ("tool.ended toolu_2", "assistant.started msg_3"),
    ]:
        assert names.index(before) < names.index(after), (before, after)


async def test_every_event_is_of_a_known_kind_and_names_its_run() -> None:
    for event in await events_of(script()):
        assert event.kind in KINDS[event.stream]
        assert event.run == "run-e"
        assert Event.from_json(event.to_json()) == event


async def test_a_tool_event_carries_arguments_result_and_verdict() -> None:
    ended = {event.id: event.data for event in await events_of(script()) if event.name == "tool.ended"}
    assert (ended["toolu_1"]["ok"], ended["toolu_1"]["text"]) == (True, "worked")
    assert (ended["toolu_2"]["ok"], ended["toolu_2"]["text"]) == (False, "it broke")
    assert all(data["ms"] >= 0 and not data["denied"] and not data["interrupted"] for data in ended.values())


async def test_usage_is_counted_once_for_each_model_call() -> None:
    calls = [event.data for event in await events_of(script()) if event.name == "usage.call"]
    assert [(call["id"], call["input"], call["output"], call["cache_write"]) for call in calls] == [
        ("msg_1", 10, 4, 2),
        ("msg_2", 10, 4, 2),
        ("msg_3", 10, 4, 2),
    ]


async def test_a_replayed_run_has_the_same_keys() -> None:
    one = await run("go", tools=[BOX], transport=script(), run_id="run-a")
    two = await run("go", tools=[BOX], transport=script(), run_id="run-b")
    assert [call.key for call in one.calls] == [f"run-a/0/msg_{n}" for n in (1, 2, 3)]
    assert [call.key.partition("/")[2] for call in one.calls] == [call.key.partition("/")[2] for call in two.calls]


async def test_events_are_on_disk_as_they_happen(toolkit_home: Path) -> None:
    async with start("go", tools=[BOX], transport=script(), run_id="run-e") as live:
        file = toolkit_home / "runs" / "run-e" / "events.jsonl"
        seen = 0
        async for event in live:
            seen += 1
            lines = await asyncio.to_thread(file.read_text, encoding="utf-8")
            assert event.to_json() in lines.splitlines()[: max(seen, len(lines.splitlines()))]


async def test_every_event_carries_the_callers_trace_live_and_stored() -> None:
    async with start("go", tools=[BOX], transport=script(), trace="req-17", run_id="run-t") as live:
        events = [event async for event in live]
    assert {event.trace for event in events} == {"req-17"}
    assert list(load_run("run-t").events()) == events
    async with start("go", tools=[BOX], transport=script(), run_id="run-u") as live:
        assert {event.trace async for event in live} == {None}


async def test_a_long_tool_of_the_cli_is_told_to_go_on_but_not_while_it_waits_for_a_person(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "TICK", 0.05)
    ticks = asyncio.Event()

    async def slow(arguments: dict[str, Any]) -> str:
        await asyncio.wait_for(ticks.wait(), 60)
        return "done"

    async def approve(question: Question) -> bool:
        await asyncio.sleep(0.3)
        return True

    cli = FakeCLI([tool_use("Bash", command="make") | {"id": "toolu_1"}], [text("built")], tools={"Bash": slow})
    seen: list[Event] = []
    async with start("go", transport=cli, policy={"Bash": "ask"}, approve=approve) as live:
        async for event in live:
            seen.append(event)
            if [one.name for one in seen].count("tool.progress") == 2:
                ticks.set()
    names = [event.name for event in seen]
    progress = [event for event in seen if event.name == "tool.progress"]
    assert names.index("approval.answered") < names.index("tool.progress") < names.index("tool.ended")
    assert [event.id for event in progress[:2]] == ["toolu_1", "toolu_1"]
    assert 0 < progress[0].data["done"] < progress[1].data["done"]
    assert (progress[0].data["total"], progress[0].data["message"]) == (None, "running")


def test_progress_comes_every_few_seconds_of_the_tool_whenever_somebody_looked_last() -> None:
    now = [100.0]
    translator = Translator("run", lambda: now[0])
    translator.take_up("toolu_1", "Bash", {"command": "make"})
    translator.take_up("toolu_2", "mcp__notes__add", {})
    translator.tick(5, ())
    told: list[float] = []
    rests: list[float] = []
    for after in (104.5, 105.0, 105.5, 110.0, 123.0, 125.0):
        now[0] = after
        events, rest = translator.tick(5, ())
        told += [event.data["done"] for event in events]
        rests.append(rest)
    assert told == [5.0, 10.0, 23.0, 25.0]
    assert rests == [0.5, 5.0, 4.5, 5.0, 2.0, 5.0]
    assert translator.tick(5, {"toolu_1"}) == ([], 5)


async def test_a_slow_reader_of_a_long_log_gets_everything_from_disk(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    made = [Event("assistant", "text", float(n), "r", "m", None, {"text": str(n)}) for n in range(5000)]
    reader = log.follow()
    log.append(made[0])
    first = await anext(reader)
    for event in made[1:]:
        log.append(event)
    log.close()
    assert [first, *[event async for event in reader]] == made


@pytest.mark.parametrize("odd", ["\u2028", "\x00\x1b[31m", "\ud800", "💥" * 10])
def test_an_event_is_one_line_whatever_it_holds(odd: str) -> None:
    event = Event("assistant", "text", 0.0, "r", "m", None, {"text": odd, "path": Path("a")})
    line = event.to_json()
    line.encode()
    assert "\n" not in line
    assert json.loads(line)["data"]["path"] == "a"


async def test_a_conversation_that_could_not_be_kept_is_a_warning() -> None:
    error = {
        "type": "system",
        "subtype": "mirror_error",
        "error": "disk full",
        "key": None,
        "session_id": "",
        "uuid": "u",
    }
    events, result = await play(error, [text("done")])
    assert result.ok
    assert any("disk full" in event.data["what"] for event in events if event.name == "lifecycle.warning")


async def test_a_failed_compaction_is_closed_before_the_turn_is() -> None:
    compacting = {"type": "system", "subtype": "status", "status": "compacting", "session_id": "s", "uuid": "u"}
    events = await events_of(FakeCLI(compacting, [text("bye")]))
    names = [event.name for event in events]
    assert names.count("compaction.started") == names.count("compaction.ended") == 1
    assert names.index("compaction.ended") < names.index("lifecycle.finished")
    assert next(event for event in events if event.name == "compaction.ended").data["after"] is None


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, None, True], "ä": "ß\u2028\n", "": {}},
        {"not": [float("inf"), float("-inf")]},
        "half a pair \ud800",
        {"path": Path("/x"), "event": Event("tool", "started", 1.0, "r", "i")},
    ],
)
def test_a_line_reads_the_same_whether_or_not_the_quicker_serialiser_is_loaded(
    value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_it = as_line(value)
    monkeypatch.setattr(outcome_events, "sys", SimpleNamespace(modules={}))
    monkeypatch.setattr(outcome_events, "_to_json", None)
    without = as_line(value)
    assert json.loads(without.encode()) == json.loads(with_it.encode())
    assert "\n" not in without


def test_a_piece_of_an_answer_is_an_event_like_any_other() -> None:
    piece = piece_of("text", 1.5, "run", "message", "tool", "Hé")

    assert piece == Event("assistant", "text", 1.5, "run", "message", "tool", {"text": "Hé"})
    assert Event.from_json(piece.to_json()) == piece
    assert dataclasses.replace(piece, trace="t").trace == "t"
    with pytest.raises(dataclasses.FrozenInstanceError):
        piece.kind = "thinking"  # type: ignore[misc]


async def test_an_event_that_cannot_be_written_takes_no_piece_with_it(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    piece = piece_of("text", 1.0, "run", "message", None, "kept")
    log.append(piece)

    with pytest.raises(ValueError, match="serialize"):
        log.append(Event("tool", "started", 2.0, "run", "call", None, {"arguments": {"odd": object()}}))
    log.close()

    assert list(EventFile(log.path)) == [piece]
