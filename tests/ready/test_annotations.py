"""What clients and models are told about every ready-made tool: hints that are true, and no parameter without a word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolkit import Tool
from toolkit.workspace import WorkspaceSection
from toolkit_servers.ready import READY, load_ready

# Tool → destructive, idempotent. What is not here only looks.
CHANGES: dict[str, tuple[bool, bool]] = {
    "add_note": (False, False),
    "add_step": (False, False),
    "edit_file": (True, False),
    "make_directory": (False, True),
    "make_plan": (True, True),
    "move": (True, False),
    "remove": (True, True),
    "remove_note": (True, True),
    "restore": (True, True),
    "update_note": (True, True),
    "update_step": (False, True),
    "write_file": (True, True),
}


@pytest.fixture
def tools(tmp_path: Path, workspace: Callable[..., WorkspaceSection]) -> list[Tool[..., Any]]:
    """Every tool of every ready-made box."""
    options: dict[str, dict[str, object]] = {
        "files": {"root": tmp_path},
        "notes": {"database": tmp_path / "notes.db"},
        "planning": {},
        "workspace": {"section": workspace()},
    }
    assert options.keys() == READY.keys()
    return [tool for name, given in options.items() for tool in load_ready(name, **given)]


def test_every_hint_is_given_because_the_protocols_defaults_are_the_worst_case(tools: list[Tool[..., Any]]) -> None:
    assert CHANGES.keys() <= {tool.name for tool in tools}
    for tool in tools:
        hints = tool.options.hints()
        if tool.name in CHANGES:
            destructive, idempotent = CHANGES[tool.name]
            expected = {"destructiveHint": destructive, "idempotentHint": idempotent, "openWorldHint": False}
        else:
            expected = {"readOnlyHint": True, "openWorldHint": False}
        assert (tool.name, hints) == (tool.name, expected)


def test_every_parameter_is_described_nested_ones_too(tools: list[Tool[..., Any]], tmp_path: Path) -> None:
    every = [*tools, *load_ready("files", root=tmp_path, compat="reference")]
    assert [f"{tool.name}: {path}" for tool in every for path in _undescribed(tool.input_schema)] == []


def _undescribed(schema: Any, path: str = "") -> Iterator[str]:
    if isinstance(schema, list):
        for inner in schema:
            yield from _undescribed(inner, path)
    if not isinstance(schema, dict):
        return
    for name, inner in schema.get("properties", {}).items():
        if not inner.get("description"):
            yield f"{path}{name}"
    for key, inner in schema.items():
        within = inner.values() if key in ("properties", "$defs") else [inner]
        yield from _undescribed(list(within), f"{path}{key}/")
