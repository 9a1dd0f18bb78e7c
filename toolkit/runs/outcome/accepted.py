"""What the CLI refuses in the schema of an output, found before anything is started.

The CLI reads a schema as draft 7, and strictly: a keyword that it does not know ends it
with an error before the first model call (measured with CLI 2.1). Only what it looks at
counts: what stands in `$defs` and is referred to by nothing may be anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from toolkit._base.words import safe_line

_DRAFT = "http://json-schema.org/draft-07/schema"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KEYWORDS = _words(
    """
    $schema $id $defs $vocabulary $comment definitions $ref $async type nullable const enum format
    maximum minimum exclusiveMaximum exclusiveMinimum multipleOf maxLength minLength pattern maxProperties
    minProperties required maxItems minItems uniqueItems not anyOf oneOf allOf if then else propertyNames
    additionalProperties dependencies properties patternProperties additionalItems items contains
    title description default deprecated readOnly writeOnly examples contentMediaType contentEncoding contentSchema
    """
)
_ONE = ("not", "if", "then", "else", "propertyNames", "additionalProperties", "additionalItems", "items", "contains")
_SEVERAL = ("anyOf", "oneOf", "allOf", "items")
_NAMED = ("properties", "patternProperties", "dependencies")
_INSTEAD = {
    "prefixItems": "A tuple of several types has it: use a dataclass with a field for each, or a list",
    "minContains": "Leave it out: draft 7 has no such count",
    "maxContains": "Leave it out: draft 7 has no such count",
    **dict.fromkeys(("dependentRequired", "dependentSchemas"), "Write it as draft 7 has it: 'dependencies'"),
    **dict.fromkeys(("$anchor", "$dynamicRef", "$dynamicAnchor"), 'Put it into "$defs": "$ref": "#/$defs/NAME"'),
}
"""What to do about keywords of later drafts."""
_WIDTH = 60


def refused_by_cli(schema: Mapping[str, Any]) -> tuple[str, str] | None:
    """Why the CLI would refuse a schema, and what to do; None where nothing is known against it."""
    if str(schema.get("$schema", _DRAFT)).removesuffix("#") != _DRAFT:
        said = safe_line(str(schema["$schema"]), _WIDTH)
        return f"the CLI does not know the draft '{said}'", "Leave $schema out: it is read as draft 7"
    seen, pending = set[int](), [("the top", schema)]
    has_ids = False
    unknown_refs = list[tuple[str, str]]()
    while pending:
        place, part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        has_ids = has_ids or "$id" in part
        if why := _refused_in(place, part):
            return why
        if "$ref" in part:
            found = _target(schema, str(part["$ref"]))
            if found is None:
                unknown_refs.append((place, str(part["$ref"])))
            elif isinstance(found, Mapping):
                pending.append((str(part["$ref"]), found))
        pending.extend(_inside(place, part))
    if unknown_refs and not has_ids:  # with ids of its own a reference can lead anywhere in it
        place, ref = unknown_refs[0]
        what = f"at {place}: '$ref' leads to '{safe_line(ref, _WIDTH)}', and there is nothing"
        return what, 'Put what is meant into "$defs", and refer to it as "#/$defs/NAME"'
    return None


def _refused_in(place: str, part: Mapping[str, Any]) -> tuple[str, str] | None:
    for keyword in part:
        if keyword not in _KEYWORDS:
            what = f"at {place}: the CLI knows no keyword '{safe_line(str(keyword), _WIDTH)}', and refuses the schema"
            return what, _INSTEAD.get(str(keyword), "Leave it out; a note belongs into 'description'")
    if "if" in part and not {"then", "else"} & set(part):
        return f"at {place}: 'if' stands without 'then' and 'else', and the CLI refuses the schema", "Leave it out"
    if "if" not in part and (lonely := [word for word in ("then", "else") if word in part]):
        return f"at {place}: '{lonely[0]}' stands without 'if', and the CLI refuses the schema", "Leave it out"
    return None


def _inside(place: str, part: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The schemas directly in one, each with its place."""
    above = "" if place == "the top" else f"{place}."
    for keyword in _ONE:
        if isinstance(one := part.get(keyword), Mapping):
            yield f"{above}{keyword}", one
    for keyword in _SEVERAL:
        several = part.get(keyword)
        for number, one in enumerate(several if isinstance(several, list | tuple) else ()):
            if isinstance(one, Mapping):
                yield f"{above}{keyword}[{number}]", one
    for keyword in _NAMED:
        named = part.get(keyword)
        for name, one in (named if isinstance(named, Mapping) else {}).items():
            if isinstance(one, Mapping):
                yield f"{above}{keyword}.{safe_line(str(name), _WIDTH)}", one


def _target(schema: Mapping[str, Any], ref: str) -> Any:
    """What a reference leads to; None where that is nothing."""
    where, _, pointer = ref.partition("#")
    if where == _DRAFT:
        return True
    if where or (pointer and not pointer.startswith("/")):
        return None
    found: Any = schema
    for step in pointer.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, list | tuple) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found if isinstance(found, Mapping | bool) else None
