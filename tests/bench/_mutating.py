"""Every small mistake that could be made in a module: one changed place each.

What is changed decides something: comparisons, conditions, numbers, listed texts,
return values, guards. Types, messages, asserts, decorators and docstrings stay.
"""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One place in a module, and what is written there instead."""

    line: int
    start: int
    """Where the changed bytes begin in the module."""
    end: int
    old: str
    new: str
    code: str
    """The line it begins in, as it stands in the module."""

    def text(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{' '.join(self.old.split())} → {' '.join(self.new.split())}"


_SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class _Finder(ast.NodeVisitor):
    """Collects what could be changed; leaves alone what only types, messages or documents."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.expr | ast.stmt, str]] = []
        self._listed = 0

    def _add(self, node: ast.expr | ast.stmt, new: ast.expr | str) -> None:
        self.found.append((node, new if isinstance(new, str) else f"({ast.unparse(new)})"))

    def _add_negated(self, test: ast.expr) -> None:
        """Unless swapping its comparison, or taking its `not` away, comes to the same."""
        is_swapped = isinstance(test, ast.Compare) and len(test.ops) == 1 and not isinstance(test.ops[0], _ORDERED)
        if not is_swapped and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            self._add(test, ast.UnaryOp(ast.Not(), test))

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1 and type(node.ops[0]) in _SWAPPED:
            self._add(node, ast.Compare(node.left, [_SWAPPED[type(node.ops[0])]()], node.comparators))
        self._with_texts(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._add(node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add(node, node.operand)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        self._add_negated(node.test)
        if not node.orelse and len(node.body) == 1 and isinstance(node.body[0], ast.Return | ast.Raise | ast.Continue):
            self._add(node, "pass")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._add_negated(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._add_negated(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._add_negated(test)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add(node, repr(not value))
        elif isinstance(value, int):
            self._add(node, repr(value + 1))
            self._add(node, repr(value - 1) if value else "(-1)")
        elif isinstance(value, str) and self._listed:
            self._add(node, repr(value + "x"))
        elif isinstance(value, bytes) and self._listed:
            self._add(node, repr(value + b"x"))

    def _with_texts(self, node: ast.AST) -> None:
        """Look below, where a text is compared or listed and so decides something."""
        self._listed += 1
        self.generic_visit(node)
        self._listed -= 1

    visit_Set = visit_Tuple = visit_List = _with_texts  # noqa: N815

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and ast.unparse(node.value) != "None":
            self._add(node, "return None")
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add(node, "pass")

    def visit_Call(self, node: ast.Call) -> None:
        listed, self._listed = self._listed, 0
        self.generic_visit(node)
        self._listed = listed

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if ast.unparse(node.value) != "Literal":
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for part in [*node.args.defaults, *(one for one in node.args.kw_defaults if one), *node.body]:
            self.visit(part)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """An assert tells a type checker what is known."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """A message."""


@functools.cache
def mutants_of(source: bytes) -> tuple[Mutant, ...]:
    """Every mutant of a module that still compiles, in the order of their places."""
    finder = _Finder()
    finder.visit(ast.parse(source))
    starts, lines = [0], source.splitlines(keepends=True)
    for line in lines:
        starts.append(starts[-1] + len(line))
    found: dict[tuple[int, int, str], Mutant] = {}
    for node, new in finder.found:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        code = lines[node.lineno - 1].decode().strip()
        mutant = Mutant(node.lineno, start, end, source[start:end].decode(), new, code)
        try:
            ast.parse(mutant.text(source))
        except SyntaxError:
            continue
        found[start, end, new] = mutant
    return tuple(sorted(found.values(), key=lambda one: (one.start, one.end, one.new)))
