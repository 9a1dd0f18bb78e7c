"""Who may ask the server of the page for anything: whoever names the token, from this machine, and from the page."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from toolkit.runs import run
from toolkit.testing import FakeCLI, text
from toolkit.ui import UiServer

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def ask(server: UiServer, target: str, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, str]:
    """One request over a plain socket."""
    sent = b"" if body is None else json.dumps(body).encode()
    lines = {"Host": f"127.0.0.1:{server.port}", "Connection": "close", "Content-Length": str(len(sent))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(head.encode() + b"\r\n" + sent)
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    status, _, rest = answer.partition(b"\r\n")
    return int(status.split()[1]), rest.decode("utf-8", "replace")


def path(server: UiServer, more: str = "") -> str:
    return "/" + server.url.split("/", 3)[3] + more


async def test_without_the_token_nothing_is_told(served: UiServer) -> None:
    for target in ("/", "/wrong/", "/wrong/metrics", f"/{'x' * 32}/"):
        status, said = await ask(served, target)
        assert (status, "no valid token" in said) == (403, True)


async def test_another_name_for_this_machine_is_refused(served: UiServer) -> None:
    status, said = await ask(served, path(served), Host="evil.example")
    assert (status, "not served here" in said) == (403, True)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example", "Content_Type": "application/json"},
        {"Content_Type": "application/json"},
        {"Origin": "null", "Content_Type": "application/json"},
        {"Origin": "http://127.0.0.1:PORT", "Content_Type": "text/plain"},
    ],
    ids=["elsewhere", "no origin", "null", "no JSON"],
)
async def test_an_action_that_the_page_did_not_send_is_refused(served: UiServer, headers: dict[str, str]) -> None:
    name = (await run("Go.", transport=FakeCLI([text("done")]))).run
    headers = {key: value.replace("PORT", str(served.port)) for key, value in headers.items()}
    status, _ = await ask(served, path(served, f"run/{name}/stop"), "POST", {}, **headers)
    assert status == 403


async def test_an_action_on_no_run_or_without_sense_is_answered_in_words(served: UiServer) -> None:
    name = (await run("Go.", transport=FakeCLI([text("done")]))).run
    page = {"Origin": f"http://127.0.0.1:{served.port}", "Content_Type": "application/json"}
    for target, body, says in (
        ("run/run-none/stop", {}, "there is no run"),
        ("run/last/stop", {}, "there is no run"),
        ("run/..%2f..%2fetc/stop", {}, ""),
        (f"run/{name}/stop", {}, "has ended"),
        (f"run/{name}/dance", {}, "no such action"),
        (f"run/{name}/answer", {"choice": "sure"}, "is no answer"),
        (f"run/{name}/apply", {"paths": "all"}, "no list"),
        (f"run/{name}/resume", {"prompt": "  "}, "no prompt"),
    ):
        status, said = await ask(served, path(served, target), "POST", body, **page)
        assert status in (404, 409)
        assert says in said


async def test_a_run_does_not_go_on_under_a_project_file_that_nobody_accepted(
    served: UiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = (await run("Go.", transport=FakeCLI([text("done")]))).run
    (tmp_path / "toolkit.toml").write_text('mounts = ["."]\n', encoding="utf-8")
    page = {"Origin": f"http://127.0.0.1:{served.port}", "Content_Type": "application/json"}
    status, said = await ask(served, path(served, f"run/{name}/resume"), "POST", {"prompt": "Go on."}, **page)
    assert (status, "was not accepted as it is now" in said) == (409, True)


async def test_what_is_read_may_not_be_kept_framed_or_guessed(served: UiServer) -> None:
    status, said = await ask(served, path(served))
    assert status == 200
    head = said.partition("\r\n\r\n")[0].lower()
    for header in ("cache-control: no-store", "frame-ancestors 'none'", "nosniff", "referrer-policy: no-referrer"):
        assert header in head


async def test_metrics_are_prometheus_text_without_names(served: UiServer) -> None:
    await run("A secret task.", transport=FakeCLI([text("done")]))
    async with UiServer() as later:
        told = (await ask(later, path(later, "metrics")))[1]
    assert 'toolkit_runs{state="ok"} 1' in told
    assert "secret" not in told
    assert "toolkit_runs_cost_unknown 0" in told
