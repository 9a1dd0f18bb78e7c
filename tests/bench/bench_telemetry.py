"""What traces cost those who do not want them: a run against the same run with all mention of traces taken out of it."""

from __future__ import annotations

import ast
import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.bench._common import Row, interleave
from toolkit.runs import live_run, run
from toolkit.runs.turn import engine
from toolkit.telemetry import Telemetry
from toolkit.testing import FakeCLI, Turn, text, tool_use

_ROUNDS = 150
_TOGETHER = 4
"""Runs that are timed as one, so that a moment of noise weighs less."""


def main() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as home:
        os.environ["TOOLKIT_HOME"] = home
        yield _without()
        yield _unheard()


def _without() -> Row:
    """No telemetry, against code in which every step about it is not there."""
    cut = {**_cut_out(live_run, "LiveRun"), **_cut_out(engine, "Engine")}
    assert cut, "there is nothing about traces in these modules: look for it elsewhere"
    whole = {place: place[0].__dict__[place[1]] for place in cut}

    def theirs() -> None:
        _put(cut)
        try:
            _runs()
        finally:
            _put(whole)

    pair = interleave(_runs, theirs, rounds=_ROUNDS, warmup=5)
    return pair.row("a run without telemetry, against one that knows of none", 1.01)


def _unheard() -> Row:
    """`Telemetry()` where the program has set up no providers: nobody hears it."""
    pair = interleave(lambda: _runs(Telemetry()), _runs, rounds=_ROUNDS // 3, warmup=5)
    return pair.row("a run whose telemetry nobody hears, against one without", 1.15)


def _runs(telemetry: Telemetry | None = None) -> None:
    async def some() -> None:
        for _ in range(_TOGETHER):
            cli = FakeCLI(Turn([text("Looking."), tool_use("Read", file_path="a")]), [text("Done.")])
            assert (await run("go", transport=cli, telemetry=telemetry)).ok

    asyncio.run(some())


def _put(methods: dict[tuple[type, str], Any]) -> None:
    for (owner, name), method in methods.items():
        setattr(owner, name, method)


def _cut_out(module: ModuleType, name: str) -> dict[tuple[type, str], Callable[..., Any]]:
    """The methods of a class that ask for telemetry, each without those questions and what follows from them."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    cutter = _Cutter()
    [plain] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    touched = []
    for node in plain.body:
        before = cutter.count
        cutter.visit(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and cutter.count > before:
            touched.append(node.name)
    names = dict(vars(module))
    exec(compile(ast.fix_missing_locations(tree), str(module.__file__), "exec"), names)
    return {(getattr(module, name), method): names[name].__dict__[method] for method in touched}


class _Cutter(ast.NodeTransformer):
    """Takes `if … telemetry …` and `if … _trace …` away, with what follows from them."""

    def __init__(self) -> None:
        self.count = 0

    def visit_If(self, node: ast.If) -> Any:
        asked = {part.attr for part in ast.walk(node.test) if isinstance(part, ast.Attribute)}
        if asked & {"telemetry", "_trace"} and not node.orelse:
            self.count += 1
            return ast.Pass()
        return self.generic_visit(node)
