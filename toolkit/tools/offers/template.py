"""A resource's address as it is written: the parameters in it, and whether two addresses can mean one URI.

The templates are RFC 6570's as far as mcp matches them; a test compares the two. Requests are matched by mcp, when
something is served. This reading is for the moment of decoration, which must not wait for that import.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

_EXPRESSION = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.")
_STOPS = {"": "/?#&,", "+": "?#", "#": "", ".": "./?#", "/": "/?#", ";": ";/?#", "?": "&#", "&": "&#"}
"""The characters at which a value ends, for each operator."""
_LONGEST = 8_192


class NotATemplateError(ValueError):
    """An address that cannot be matched; its text says why."""


@dataclass(frozen=True, slots=True)
class Variable:
    """One parameter in an address."""

    name: str
    operator: str
    is_list: bool
    """Takes any number of values: `{/path*}`."""

    @property
    def spans_segments(self) -> bool:
        """Whether its value may hold a `/`."""
        return self.is_list or self.operator in ("+", "#")


Part = str | Variable


@dataclass(frozen=True, slots=True)
class Template:
    """An address, taken apart."""

    text: str
    parts: tuple[Part, ...]
    """Literal texts and parameters in order; the lead characters of operators are literals."""
    query: frozenset[str]
    """Parameters that a URI may leave out: those of a `{?…}` at its end."""

    @property
    def names(self) -> list[str]:
        """The parameters in it."""
        return [part.name for part in self.parts if isinstance(part, Variable)]


def read_template(text: str) -> Template:
    """Take an address apart.

    Raises:
        NotATemplateError: it is no URI, or no template that can be matched.
    """
    if not isinstance(text, str) or not _SCHEME.match(text):
        raise NotATemplateError(f"{text!r} is no URI: it does not begin with a scheme, as in notes://")
    if len(text) > _LONGEST:
        raise NotATemplateError(f"it is longer than {_LONGEST:,} characters")
    if re.search(r"[\s\x00-\x1f\x7f]", text):
        raise NotATemplateError("a URI has no spaces or control characters")
    parts: list[Part] = []
    tail: list[str] = []  # the parameters of a {?…} with nothing after it
    at, has_query = 0, False
    for found in _EXPRESSION.finditer(text):
        operator, between = found[1], text[at : found.start()]
        _literal(parts, between)
        if operator == "?" and has_query:
            raise NotATemplateError("it has two {?…}; write one with all its parameters: {?a,b}")
        variables = [_variable(spec, operator) for spec in found[2].split(",")]
        if operator == "?":
            is_first = not any(char in str(part) for part in parts for char in "?#" if isinstance(part, str))
            tail, has_query = [each.name for each in variables] if is_first else [], True
        else:
            goes_on = operator == "&" and tail and not between
            tail = [*tail, *(each.name for each in variables)] if goes_on else []
        for index, variable in enumerate(variables):
            _literal(parts, _lead(variable, first=index == 0))
            parts.append(variable)
        at = found.end()
    _literal(parts, text[at:])
    template = Template(text, tuple(parts), frozenset(tail if at == len(text) else ()))
    _refuse_ambiguous(template)
    return template


def _literal(parts: list[Part], text: str) -> None:
    if "{" in text or "}" in text:
        raise NotATemplateError("it has a { or } without its partner")
    if text and parts and isinstance(parts[-1], str):
        parts[-1] += text
    elif text:
        parts.append(text)


def _variable(spec: str, operator: str) -> Variable:
    if ":" in spec:
        raise NotATemplateError(f"{{{operator}{spec}}}: a length after the name is not supported")
    name = spec.removesuffix("*")
    if not _NAME.fullmatch(name):
        raise NotATemplateError(f"{{{operator}{spec}}} has no name that a parameter can have")
    if name != spec and operator not in (".", "/", ";"):
        raise NotATemplateError(f"{{{operator}{spec}}}: * works after /, . and ; only, as in {{/{name}*}}")
    return Variable(name, operator, is_list=name != spec)


def _lead(variable: Variable, *, first: bool) -> str:
    """The text that an operator puts before a value."""
    operator = variable.operator
    if variable.is_list:  # it takes its lead characters as part of its values
        return ""
    if operator in ("?", "&", ";"):
        return f"{'&' if operator == '?' and not first else operator}{variable.name}{'=' if operator != ';' else ''}"
    if operator in (".", "/"):
        return operator
    return ("#" if operator == "#" else "") if first else ","


def _refuse_ambiguous(template: Template) -> None:
    names = template.names
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise NotATemplateError(f"'{repeated}' stands in it twice")
    path = [part for part in template.parts if isinstance(part, str) or part.name not in template.query]
    for one, other in pairwise(path):
        if isinstance(one, Variable) and isinstance(other, Variable):
            raise NotATemplateError(f"nothing stands between {{{one.name}}} and {{{other.name}}}; put a / there")
    wide = [part.name for part in path if isinstance(part, Variable) and part.spans_segments]
    if len(wide) > 1:
        raise NotATemplateError(f"'{wide[0]}' and '{wide[1]}' may both hold a /, so that their end cannot be told")


def overlap(one: Template, other: Template) -> bool:
    """Whether some URI is meant by both addresses; parameters after a `?` do not tell them apart."""
    left, right = _steps(one), _steps(other)
    reached, todo = {(0, 0)}, [(0, 0)]
    while todo:
        i, j = todo.pop()
        if i == len(left) and j == len(right):
            return True
        for place in _next(left, right, i, j):
            if place not in reached:
                reached.add(place)
                todo.append(place)
    return False


_Step = tuple[str, str | None]
"""A literal character, or the characters that a value may not hold."""


def _steps(template: Template) -> list[_Step]:
    steps: list[_Step] = []
    for part in template.parts:
        if isinstance(part, Variable):
            if part.name in template.query:
                break
            steps.append(("", "?#" if part.is_list else _STOPS[part.operator]))
        else:
            steps += [(char, None) for char in part]
    if template.query:  # the lead of the first one, ?name=, went into the literal before it
        first = next(part for part in template.parts if isinstance(part, Variable) and part.name in template.query)
        del steps[len(steps) - len(f"?{first.name}=") :]
    return steps


def _next(left: list[_Step], right: list[_Step], i: int, j: int) -> list[tuple[int, int]]:
    """Where two readers of one URI can be after their next step."""
    one = left[i] if i < len(left) else None
    other = right[j] if j < len(right) else None
    places = []
    if one is not None and one[1] is not None:
        places.append((i + 1, j))  # the value ends here
        if other is not None and other[1] is None and other[0] not in one[1]:
            places.append((i, j + 1))
    if other is not None and other[1] is not None:
        places.append((i, j + 1))
        if one is not None and one[1] is None and one[0] not in other[1]:
            places.append((i + 1, j))
    if one is not None and other is not None and one[1] is None and one == other:
        places.append((i + 1, j + 1))
    return places
