"""Files of which a part runs or is obeyed: `package.json` and `pyproject.toml` are marked when that part changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from toolkit_workspace.record.content import ContentGone, Node

_LARGEST_READ = 4 << 20
_SCRIPTS = (("scripts",), ("bin",), ("gypfile",), ("workspaces",), ("simple-git-hooks",), ("husky",), ("lint-staged",))
_BUILD_HOOKS = (
    ("build-system",),
    ("tool", "hatch", "build"),
    ("tool", "hatch", "metadata", "hooks"),
    ("tool", "setuptools", "cmdclass"),
    ("tool", "poetry", "build"),
    ("tool", "pdm", "build"),
    ("tool", "pdm", "scripts"),
    ("tool", "scikit-build"),
    ("tool", "maturin"),
    ("tool", "flit", "external-data"),
)
_OURS = (("tool", "toolkit"),)


def _toml(text: str) -> Any:
    import tomllib  # its patterns take a while, and few changes are to such a file

    return tomllib.loads(text)


Parts = tuple[tuple[tuple[str, ...], ...], str]
"""Where to look, and the mark for a change there."""
_MARKS: dict[str, tuple[Callable[[str], Any], tuple[Parts, ...]]] = {
    "package.json": (json.loads, ((_SCRIPTS, "runs elsewhere: its scripts changed"),)),
    "pyproject.toml": (
        _toml,
        (
            (_BUILD_HOOKS, "runs elsewhere: what builds the package changed"),
            (_OURS, "obeyed by toolkit run: its table [tool.toolkit] changed"),
        ),
    ),
}


def marks_for_scripts(name: str, old: Node | None, new: Node) -> list[str]:
    """The marks for a file of that name whose part that runs is new or another one, or cannot be told."""
    known = _MARKS.get(name.lower())
    if known is None or new.kind != "f":
        return []
    load, rows = known
    before, after = _loaded(old, load), _loaded(new, load)
    if after is None:
        return [f"{rows[0][1].partition(':')[0]}: it cannot be read"]
    return [mark for parts, mark in rows if any(_at(before, part) != _at(after, part) for part in parts)]


def _loaded(node: Node | None, load: Callable[[str], Any]) -> Any:
    """What a file says; nothing for one that is not there, None for one that nobody can read."""
    if node is None:
        return {}
    if node.content is None or node.size > _LARGEST_READ:
        return None
    try:
        return load(node.content.read().decode("utf-8-sig"))
    except (ValueError, RecursionError, ContentGone):
        return None


def _at(data: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data
