"""Over HTTP with tokens: prompts and resources have the lock that tools have, in both eras."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import PromptReference, ResourceTemplateReference

from tests.serving._client import BOUND, ENVELOPE, HEADERS, ServedHttp

SOURCE = """
from typing import Literal
from toolkit import prompt, resource

@tool(read_only=True)
def look() -> str:
    "Look."
    return "seen"

@tool
def change(ctx: ToolContext) -> str:
    "Change."
    ctx.changed("notes://7")
    return "changed"

@resource("notes://all")
def notes() -> str:
    "All notes."
    return "all"

@resource("notes://{id}")
def note(id: Literal["7", "8"]) -> str:
    "One note."
    return id

@prompt
def ask(style: Literal["short", "long"] = "short") -> str:
    "Ask."
    return style

@prompt
def other() -> str:
    "Another."
    return "other"

box = Toolbox("team", [look, change, notes, note, ask, other])
"""
TOKENS = {name: f"{name}-0123456789abcdef0123" for name in ("alice", "bob", "tool", "asker", "prom")}
SCOPES = {"alice": "all", "bob": "read-only", "tool": "change", "asker": "ask", "prom": "metrics"}
SEES = {
    "alice": (["look", "change"], ["notes"], ["note"], ["ask", "other"]),
    "bob": (["look"], ["notes"], ["note"], ["ask", "other"]),
    "tool": (["change"], [], [], []),
    "asker": ([], [], [], ["ask"]),
}
MAY = {
    "alice": {"look", "change", "notes://all", "notes://7", "ask", "other", "complete ask", "complete note"},
    "bob": {"look", "notes://all", "notes://7", "ask", "other", "complete ask", "complete note"},
    "tool": {"change"},
    "asker": {"ask", "complete ask"},
}
NOTE = ResourceTemplateReference(type="ref/resource", uri="notes://{id}")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHttp]:
    folder = tmp_path_factory.mktemp("scopes")
    tokens = folder / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text("".join(f"{name} {SCOPES[name]} {token}\n" for name, token in TOKENS.items()), encoding="utf-8")
    with ServedHttp(folder, SOURCE, options=["--token-file", str(tokens)]) as served:
        yield served


@asynccontextmanager
async def client_of(served: ServedHttp, who: str, mode: Any) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKENS[who]}"}) as http,
        Client(streamable_http_client(served.url, http_client=http), mode=mode) as client,
    ):
        yield client


@contextmanager
def asking(served: ServedHttp, who: str, method: str, params: dict[str, Any]) -> Iterator[httpx2.Response]:
    """One request of 2026-07-28, and the head of its answer."""
    headers = {**HEADERS, "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    frame = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers["Authorization"] = f"Bearer {TOKENS[who]}"
    with httpx2.stream("POST", served.url, json=frame, headers=headers, timeout=BOUND) as answer:
        yield answer


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("who", SEES)
async def test_a_client_sees_what_its_token_covers_and_nothing_else(served: ServedHttp, who: str, mode: str) -> None:
    async with client_of(served, who, mode) as client:
        seen = (
            [each.name for each in (await client.list_tools()).tools],
            [each.name for each in (await client.list_resources()).resources],
            [each.name for each in (await client.list_resource_templates()).resource_templates],
            [each.name for each in (await client.list_prompts()).prompts],
        )
    assert seen == SEES[who]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("who", MAY)
async def test_what_a_token_does_not_cover_is_refused(served: ServedHttp, who: str, mode: str) -> None:
    done, said = set(), []
    async with client_of(served, who, mode) as client:
        asked: dict[str, Callable[[], Awaitable[object]]] = {
            "look": lambda: client.call_tool("look", {}),
            "change": lambda: client.call_tool("change", {}),
            "notes://all": lambda: client.read_resource("notes://all"),
            "notes://7": lambda: client.read_resource("notes://7"),
            "ask": lambda: client.get_prompt("ask"),
            "other": lambda: client.get_prompt("other"),
            "complete ask": lambda: client.complete(
                PromptReference(type="ref/prompt", name="ask"), {"name": "style", "value": ""}
            ),
            "complete note": lambda: client.complete(NOTE, {"name": "id", "value": ""}),
        }
        for name, ask in asked.items():
            try:
                await ask()
            except MCPError as refused:
                said.append(str(refused))
            else:
                done.add(name)
    assert done == MAY[who]
    assert all("the token" in each for each in said)


async def test_in_2026_07_28_changes_of_a_resource_are_told_to_those_who_may_read_it(served: ServedHttp) -> None:
    async with (
        client_of(served, "bob", "2026-07-28") as bob,
        client_of(served, "alice", "2026-07-28") as alice,
        bob.listen(resource_subscriptions=["notes://7"]) as events,
    ):
        await alice.call_tool("change", {})
        async for event in events:
            assert event == ResourceUpdated(uri="notes://7")
            break


@pytest.mark.parametrize("wanted", [{"resourceSubscriptions": ["notes://7"]}, {"resourcesListChanged": True}])
@pytest.mark.parametrize("who", ["tool", "asker"])
def test_in_2026_07_28_no_other_token_listens_to_resources(served: ServedHttp, who: str, wanted: Any) -> None:
    params = {"notifications": {"toolsListChanged": True, **wanted}, "_meta": ENVELOPE}
    with asking(served, who, "subscriptions/listen", params) as answer:  # one that is let in never ends
        assert answer.status_code == 403
        assert "does not cover subscriptions/listen" in json.loads(answer.read())["error"]["message"]


def test_a_refusal_names_the_scope_that_is_missing(served: ServedHttp) -> None:
    asked: dict[str, tuple[dict[str, Any], str]] = {
        "resources/read": ({"uri": "notes://7"}, "tools:read-only"),
        "prompts/get": ({"name": "other"}, "tools:other"),
        "completion/complete": ({"ref": {"type": "ref/resource", "uri": "notes://{id}"}}, "tools:read-only"),
    }
    for method, (params, scope) in asked.items():
        with asking(served, "tool", method, {**params, "_meta": ENVELOPE}) as answer:
            assert answer.status_code == 403
            assert f'scope="{scope}"' in answer.headers["WWW-Authenticate"]


@pytest.mark.parametrize(
    "method", ["initialize", "prompts/list", "resources/list", "resources/read", "server/discover"]
)
def test_a_token_for_metrics_opens_nothing_else(served: ServedHttp, method: str) -> None:
    with asking(served, "prom", method, {"_meta": ENVELOPE}) as answer:
        assert answer.status_code == 403
