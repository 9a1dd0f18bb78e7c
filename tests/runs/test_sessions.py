"""Conversations through the real CLI: what the model gets on the wire holds each message exactly once."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.toolset import PIXEL
from toolkit import Image
from toolkit.errors import RunError
from toolkit.runs import (
    Conversation,
    InPlace,
    Limits,
    OptionError,
    RunResult,
    SessionId,
    SqliteSessionStore,
    fingerprint,
    list_runs,
    load_run,
    remove_older_than,
    run,
    start,
)
from toolkit.runs.sessions.transcripts import one_at_a_time
from toolkit.testing import FakeCLI, ScriptedAPI, Status, Turn, text, tool_use


@pytest.fixture
def api() -> Iterator[ScriptedAPI]:
    """Answers every prompt with `answer N`, whatever it is; `fail` in a prompt is an API error."""
    count = iter(range(1, 100))
    with ScriptedAPI(
        Status(500, when="please fail"), otherwise=lambda request: [text(f"answer {next(count)}")], strict=False
    ) as served:
        yield served


def said(api: ScriptedAPI) -> str:
    """Everything the model was sent in its last request, as one text."""
    return json.dumps([request["messages"] for request in api.requests if request.get("tools")][-1], ensure_ascii=False)


async def ask(api: ScriptedAPI, prompt: str, **options: Any) -> RunResult[Any]:
    return await asyncio.wait_for(run(prompt, api_url=api.url, api_key="fake", **options), 60)


def once(api: ScriptedAPI, *texts: str) -> bool:
    return all(said(api).count(expected) == 1 for expected in texts)


async def test_a_resumed_session_has_seen_each_message_once_and_keeps_its_id(api: ScriptedAPI) -> None:
    first = await ask(api, "the word is plum")
    second = await ask(api, "what was the word", resume=first.session)
    assert (first.code, second.code, second.session) == ("ok", "ok", first.session)
    assert once(api, "the word is plum", "answer 1", "what was the word")


async def test_a_fork_at_a_message_that_is_not_there_blames_the_message(api: ScriptedAPI) -> None:
    first = await ask(api, "the word is plum")
    with pytest.raises(OptionError, match=r"at='msg_lost': session .* has no such message") as caught:
        await ask(api, "go on", resume=first.session, fork=True, at="msg_lost")
    assert caught.value.option == "at"
    lost = await ask(api, "go on", resume="12345678-1234-5678-1234-567812345678", fork=True, at="msg_lost")
    assert lost.code == "no_session"


async def test_a_fork_leaves_the_session_as_it_was_and_ends_its_history_where_it_was_told_to(api: ScriptedAPI) -> None:
    first = await ask(api, "the word is plum")
    second = await ask(api, "and the colour is blue", resume=first.session)
    forked = await ask(api, "what do you know", resume=first.session, fork=True, at=first.calls[0].id)
    assert forked.session != second.session == first.session
    assert once(api, "the word is plum", "answer 1", "what do you know")
    assert "blue" not in said(api)
    await ask(api, "and now", resume=first.session)
    assert once(api, "the word is plum", "blue", "and now")
    assert "what do you know" not in said(api)


async def test_a_conversation_sends_only_what_is_new_and_survives_a_restart(
    api: ScriptedAPI, toolkit_home: Path
) -> None:
    options: Any = {"api_url": api.url, "api_key": "fake"}
    conversation = Conversation(**options)
    one = await conversation.send("the word is plum")
    two = await conversation.send("the colour is blue")
    assert one.session == two.session
    assert once(api, "the word is plum", "answer 1", "the colour is blue")

    code = (
        "import asyncio, json, sys\nfrom toolkit.runs import Conversation\n"
        "c = Conversation(json.loads(sys.argv[1]), api_url=sys.argv[2], api_key='fake')\n"
        "print((await_ := asyncio.run(c.send('what do you know'))).session)"
    )
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", code, json.dumps(conversation.messages), api.url],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == one.session
    assert once(api, "the word is plum", "answer 1", "the colour is blue", "answer 2", "what do you know")


async def test_an_edited_history_starts_a_new_session_with_each_message_once(api: ScriptedAPI) -> None:
    options: Any = {"api_url": api.url, "api_key": "fake"}
    conversation = Conversation(**options)
    one = await conversation.send("the word is plum")
    edited = Conversation([{"role": "user", "content": "the word is pear"}, *conversation.messages[1:]], **options)
    two = await edited.send("what was the word")
    assert two.ok
    assert two.session != one.session
    assert once(api, "the word is pear", "answer 1", "what was the word")
    assert "plum" not in said(api)


async def test_a_failed_turn_leaves_the_conversation_where_it_was(api: ScriptedAPI) -> None:
    conversation = Conversation(api_url=api.url, api_key="fake")
    one = await conversation.send("the word is plum")
    failed = await conversation.send("please fail")
    assert (failed.ok, len(conversation.messages)) == (False, 2)
    again = await conversation.send("what was the word")
    assert again.ok
    assert once(api, "the word is plum", "answer 1", "what was the word")
    assert one.session is not None


async def test_a_session_can_live_in_sqlite_too(api: ScriptedAPI, tmp_path: Path) -> None:
    store = SqliteSessionStore(tmp_path / "sessions.db")
    first = await ask(api, "the word is plum", store=store)
    await ask(api, "what was the word", store=store, resume=first.session)
    assert once(api, "the word is plum", "answer 1", "what was the word")


async def test_a_missing_session_says_so_and_starts_nothing(api: ScriptedAPI) -> None:
    result = await ask(api, "go", resume="12345678-1234-5678-1234-567812345678")
    assert (result.code, len(api.requests)) == ("no_session", 0)
    assert "Start a new run" in result.debug["detail"]


async def test_several_turns_share_a_process_a_model_switch_and_a_rewind(api: ScriptedAPI, tmp_path: Path) -> None:
    with ScriptedAPI(
        [tool_use("Write", file_path=str(tmp_path / "ws" / "a.txt"), content="first")],
        [text("written")],
        [text("second")],
    ) as scripted:
        (tmp_path / "ws").mkdir()
        async with start("write", workspace=InPlace(tmp_path / "ws"), api_url=scripted.url, api_key="fake") as live:
            first = await asyncio.wait_for(live.result(), 60)
            assert (tmp_path / "ws" / "a.txt").read_text(encoding="utf-8") == "first"
            await live.set_model("claude-haiku-4-5")
            second = await asyncio.wait_for(live.send("again"), 60)
            await asyncio.wait_for(live.rewind(1), 60)
            assert not (tmp_path / "ws" / "a.txt").exists()
    assert (first.text, second.text, first.session) == ("written", "second", second.session)
    assert (len(first.calls), len(second.calls)) == (2, 1)
    assert second.calls[0].model == "claude-haiku-4-5"


async def test_two_sends_to_one_session_run_one_after_the_other(tmp_path: Path) -> None:
    order: list[str] = []

    async def use(name: str) -> None:
        async with one_at_a_time("s", tmp_path):
            order.append(f"{name} in")
            await asyncio.sleep(0)
            order.append(f"{name} out")

    await asyncio.wait_for(asyncio.gather(use("a"), use("b")), 60)
    assert order in (["a in", "a out", "b in", "b out"], ["b in", "b out", "a in", "a out"])


async def test_a_dead_process_lets_go_of_the_session(tmp_path: Path) -> None:
    code = (
        "import asyncio, os, sys\nfrom toolkit.runs.sessions.transcripts import one_at_a_time\n"
        "async def main():\n async with one_at_a_time('s', sys.argv[1]):\n  os.kill(os.getpid(), 9)\nasyncio.run(main())"
    )
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code, str(tmp_path)], timeout=60, check=False)
    async with asyncio.timeout(60), one_at_a_time("s", tmp_path):
        pass


def test_the_fingerprint_is_of_the_content_alone() -> None:
    plain = [{"role": "user", "content": "hi"}]
    assert fingerprint(plain) == fingerprint([{"content": [{"text": "hi", "type": "text"}], "role": "user"}])
    assert fingerprint(plain) != fingerprint([{"role": "user", "content": "hi "}])
    assert fingerprint(plain) != fingerprint([{"role": "assistant", "content": "hi"}])
    assert fingerprint([{"role": "user", "content": "half \ud83d"}]) != fingerprint(plain)


UNREADABLE = "message 1 has no content that can be read"


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "the history is empty"),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "is not from the user"),
        ([{"role": "system", "content": "a"}], "message 1 has the role 'system'"),
        ([{"role": "user", "content": ""}], "message 1 is empty"),
        ([{"content": "a"}], "message 1 has the role None"),
        *(
            (
                [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": content}]}],
                UNREADABLE,
            )
            for content in (5, ["a"], [["a"]], [{"text": "a"}])
        ),
    ],
)
async def test_a_history_that_cannot_be_answered_is_refused(messages: Any, message: str) -> None:
    with pytest.raises(RunError, match=message):
        await Conversation(messages, transport=FakeCLI([text("x")], strict=False)).reply()


def test_a_run_id_is_no_session_id() -> None:
    with pytest.raises(RunError, match="'run-1' is no session id"):
        SessionId("run-1")


@pytest.mark.parametrize("options", [{"fork": True}, {"at": "x"}, {"resume": "a", "at": "x"}])
async def test_a_fork_needs_a_session(options: dict[str, Any]) -> None:
    with pytest.raises(RunError):
        await run("go", **options)


@pytest.mark.parametrize("how", ["an error of the API", "a deadline in a tool"])
async def test_what_a_failed_turn_left_in_the_session_is_not_sent_again(how: str) -> None:
    steps: dict[str, Any] = {
        "an error of the API": Status(500),
        "a deadline in a tool": [tool_use("Bash", command="tail -f /dev/null")],
    }
    with ScriptedAPI(
        [tool_use("StructuredOutput", result="answer 1")], steps[how], [tool_use("StructuredOutput", result="answer 2")]
    ) as api:
        options: dict[str, Any] = {"api_url": api.url, "api_key": "fake"}
        conversation = Conversation(output=str, **options)
        assert (await conversation.send("the word is plum")).ok
        hurried = Conversation(conversation.messages, limits=Limits(seconds=4), **options)
        assert not (await hurried.send("what was the word")).ok
        assert (await conversation.send("what was the word")).ok
        assert once(api, "the word is plum", "what was the word")
        assert "interrupted" not in said(api)


async def test_a_conversation_whose_session_is_lost_begins_a_new_one(api: ScriptedAPI, tmp_path: Path) -> None:
    options: dict[str, Any] = {"api_url": api.url, "api_key": "fake"}
    conversation = Conversation(**options)
    one = await conversation.send("the word is plum")
    elsewhere = Conversation(conversation.messages, store=SqliteSessionStore(tmp_path / "other.db"), **options)
    two = await elsewhere.send("what was the word")
    assert (two.code, two.session != one.session) == ("ok", True)
    assert once(api, "the word is plum", "answer 1", "what was the word")


LAUNCHER = """
import asyncio, sys
from toolkit.runs import start
from toolkit.runs.sessions.transcripts import default_store

