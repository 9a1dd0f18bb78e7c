"""What a server says of its tools is read as the CLI reads it, and what cannot be read does not get there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolkit.runs.turn.servers.definitions import Definitions


def listing(*tools: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}, **more}).encode() + b"\n"


def tool(description: str, **more: Any) -> dict[str, Any]:
    return {"name": "first", "description": description, "inputSchema": {"type": "object"}, **more}


def test_the_same_again_is_no_change_whatever_the_order_of_its_keys() -> None:
    known = Definitions()
    assert known.hear("s", listing(tool("One."))) == ["mcp__s__first"]
    assert known.hear("s", listing(dict(reversed(tool("One.").items())))) == ["mcp__s__first"]
    assert not known.has_changed("s", "mcp__s__first")


@pytest.mark.parametrize(
    "later",
    [
        tool("Two."),
        tool("One.", inputSchema={"type": "object", "properties": {"path": {"type": "string"}}}),
        tool("One.", annotations={"readOnlyHint": True}),
        tool("One.", _meta={"anthropic/alwaysLoad": True}),
        tool("One.", title="Other"),
    ],
)
def test_any_part_of_a_definition_counts(later: dict[str, Any]) -> None:
    known = Definitions()
    known.hear("s", listing(tool("One.")))
    known.hear("s", listing(later))
    assert known.has_changed("s", "mcp__s__first")
    known.hear("s", listing(tool("One.")))
    assert not known.has_changed("s", "mcp__s__first"), "it is again what it was"


@pytest.mark.parametrize(
    "line",
    [
        listing(tool("Two."), id="1"),
        listing(tool("Two."), id=None),
        b"[" + listing(tool("Two.")).strip() + b"]",
        listing(tool("Two.")).replace(b'"tools"', b'"\\u0074ools"').replace(b'"result"', b'"resul\\u0074"'),
        listing(tool("Two.")).replace(b'"result"', b'"result": {"tools": []}, "result"'),
        listing(tool("One."), tool("Two.")),
        listing(tool("Two.", inputSchema={"maximum": 1})).replace(b": 1}", b": " + b"9" * 5000 + b"}"),
        listing(tool("One.")).replace(b"One.", b"One.\xff"),
    ],
)
def test_a_list_is_known_as_one_in_every_form_that_a_client_would_take(line: bytes) -> None:
    known = Definitions()
    known.hear("s", listing(tool("One.")))
    assert known.hear("s", line)
    assert known.has_changed("s", "mcp__s__first")


@pytest.mark.parametrize("line", [b"\n", b"starting up\n", b'{"result": {"tools": [}\n', b"[" * 100_000 + b"\n"])
def test_what_cannot_be_read_is_kept_back(line: bytes) -> None:
    assert Definitions().hear("s", line) is None


def test_a_tool_whose_definition_nobody_heard_counts_as_changed() -> None:
    assert Definitions().has_changed("s", "mcp__s__first")


def test_a_server_that_lists_without_end_fills_no_memory() -> None:
    known = Definitions()
    for page in range(30):
        known.hear("s", listing(*({"name": f"t{page}-{number}"} for number in range(1000))))
    assert not known.has_changed("s", "mcp__s__t0-0")
    assert known.has_changed("s", "mcp__s__t29-0")


def test_servers_that_are_set_anew_begin_anew() -> None:
    known = Definitions()
    known.hear("s", listing(tool("One.")))
    known.forget(["s"])
    known.hear("s", listing(tool("Two.")))
    assert not known.has_changed("s", "mcp__s__first")


def test_a_server_that_said_to_have_tools_is_missed_until_it_lists_none() -> None:
    heard = Definitions()
    heard.hear("s", b'{"id": 0, "result": {"capabilities": {"prompts": {}}}}')
    assert heard.why_without("s") is None
    heard.hear("s", b'{"id": 0, "result": {"capabilities": {"tools": {}}}}')
    assert heard.why_without("s") == "it did not list its tools"
    assert heard.why_without("other") is None
    heard.hear("s", b'{"id": 1, "result": {"tools": []}}')
    assert heard.why_without("s") is None
    heard.hear("s", b'{"id": 1, "result": {"tools": [{"name": "a"}]}}')
    assert heard.why_without("s") == "the CLI takes none of its tools"
