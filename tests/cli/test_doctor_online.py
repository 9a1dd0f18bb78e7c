"""`toolkit doctor --online`: whether the model API takes the key, by one request that costs nothing."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli._command import toolkit
from toolkit.doctor import Finding, examine_key
from toolkit.sandbox import CREDENTIALS
from toolkit.testing import ScriptedAPI

KEY = "sk-ant-not-a-key-0123456789"
"""What must never be printed."""
Answered = Callable[[dict[str, str]], tuple[int, object]]


@contextmanager
def answering(answer: Answered) -> Iterator[str]:
    """A model API that answers every request like this; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            status, told = answer({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}})
            body = told.encode() if isinstance(told, str) else json.dumps(told).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)


def error(kind: str, message: str = "") -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message}}


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Finding]:
    def one(url: str, seconds: float = 20, **env: str) -> Finding:
        for name in (*CREDENTIALS.values(), "ANTHROPIC_CUSTOM_HEADERS"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        for name, value in (env or {"ANTHROPIC_API_KEY": KEY}).items():
            monkeypatch.setenv(name, value)
        found = examine_key(seconds)
        assert KEY not in f"{found.found} {found.fix}"
        return found

    return one


def test_a_key_that_the_model_api_takes_is_ok_and_costs_nothing(tmp_path: Path) -> None:
    with ScriptedAPI() as api:
        env = {"TOOLKIT_HOME": str(tmp_path), "ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": KEY}
        done = toolkit("doctor", "--online", cwd=tmp_path, env=env)
        offline = toolkit("doctor", cwd=tmp_path, env=env)
    url = env["ANTHROPIC_BASE_URL"]
    assert f"ok    key                 {url} takes ANTHROPIC_API_KEY, asked in " in done.out
    assert " key  " not in offline.out
    assert KEY not in done.out + done.err
    assert [request.path for request in api.side_requests] == ["/v1/messages/count_tokens"]
    assert not api.requests


@pytest.mark.parametrize(
    ("env", "sent"),
    [
        ({"ANTHROPIC_API_KEY": KEY}, {"x-api-key": KEY}),
        ({"ANTHROPIC_AUTH_TOKEN": KEY}, {"authorization": f"Bearer {KEY}"}),
        (
            {"CLAUDE_CODE_OAUTH_TOKEN": KEY},
            {"authorization": f"Bearer {KEY}", "anthropic-beta": "oauth-2025-04-20"},
        ),
        ({"ANTHROPIC_CUSTOM_HEADERS": f"x-gateway: {KEY}"}, {"x-gateway": KEY}),
    ],
)
def test_every_form_of_a_credential_is_sent_as_a_run_sends_it(
    env: dict[str, str], sent: dict[str, str], tried: Callable[..., Finding]
) -> None:
    seen: list[dict[str, str]] = []

    def answer(given: dict[str, str]) -> tuple[int, object]:
        seen.append(given)
        return 200, {"input_tokens": 8}

    with answering(answer) as url:
        found = tried(f"{url}/gateway/", **env)
    assert (found.ok, found.found.partition(", asked")[0]) == (True, f"{url}/gateway/ takes {next(iter(env))}")
    [given] = seen
    assert given["path"] == "/gateway/v1/messages/count_tokens"
    assert given | sent == given


@pytest.mark.parametrize(
    ("status", "body", "told", "ok", "stops"),
    [
        (401, error("authentication_error", f"invalid x-api-key {KEY}"), "refuses ANTHROPIC_API_KEY: 401", False, True),
        (403, error("permission_error"), "refuses ANTHROPIC_API_KEY: 403 permission_error", False, True),
        (403, f"<html>{KEY}", "refuses ANTHROPIC_API_KEY: 403", False, True),
        (401, error(f"x{KEY}"), "refuses ANTHROPIC_API_KEY: 401", False, True),
        (404, "<html>not here", "is no model API: it answers 404", False, True),
        (404, error("not_found_error", "Not Found"), "is no model API: it answers 404 not_found_error", False, True),
        (404, error("not_found_error", "model: claude-sonnet-4-5"), "takes ANTHROPIC_API_KEY; it has no", True, True),
        (200, "<html>a login page", "is no model API: it answers 200", False, True),
        (302, "", "is no model API: it answers 302", False, True),
        (429, error("rate_limit_error"), "is busy, so nothing is known: 429 rate_limit_error", False, False),
        (529, error("overloaded_error"), "is busy, so nothing is known: 529", False, False),
        (400, error("invalid_request_error"), "does not count tokens for", False, False),
    ],
)
def test_what_the_api_answers_decides(
    status: int, body: object, told: str, ok: bool, stops: bool, tried: Callable[..., Finding]
) -> None:
    with answering(lambda given: (status, body)) as url:
        found = tried(url)
    assert (found.ok, found.stops) == (ok, stops)
    assert told in found.found
    assert ok or found.fix


def test_an_api_that_is_not_there_or_never_answers_is_told_in_time(tried: Callable[..., Finding]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert "no answer within 0.2 s" in tried(f"http://127.0.0.1:{port}", 0.2).found
    assert "cannot be reached: Connection refused" in tried(f"http://127.0.0.1:{port}").found
    assert "not tried: the API base URL 'ftp://127.0.0.1' is no http(s) URL" in tried("ftp://127.0.0.1").found
    assert "there is no such host" in tried("http://nowhere.invalid").found


def test_an_answer_that_drips_in_is_not_waited_for(tried: Callable[..., Finding]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                while not ended.wait(0.02):
                    connection.sendall(b"H")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        found = tried(f"http://127.0.0.1:{server.getsockname()[1]}", 0.3)
        ended.set()
        thread.join(60)
    assert not found.ok
    assert "cannot be reached" in found.found


def test_without_a_key_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*CREDENTIALS.values(), "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert examine_key().found == "not tried: there is none"
