"""The tree of errors in toolkit.errors is the whole one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import toolkit.errors
from toolkit import Toolbox, tool
from toolkit.errors import ToolError

ROOT = Path(__file__).parents[1]


def _classes() -> dict[str, set[str]]:
    """Every class of the source with the names of its bases."""
    found: dict[str, set[str]] = {}
    for room in ("toolkit", "servers/toolkit_servers", "workspace/toolkit_workspace"):
        for file in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, set()).update(
                        base.id for base in node.bases if isinstance(base, ast.Name)
                    )
    return found


def test_every_error_of_ours_stands_in_the_tree() -> None:
    classes, errors = _classes(), {"ToolkitError"}
    while further := {name for name, bases in classes.items() if bases & errors} - errors:
        errors |= further
    listed = set(
        re.findall(r"\b[A-Z]\w+(?: \*)?(?=[ ,\n])", (toolkit.errors.__doc__ or "").split("Those with a star")[0])
    )
    named = {name.removesuffix(" *") for name in listed} & set(classes)
    elsewhere = {name.removesuffix(" *") for name in listed if name.endswith(" *")}

    assert errors == named
    assert elsewhere == {name for name in errors if not hasattr(toolkit.errors, name)}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (ToolError(ValueError("bad page")), "bad page"),  # type: ignore[arg-type]
        (ToolError("bad page", where="page 5"), "bad page\n  page 5"),
        (ToolError("bad page", where=[5, Path("a")]), "bad page\n  5\n  a"),  # type: ignore[list-item]
        (ToolError("bad page", where=None, fix=None), "bad page"),  # type: ignore[arg-type]
        (ToolError("bad page", where=5, fix=6), "bad page\n  5\n  6"),  # type: ignore[arg-type]
    ],
)
async def test_an_error_says_what_it_was_made_of_whatever_that_was(given: ToolError, told: str) -> None:
    @tool
    def read() -> str:
        """Read a page."""
        raise given

    result = await Toolbox("pages", [read]).call("read", {})
    assert (result.is_error, result.text) == (True, told)
