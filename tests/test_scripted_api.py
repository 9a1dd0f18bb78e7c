"""The scripted model keeps to the Messages API, to its script, and says what is wrong with either."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest

from toolkit.errors import TestingError
from toolkit.testing import Request, ScriptedAPI, Status, Turn, text, thinking, tool_use

TOOLS = [{"name": "add", "input_schema": {"type": "object"}}]


def ask(api: ScriptedAPI, prompt: Any = "go", path: str = "/v1/messages?beta=true", **body: Any) -> Any:
    """One model call over a connection of its own: the JSON answer, or the list of events."""
    connection = http.client.HTTPConnection(urlsplit(api.url).netloc, timeout=20)
    messages = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
    connection.request("POST", path, json.dumps({"model": "m", "tools": TOOLS, "messages": messages, **body}))
    response = connection.getresponse()
    try:
        raw = response.read().decode()
        if response.headers["content-type"] != "text/event-stream":
            return {"status": response.status, "headers": dict(response.headers), **json.loads(raw)}
        return [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: ")]
    finally:
        connection.close()


def connected(api: ScriptedAPI) -> socket.socket:
    address = urlsplit(api.url)
    return socket.create_connection((address.hostname, address.port), timeout=20)


def left_to_read(client: socket.socket) -> bytes:
    """What still comes before the connection ends."""
    try:
        return client.recv(100)
    except ConnectionError:
        return b""


def joined(events: list[dict[str, Any]], field: str) -> str:
    return "".join(event["delta"].get(field, "") for event in events if event["type"] == "content_block_delta")


def test_a_turn_is_streamed_in_chunks_with_its_final_usage_at_the_end() -> None:
    blocks = [thinking("let me see", signature="sig"), text("hello world"), tool_use("add", title="ü" * 9)]
    with ScriptedAPI(Turn(blocks, id="msg_1", usage={"output_tokens": 42}, chunk=4)) as api:
        events = ask(api, stream=True)

    assert events[0]["message"]["id"] == "msg_1"
    assert events[0]["message"]["usage"]["output_tokens"] == 1
    assert joined(events, "text") == "hello world"
    assert joined(events, "thinking") == "let me see"
    assert joined(events, "signature") == "sig"
    assert json.loads(joined(events, "partial_json")) == {"title": "ü" * 9}
    assert max(len(event["delta"].get("text", "")) for event in events if event["type"] == "content_block_delta") == 4
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[-2]["usage"]["output_tokens"] == 42
    assert events[-1] == {"type": "message_stop"}


def test_without_stream_the_whole_message_comes_at_once() -> None:
    with ScriptedAPI([text("hi")], Turn([tool_use("add") | {"id": "toolu_x"}], stop_reason="max_tokens")) as api:
        first, second = ask(api), ask(api)

    assert (first["content"], first["stop_reason"]) == ([text("hi")], "end_turn")
    assert second["content"][0]["id"] == "toolu_x"
    assert second["stop_reason"] == "max_tokens"


def test_side_calls_and_token_counts_take_no_turn() -> None:
    with ScriptedAPI([text("the turn")]) as api:
        side = ask(api, "name this chat", tools=[])
        count = ask(api, path="/v1/messages/count_tokens")
        main = ask(api)

    assert side["content"][0]["type"] == "text"
    assert count["input_tokens"] > 0
    assert main["content"] == [text("the turn")]
    assert (len(api.requests), len(api.side_requests)) == (1, 2)


def test_a_turn_can_choose_its_request_by_text_or_by_function() -> None:
    turns: list[Any] = [
        [text("first of the rest")],
        Turn([text("for the helper")], when="You are the helper"),
        Turn([text("for the title")], when=lambda request: request.prompt == "title?"),
        Status(529, when="fail here"),
    ]
    with ScriptedAPI(*turns) as api:
        assert ask(api, "title?", tools=[])["content"] == [text("for the title")]
        assert ask(api, "go", system="You are the helper.")["content"] == [text("for the helper")]
        assert ask(api, "go", system="You are the helper.")["content"] == [text("first of the rest")]
        assert ask(api, "please fail here")["status"] == 529


def test_a_turn_can_be_a_function_of_the_request() -> None:
    def answer(request: Request) -> list[dict[str, Any]]:
        return [text(f"{request.prompt} with {', '.join(request.tools)}")]

    with ScriptedAPI(answer) as api:
        assert ask(api, "count")["content"] == [text("count with add")]


def test_otherwise_answers_every_call_that_no_turn_is_written_for() -> None:
    with ScriptedAPI([text("one")], otherwise=lambda request: [text(f"call {len(request['messages'])}")]) as api:
        assert [ask(api)["content"][0]["text"] for _ in range(3)] == ["one", "call 1", "call 1"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ],
)
def test_an_error_has_the_shape_and_type_of_the_api(code: int, kind: str) -> None:
    with ScriptedAPI(Status(code, message="no", headers={"retry-after": "3"})) as api:
        answer = ask(api, stream=True)

    assert answer["status"] == code
    assert answer["error"] == {"type": kind, "message": "no"}
    assert answer["headers"]["x-should-retry"] == "false"
    assert answer["headers"]["retry-after"] == "3"


def test_a_refusal_holds_when_the_client_asks_the_same_again_but_a_retry_takes_the_next_turn() -> None:
    with ScriptedAPI(Status(400), Status(529, retry=True), [text("at last")]) as api:
        assert [ask(api)["status"] for _ in range(3)] == [400, 400, 400]
        assert ask(api, "another")["status"] == 529
        assert ask(api, "another")["content"] == [text("at last")]
    assert len(api.requests) == 3


def test_a_cut_turn_ends_without_its_end() -> None:
    with ScriptedAPI(Turn([text("whole"), text("never")], cut_after=1)) as api:
        connection = http.client.HTTPConnection(urlsplit(api.url).netloc, timeout=20)
        body = {"model": "m", "tools": TOOLS, "messages": [{"role": "user", "content": "x"}], "stream": True}
        connection.request("POST", "/v1/messages", json.dumps(body))
        response = connection.getresponse()
        with pytest.raises(http.client.IncompleteRead) as caught:
            response.read()
        connection.close()

    assert b"whole" in caught.value.partial
    assert b"never" not in caught.value.partial


def test_a_held_turn_waits_for_its_event_and_a_stalled_one_until_the_end() -> None:
    gate = threading.Event()
    heard: list[Any] = []
    with ScriptedAPI(Turn([text("held")], hold=gate), Turn([text("a")], stall_after=0), strict=False) as api:
        thread = threading.Thread(target=lambda: heard.append(ask(api)))
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
        gate.set()
        thread.join(60)
        assert heard[0]["content"] == [text("held")]

        def listen() -> None:
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                ask(api, stream=True)

        stalled = threading.Thread(target=listen)
        stalled.start()
        stalled.join(0.05)
        assert stalled.is_alive()
    stalled.join(60)
    assert not stalled.is_alive()


def test_several_requests_share_a_connection_also_in_chunks() -> None:
    with ScriptedAPI([text("one")], [text("two")]) as api:
        connection = http.client.HTTPConnection(urlsplit(api.url).netloc, timeout=20)
        connection.request("HEAD", "/")
        response = connection.getresponse()
        response.read()
        assert response.status == 200
        for expected in ("one", "two"):
            body = json.dumps({"model": "m", "tools": TOOLS, "messages": []}).encode()
            connection.request("POST", "/v1/messages", iter([body[:7], body[7:]]), encode_chunked=True)
            assert json.loads(connection.getresponse().read())["content"] == [text(expected)]
        connection.request("POST", "/v1/messages", "no json")
        assert connection.getresponse().status == 400
        connection.close()


def test_a_client_that_asks_before_it_sends_its_body_is_told_to_go_on() -> None:
    body = json.dumps({"model": "m", "tools": TOOLS, "messages": []}).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
    with ScriptedAPI([text("hi")]) as api, connected(api) as client:
        client.sendall(head.encode())
        assert client.recv(100).startswith(b"HTTP/1.1 100")
        client.sendall(body)
        assert client.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("said", [b"no http\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1x\r\n\r\n"])
def test_who_does_not_speak_http_is_hung_up_on_and_the_next_one_is_served(said: bytes) -> None:
    with ScriptedAPI([text("hi")]) as api:
        with connected(api) as client:
            client.sendall(said)
            assert client.recv(100) == b""
        assert ask(api)["content"] == [text("hi")]


def test_stopping_drops_idle_and_half_sent_connections_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedAPI(strict=False) as api, connected(api) as idle, connected(api) as half:
        half.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n123")
        assert ask(api, tools=[])["status"] == 200
        api.stop()
        for client in (idle, half):
            assert not left_to_read(client)
    assert caplog.records == []


def test_what_the_model_was_told_can_be_asked_afterwards() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}

    def result(number: int, content: Any, **more: Any) -> dict[str, Any]:
        return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": content, **more}

    first = [{"role": "user", "content": [result(1, "plain"), result(2, [text("one block")])]}]
    second = [*first, {"role": "user", "content": [result(3, [text("see"), image]), result(4, "bad", is_error=True)]}]
    with ScriptedAPI([text("a")], [text("b")]) as api:
        ask(api, first)
        ask(api, second, system=[text("Be kind."), text("Be brief.")])

    assert api.tool_results() == ["plain", "one block", [text("see"), image], "bad"]
    assert api.tool_result_blocks()[3]["is_error"] is True
    assert api.system_prompt() == "Be kind.\nBe brief."
    assert list(api.tools()) == ["add"]
    assert api.requests[0].headers["host"] == urlsplit(f"http://{api.requests[0].headers['host']}").netloc


def test_a_script_that_ran_out_says_which_call_and_shows_it() -> None:
    with pytest.raises(TestingError) as caught, ScriptedAPI([text("one")]) as api:
        assert [ask(api, prompt).get("status") for prompt in ("first", "second")] == [200, 500]

    assert str(caught.value) == (
        "the script ran out: model call 2 has no turn\n"
        "  all 1 turns of the script are used\n"
        "  last request: 1 messages, last prompt 'second', tools: add\n"
        "  Add a turn for it, or otherwise=… for every call that no turn is written for."
    )


def test_a_script_that_is_not_used_up_says_what_is_left() -> None:
    with pytest.raises(TestingError) as caught, ScriptedAPI([text("a")], [tool_use("add")], Turn([], when="x")) as api:
        ask(api, "first")

    assert str(caught.value) == (
        "the script was not used up: 2 of 3 turns left\n"
        "  turn 2: [tool_use add]\n"
        "  turn 3: [] when 'x'\n"
        "  last request: 1 messages, last prompt 'first', tools: add\n"
        "  Remove the turns that are not needed, or see why the model was not asked again."
    )


def test_a_script_that_only_saw_calls_without_tools_says_how_to_claim_one() -> None:
    with pytest.raises(TestingError) as caught, ScriptedAPI([text("a")]) as api:
        ask(api, "first", tools=[])
    assert caught.value.where[-1] == "no model call arrived; 1 call(s) without tools took no turn (when=… claims one)"


def test_an_error_of_the_test_is_not_hidden_by_turns_left_over() -> None:
    with pytest.raises(KeyError), ScriptedAPI([text("unused")]):
        raise KeyError("the real one")


def test_a_failing_function_of_the_script_is_the_tests_failure() -> None:
    def broken(request: Request) -> Any:
        raise ZeroDivisionError("oops")

    for turn in (broken, Turn([text("x")], when=broken)):
        with pytest.raises(TestingError) as caught, ScriptedAPI(turn) as api:
            assert ask(api)["status"] == 500
        assert caught.value.what == "the script's function broken() failed: ZeroDivisionError: oops"
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def _returns_a_number(request: Request) -> Any:
    return 3


@pytest.mark.parametrize(
    ("make", "arguments", "settings", "what"),
    [
        (ScriptedAPI, ["hello"], {}, "turn 1 is no turn: 'hello'"),
        (ScriptedAPI, [[text("a")], 3], {}, "turn 2 is no turn: 3"),
        (ScriptedAPI, [["hello"]], {}, "turn 1: block 0 is no block: 'hello'"),
        (ScriptedAPI, [[{"type": "text"}]], {}, "turn 1: block 0 needs 'text' as str: {'type': 'text'}"),
        (ScriptedAPI, [], {"otherwise": 5}, "otherwise is no turn: 5"),
        (Turn, [text("a")], {}, "a turn needs a list of blocks, not {'type': 'text', 'text': 'a'}"),
        (Turn, [[]], {"stop_reason": "because"}, "Turn: 'because' is no stop reason"),
        (Turn, [[]], {"usage": None}, "Turn: usage=None is no mapping"),
        (Turn, [[]], {"chunk": 0}, "Turn: chunk=0 sends nothing"),
        (Turn, [[text("a")]], {"cut_after": 2}, "Turn: cut_after=2, but the turn has 1 blocks"),
        (Turn, [[]], {"when": 7}, "when=7 is neither a text nor a function"),
        (Status, [200], {}, "Status(200) is no error"),
        (Status, [418], {}, "Status(418) has no usual error type"),
        (Status, [429], {"headers": {"a": "b\r\nc: d"}}, "Status: 'a': 'b\\r\\nc: d' is no header of an answer"),
        (Status, [429], {"headers": {"Content-Length": 5}}, "Status: 'Content-Length': 5 is no header of an answer"),
    ],
)
def test_a_turn_that_is_no_turn_is_refused_when_the_script_is_made(
    make: Any, arguments: list[Any], settings: dict[str, Any], what: str
) -> None:
    with pytest.raises(TestingError) as caught:
        make(*arguments, **settings)
    assert caught.value.what == what
    assert caught.value.fix


def test_a_function_that_returns_no_turn_is_the_tests_failure() -> None:
    with (
        pytest.raises(TestingError, match=r"what _returns_a_number\(\) returned is no turn: 3"),
        ScriptedAPI(_returns_a_number) as api,
    ):
        ask(api)


def test_a_port_that_is_taken_is_an_error_and_leaves_no_thread() -> None:
    before = {*threading.enumerate()}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(TestingError) as caught:
            ScriptedAPI(port=taken.getsockname()[1]).start()
    assert "cannot listen on port" in caught.value.what
    with pytest.raises(TestingError, match="cannot listen on port 70000"):
        ScriptedAPI(port=70000).start()
    assert {*threading.enumerate()} <= before


def test_an_api_that_is_not_running_says_so() -> None:
    api = ScriptedAPI(strict=False)
    with pytest.raises(TestingError, match="is not running"):
        _ = api.url
    with api, pytest.raises(TestingError, match="already running"):
        api.start()
    with pytest.raises(TestingError, match="no model call"):
        api.system_prompt()


async def test_it_is_an_async_context_manager_too() -> None:
    async with ScriptedAPI(strict=False) as api:
        assert api.url.startswith("http://127.0.0.1:")
    with pytest.raises(TestingError):
        _ = api.url


def test_a_sync_program_can_use_it_without_loading_mcp_or_the_sdk() -> None:
    program = """
import json, sys, urllib.request
from toolkit.testing import ScriptedAPI, text
with ScriptedAPI([text("hi")]) as api:
    body = json.dumps({"model": "m", "tools": [{"name": "t"}], "messages": []}).encode()
    print(json.load(urllib.request.urlopen(api.url + "/v1/messages", body))["content"][0]["text"])
print([name for name in ("mcp", "claude_agent_sdk", "pydantic", "anyio") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n")[:2] == ["hi", "[]"]


@pytest.mark.parametrize("blocks", [False, True])
def test_what_a_tool_gave_is_told_without_any_of_the_reminders_behind_it(blocks: bool) -> None:
    reminder = "\n\n<system-reminder>\n{}\n</system-reminder>"
    told = "3 < 4\n" + reminder.format("14 tokens left") + reminder.format("The task tools\n\nhave not been used")
    result = {"type": "tool_result", "content": [{"type": "text", "text": told}] if blocks else told}
    with ScriptedAPI([text("ok")]) as api:
        ask(api, [{"role": "user", "content": [result]}])
        assert api.tool_results() == ["3 < 4\n"]
