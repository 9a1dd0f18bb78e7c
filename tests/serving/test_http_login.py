"""Over HTTP with tokens: who may come in, what each token covers, and that no token is told to anybody."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.serving._client import BOUND, ENVELOPE, HANDSHAKE, SERVE, ServedHttp, wait_until
from toolkit.errors import ToolkitError
from toolkit_servers.http import Login, Token, TokenFile
from toolkit_servers.http.auth import Grant

SOURCE = """
import os
from toolkit import resource, prompt

@tool(read_only=True)
def look(text: str) -> str:
    "Look."
    return text

@tool
def change(text: str) -> str:
    "Change."
    return text.upper()

@tool
def environment() -> str:
    "What a tool finds in the environment."
    return repr(sorted(os.environ.items()))

box = Toolbox("team", [look, change, environment])
""".replace("from toolkit import resource, prompt\n", "")

ALICE, BOB, CI, PROM = (f"{name}-0123456789abcdef0123" for name in ("alice", "bob", "ci", "prom"))
TOKENS = f"""
# who    may do      with
alice    all         {ALICE}
bob      read-only   {BOB}
ci       look,change sha256:{hashlib.sha256(CI.encode()).hexdigest()}
prom     metrics     {PROM}
"""


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def private(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHttp]:
    folder = tmp_path_factory.mktemp("team")
    tokens = private(folder / "tokens", TOKENS)
    with ServedHttp(folder, SOURCE, options=["--token-file", str(tokens), "--log-format", "json"]) as served:
        yield served


def call(tool: str) -> dict[str, Any]:
    arguments = {} if tool == "environment" else {"text": "x"}
    params = {"name": tool, "arguments": arguments, "_meta": ENVELOPE}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def modern(method: str, name: str = "") -> dict[str, str]:
    headers = {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    return {**headers, "Mcp-Name": name} if name else headers


def asked(served: ServedHttp, tool: str, token: str) -> int:
    served.session = {}
    return served.post(call(tool), {**bearer(token), **modern("tools/call", tool)})[0]


@pytest.mark.parametrize(
    ("token", "statuses"),
    [
        (ALICE, {"look": 200, "change": 200, "environment": 200}),
        (BOB, {"look": 200, "change": 403, "environment": 403}),
        (CI, {"look": 200, "change": 200, "environment": 403}),
        (PROM, {"look": 403, "change": 403, "environment": 403}),
        ("nobody-knows-this-token", {"look": 401, "change": 401, "environment": 401}),
    ],
)
def test_a_token_calls_what_it_covers(served: ServedHttp, token: str, statuses: dict[str, int]) -> None:
    assert {tool: asked(served, tool, token) for tool in statuses} == statuses


@pytest.mark.parametrize("given", [{}, {"Authorization": ALICE}, {"Authorization": f"Basic {ALICE}"}, bearer("")])
def test_without_a_bearer_token_the_answer_is_401_and_says_where_to_look(
    served: ServedHttp, given: dict[str, str]
) -> None:
    request = urllib.request.Request(served.url, b"{}", {"Content-Type": "application/json", **given})
    with pytest.raises(urllib.error.HTTPError) as caught, contextlib.closing(urllib.request.urlopen(request)):
        pass
    with caught.value as answer:
        challenge = answer.headers["WWW-Authenticate"]
        assert answer.code == 401
    place = challenge.partition('resource_metadata="')[2].rstrip('"')
    with urllib.request.urlopen(place, timeout=BOUND) as page:
        told = json.load(page)
    assert told["resource"] == served.url
    assert "tools:read-only" in told["scopes_supported"]


def test_two_authorization_headers_are_refused(served: ServedHttp) -> None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=BOUND)
    with contextlib.closing(connection):
        connection.putrequest("POST", "/mcp")
        for token in (ALICE, "nobody-knows-this-token"):
            connection.putheader("Authorization", f"Bearer {token}")
        connection.putheader("Content-Length", "2")
        connection.endheaders(b"{}")
        assert connection.getresponse().status == 400


@pytest.mark.parametrize(
    ("token", "seen"), [(ALICE, ["look", "change", "environment"]), (BOB, ["look"]), (CI, ["look", "change"])]
)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_sees_the_tools_that_its_token_may_call(
    served: ServedHttp, token: str, seen: list[str], mode: Any
) -> None:
    async with (
        httpx2.AsyncClient(headers=bearer(token)) as http,
        Client(streamable_http_client(served.url, http_client=http), mode=mode) as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == seen
        result = await client.call_tool("look", {"text": "hey"})
        assert result.content[0].model_dump()["text"] == "hey"


def test_in_the_handshake_era_the_scope_of_a_call_is_held_too(served: ServedHttp) -> None:
    served.session = {}
    status, _ = served.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HANDSHAKE}, bearer(BOB))
    assert status == 200
    refused = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "change", "arguments": {"text": "x"}},
    }
    status, body = served.post(refused, bearer(BOB))
    assert status == 403
    assert "may not use 'change'" in json.loads(body)["error"]["message"]


def test_a_session_belongs_to_the_token_that_opened_it(served: ServedHttp) -> None:
    served.session = {}
    served.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HANDSHAKE}, bearer(ALICE))
    asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    assert served.post(asked, bearer(ALICE))[0] == 200
    assert served.post(asked, bearer(CI))[0] == 404
    called = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "look", "arguments": {"text": "x"}}}
    assert served.post(called, bearer(ALICE))[0] == 200
    assert served.post(called, bearer(CI))[0] == 404


def test_the_name_in_the_header_cannot_hide_the_tool_in_the_body(served: ServedHttp) -> None:
    served.session = {}
    assert served.post(call("change"), {**bearer(BOB), **modern("tools/call", "look")})[0] in (400, 403)


def test_no_token_is_in_the_log(served: ServedHttp, tmp_path: Path) -> None:
    asked(served, "look", ALICE)
    asked(served, "change", BOB)
    lines = []
    wait_until(lambda: lines.append(served.log_line()) or lines[-1].get("client") == "bob")  # type: ignore[func-returns-value]
    assert not any(token in json.dumps(lines) for token in (ALICE, BOB, CI, PROM))


def test_a_login_that_fails_is_in_the_log_with_its_address(tmp_path: Path) -> None:
    tokens = private(tmp_path / "tokens", TOKENS)
    with ServedHttp(tmp_path, SOURCE, options=["--token-file", str(tokens), "--log-format", "json"]) as served:
        assert asked(served, "look", "nobody-knows-this-token") == 401
        line = served.log_line()
    assert (line["client"], line["status"], line["outcome"], line["reason"]) == (
        "127.0.0.1",
        401,
        "refused",
        "authorization",
    )
    assert "nobody-knows" not in json.dumps(line)


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o640, 0o620, 0o666, 0o602])
def test_a_token_file_that_others_have_rights_to_is_refused(tmp_path: Path, mode: int) -> None:
    tokens = private(tmp_path / "tokens", TOKENS)
    tokens.chmod(mode)
    if mode == 0o640 and os.geteuid() == 0:
        tokens.chmod(0o660)  # root may let a group read
    with pytest.raises(ToolkitError) as caught:
        TokenFile(tokens)
    assert "refusing the token file" in caught.value.what
    assert str(tokens) in caught.value.fix


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no token in"),
        ("# nothing\n", "no token in"),
        ("short", "not 16 or more plain characters"),
        (f"alice {ALICE}", "has 2 words instead of 3"),
        (f"alice all {ALICE} more", "has 4 words instead of 3"),
        (f"al/ice all {ALICE}", "a name in the token file"),
        (f"alice , {ALICE}", "has no scope"),
        ("alice all sha256:123", "not 64 hex digits"),
        (f"alice all {ALICE}\nalice all {BOB}", "two tokens are called 'alice'"),
        (f"alice all {ALICE}\nbob all {ALICE}", "two names have one token"),
    ],
)
def test_what_is_wrong_with_a_token_file_is_said_without_the_token(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(ToolkitError) as caught:
        TokenFile(private(tmp_path / "tokens", text))
    assert what in str(caught.value)
    assert ALICE not in str(caught.value)


async def test_a_line_taken_out_of_the_file_is_refused_at_the_next_request(tmp_path: Path) -> None:
    file = private(tmp_path / "tokens", f"alice all {ALICE}\nbob all {BOB}\n")
    tokens = TokenFile(file)
    assert await tokens.verify_token(BOB) is not None
    private(file, f"alice all {ALICE}\n")
    assert await tokens.verify_token(BOB) is None
    assert await tokens.verify_token(ALICE) is not None


async def test_a_file_that_became_public_lets_nobody_in(tmp_path: Path) -> None:
    file = private(tmp_path / "tokens", f"alice all {ALICE}\n")
    tokens = TokenFile(file)
    file.chmod(0o644)
    assert await tokens.verify_token(ALICE) is None


async def test_a_file_with_one_word_is_a_token_for_everything(tmp_path: Path) -> None:
    found = await TokenFile(private(tmp_path / "token", f"{ALICE}\n")).verify_token(ALICE)
    assert found is not None
    assert Grant.of(found.scopes).everything
    assert ALICE not in repr(found)


async def test_the_token_in_the_environment_is_taken_out_of_it() -> None:
    environment = {"TOOLKIT_SERVE_TOKEN": ALICE, "HOME": "/"}
    login = Login.read(environment=environment)
    assert login is not None
    assert environment == {"HOME": "/"}
    assert await login.verify_token(ALICE) is not None
    assert await login.verify_token(BOB) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_off_loopback_it_does_not_start_without_a_login(tmp_path: Path, host: str) -> None:
    (tmp_path / "tools.py").write_text("from toolkit import tool\n@tool\ndef f() -> str:\n    'F.'\n    return ''\n")
    argv = [*SERVE, "--http", "--host", host, "--port", "0", "tools.py"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=BOUND)
    assert done.returncode == 2
    assert done.stderr == (
        f"refusing to serve on {host} without a login: whoever reaches the port could call the tools\n"
        "  neither a token file, TOOLKIT_SERVE_TOKEN nor --auth is given\n"
        "  Add --token-file FILE, or say --no-auth if something in front of it checks who calls\n"
    )


def test_off_loopback_no_auth_says_that_no_login_is_wanted(tmp_path: Path) -> None:
    with ServedHttp(tmp_path, SOURCE, options=["--host", "0.0.0.0", "--no-auth"]) as served:
        assert asked(served, "change", "") == 200


def test_a_tool_does_not_find_the_token_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLKIT_SERVE_TOKEN", ALICE)
    with ServedHttp(tmp_path, SOURCE) as served:
        assert asked(served, "look", BOB) == 401
        status, body = served.post(call("environment"), {**bearer(ALICE), **modern("tools/call", "environment")})
    assert status == 200
    assert ALICE.encode() not in body


def test_a_token_is_made_of_plain_characters() -> None:
    with pytest.raises(ToolkitError):
        Token.of("with spaces in it, which a header cannot tell apart")
