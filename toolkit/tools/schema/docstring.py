"""Read a docstring: what each parameter means, and the text without that section.

Understands the Google, NumPy and Sphinx styles. docstring-parser reads the
parameters; the section is then cut out of the text itself, so that everything
else reaches the model as its author wrote it.
"""

from __future__ import annotations

import inspect
import re

_SECTION_NAMES = r"(?:Args|Arguments|Parameters|Params|Other Parameters|Keyword Args|Keyword Arguments|Attributes)"
_GOOGLE_HEADER = re.compile(rf"{_SECTION_NAMES}:\s*$")
_NUMPY_HEADER = re.compile(rf"{_SECTION_NAMES}\s*$")
_NUMPY_RULE = re.compile(r"-{3,}\s*$")
_SPHINX_FIELD = re.compile(r":(?:param|parameter|arg|argument|key|keyword|type)\b[^:]*:")


def parameter_texts(docstring: str | None) -> dict[str, str]:
    """What the docstring says of each parameter, on one line each."""
    if not docstring or not _mentions_parameters(docstring):
        return {}
    from docstring_parser import parse

    found = parse(inspect.cleandoc(docstring))
    return {p.arg_name: " ".join((p.description or "").split()) for p in found.params if p.description}


def description(docstring: str | None) -> str:
    """The docstring without its parameter section."""
    if not docstring:
        return ""
    lines = inspect.cleandoc(docstring).splitlines()
    if not _mentions_parameters(docstring):
        return "\n".join(lines)
    kept: list[str] = []
    at = 0
    while at < len(lines):
        end = _section_end(lines, at)
        if end == at:
            kept.append(lines[at])
            end = at + 1
        at = end
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()


def _mentions_parameters(docstring: str) -> bool:
    """A cheap question first: most docstrings have no such section."""
    return bool(re.search(rf"^\s*(?:{_SECTION_NAMES}:?\s*$|{_SPHINX_FIELD.pattern})", docstring, re.MULTILINE))


def _section_end(lines: list[str], at: int) -> int:
    """The line after the parameter section that starts at `at`; `at` itself where none does."""
    line = lines[at]
    if _GOOGLE_HEADER.match(line) or _SPHINX_FIELD.match(line):
        return _after_indented(lines, at + 1)
    if _NUMPY_HEADER.match(line) and at + 1 < len(lines) and _NUMPY_RULE.match(lines[at + 1]):
        for end in range(at + 2, len(lines)):
            if end + 1 < len(lines) and lines[end].strip() and _NUMPY_RULE.match(lines[end + 1]):
                return end
        return len(lines)
    return at


def _after_indented(lines: list[str], at: int) -> int:
    """The first line from `at` on that is neither blank nor indented, blank lines before it left alone."""
    end = at
    for number in range(at, len(lines)):
        if lines[number].strip() and not lines[number][0].isspace():
            break
        if lines[number].strip():
            end = number + 1
    return end