async def main():
    async with start("the word is plum", api_url=sys.argv[1]) as live:
        async for event in live:
            if event.name == "tool.started":
                while not await default_store().list_sessions("toolkit"):
                    await asyncio.sleep(0.02)
                print("kept", flush=True)

asyncio.run(main())
"""


async def test_a_conversation_goes_on_after_its_launcher_was_killed_in_the_first_turn(toolkit_home: Path) -> None:
    with ScriptedAPI(
        [text("looking"), tool_use("Bash", command="tail -f /dev/null")], otherwise=[text("plum")], strict=False
    ) as api:
        launcher = await asyncio.create_subprocess_exec(
            sys.executable, "-c", LAUNCHER, api.url, stdout=asyncio.subprocess.PIPE
        )
        assert launcher.stdout is not None
        try:
            assert await asyncio.wait_for(launcher.stdout.readline(), 60) == b"kept\n"
        finally:
            launcher.kill()
            await launcher.wait()
        killed = list_runs()[0].result()
        assert killed.code == "crashed"
        result = await ask(api, "what was the word", resume=killed.session)
        assert (result.code, result.session) == ("ok", killed.session)
        assert once(api, "the word is plum", "what was the word")


async def test_a_live_run_keeps_its_conversation_to_itself(api: ScriptedAPI) -> None:
    async with start("the word is plum", api_url=api.url, api_key="fake") as live, asyncio.timeout(60):
        session = (await live.result()).session
        other = asyncio.create_task(ask(api, "and from elsewhere", resume=session))
        assert (await live.send("the colour is blue")).ok
        assert not other.done()
    assert (await other).ok
    assert once(api, "the word is plum", "the colour is blue", "and from elsewhere")


@pytest.mark.parametrize("content", [5, ["text"], [{"text": "no type"}], [{"type": "text"}], [{"type": "image"}]])
async def test_content_that_cannot_be_sent_is_refused(content: Any) -> None:
    with pytest.raises(RunError):
        await Conversation([{"role": "user", "content": content}], transport=FakeCLI([text("never")])).reply()


@pytest.mark.parametrize("said", [None, 5, {"text": "x"}, [], [5]])
async def test_what_is_no_message_is_refused_in_words(said: Any) -> None:
    conversation = Conversation(transport=FakeCLI([text("never")]))
    with pytest.raises(RunError, match="prompt"):
        await conversation.send(said)
    assert conversation.messages == []


def test_a_conversation_finds_its_session_itself() -> None:
    with pytest.raises(RunError, match="no option 'resume'"):
        Conversation(resume="12345678-1234-5678-1234-567812345678")


async def test_a_compacted_conversation_is_resumed_from_its_summary_with_the_rest_told_once() -> None:
    summary = Turn(
        [text("<summary>The word is plum.</summary>")],
        when=lambda request: "summary" in json.dumps(request["messages"][-1]).lower(),
        usage={"input_tokens": 500, "output_tokens": 50},
    )

    def answer(request: Any) -> Turn:
        is_long = len(request["messages"]) > 8 and "previous conversation" not in json.dumps(request["messages"])
        return Turn([text("noted " * 400)], usage={"input_tokens": 190_000} if is_long else {})

    with ScriptedAPI(summary, otherwise=answer, strict=False) as api:
        env = {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000"}
        async with start("the first word " + "x " * 3000, api_url=api.url, env=env) as live, asyncio.timeout(90):
            await live.result()
            turns = [await live.send(f"word {number} " + "y " * 2000) for number in range(5)]
        assert {turn.code for turn in turns} == {"ok"}
        assert [turn.unattributed.total for turn in turns if turn.unattributed.total] == [550]
        resumed = await ask(api, "what was the word", resume=turns[-1].session)
        assert (resumed.code, resumed.session) == ("ok", turns[-1].session)
        assert once(api, "The word is plum.", "word 4 y", "what was the word")
        assert "the first word x" not in said(api)


def _kept(home: Path) -> str:
    """Everything that is kept of conversations, as one text."""
    files = [path for path in (home / "sessions").rglob("*") if path.is_file()]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


async def test_a_conversation_goes_with_the_last_run_that_belongs_to_it(api: ScriptedAPI, toolkit_home: Path) -> None:
    first = await ask(api, "the word is plum")
    second = await ask(api, "and the colour is blue", resume=first.session)
    other = await ask(api, "the word is pear")
    load_run(first.run).remove()
    assert "plum" in _kept(toolkit_home)
    third = await ask(api, "what was the word", resume=first.session)
    assert once(api, "the word is plum", "what was the word")
    for each in (second, third):
        load_run(each.run).remove()
    assert "plum" not in _kept(toolkit_home)
    assert "pear" in _kept(toolkit_home)
    assert (await ask(api, "and now", resume=first.session)).code == "no_session"
    assert other.run in remove_older_than(0)
    assert "pear" not in _kept(toolkit_home)


async def test_a_conversation_in_use_is_not_forgotten(api: ScriptedAPI, toolkit_home: Path) -> None:
    done = await ask(api, "the word is plum")
    assert done.session is not None
    async with one_at_a_time(done.session):
        load_run(done.run).remove()
        assert "plum" in _kept(toolkit_home)


async def test_a_forgotten_conversation_is_told_anew(api: ScriptedAPI, toolkit_home: Path) -> None:
    talk = Conversation(api_url=api.url, api_key="fake")
    await asyncio.wait_for(talk.send("the word is plum"), 60)
    remove_older_than(0)
    assert "plum" not in _kept(toolkit_home)
    await asyncio.wait_for(talk.send("what was the word"), 60)
    assert once(api, "the word is plum", "what was the word")


async def test_results_are_told_in_the_order_of_their_calls_whichever_came_first(api: ScriptedAPI) -> None:
    def call(name: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": name, "name": "Read", "input": {"path": name}}

    def result(name: str) -> dict[str, Any]:
        return {"type": "tool_result", "tool_use_id": name, "content": f"text of {name}"}

    past: list[dict[str, Any]] = [
        {"role": "user", "content": "Read them."},
        {"role": "assistant", "content": [call("a"), call("b"), call("c")]},
        {"role": "user", "content": [result("c"), result("a"), {"type": "text", "text": "Go on."}, result("b")]},
    ]
    assert (await Conversation(past, api_url=api.url, api_key="fake").send("And?")).ok
    told = str(api.requests[-1]["messages"])
    assert 0 < told.index("text of a") < told.index("text of b") < told.index("Go on.") < told.index("text of c")


async def test_an_edited_history_tells_tool_calls_and_their_results_in_full(api: ScriptedAPI) -> None:
    long = "plum " * 3000
    options: dict[str, Any] = {"api_url": api.url, "api_key": "fake"}
    past: list[dict[str, Any]] = [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I do."}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {"path": "a.txt"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": long, "is_error": True}]},
    ]
    result = await Conversation(past, **options).send(["And this?", Image(PIXEL)])
    assert result.ok
    blocks = api.requests[-1]["messages"][0]["content"]
    told = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    assert f"User: [Tool error: {long}]" in told
    assert 'Assistant: [Tool call Read: {"path": "a.txt"}]' in told
    assert "hm" not in told
    assert [block["source"]["media_type"] for block in blocks if block["type"] == "image"] == ["image/png"]


async def test_a_conversation_keeps_what_its_tools_gave_and_is_found_with_and_without_it() -> None:
    turns = ([tool_use("Bash", command="echo the plum")], [text("Seen.")], [text("Again.")], [text("Anew.")])
    with ScriptedAPI(*turns) as api:
        options: dict[str, Any] = {"api_url": api.url, "api_key": "fake"}
        conversation = Conversation(**options)
        first = await conversation.send("Look.")
        assert [message["role"] for message in conversation.messages] == ["user", "assistant", "user", "assistant"]
        kept = conversation.messages[2]["content"][0]
        assert (kept["type"], "the plum" in str(kept["content"])) == ("tool_result", True)
        plain = [{"role": "user", "content": "Look."}, {"role": "assistant", "content": first.text}]
        assert (await Conversation(plain, **options).send("Go on.")).session == first.session
        edited = [{"role": "user", "content": "Look well."}, *conversation.messages[1:]]
        assert (await Conversation(edited, **options).send("And?")).session != first.session
        assert api.requests[-1].contains("the plum")
