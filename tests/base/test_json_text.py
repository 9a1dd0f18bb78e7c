"""Setting one value in somebody's JSON file leaves every other character as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from toolkit._base.json_text import NotAnObject, read, scan, with_member

NAMES = st.text(max_size=6)
LEAVES = st.none() | st.booleans() | st.integers(-1000, 1000) | st.floats(allow_nan=False, allow_infinity=False) | NAMES
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)
LAYOUTS = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 0, 1, 2, 4, "\t"]),
        "ensure_ascii": st.booleans(),
        "newline": st.sampled_from(["\n", "\r\n"]),
    }
)


def laid_out(value: Any, layout: dict[str, Any]) -> str:
    text = json.dumps(value, indent=layout["indent"], ensure_ascii=layout["ensure_ascii"])
    return text.replace("\n", layout["newline"])


def paths_of(value: dict[str, Any]) -> list[tuple[str, ...]]:
    """Where there is a member: every name, and every name inside an object."""
    found: list[tuple[str, ...]] = []
    for name, inside in value.items():
        found.append((name,))
        if isinstance(inside, dict):
            found += [(name, *rest) for rest in paths_of(inside)]
    return found


def value_at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value[name]
    return value


def updated(value: dict[str, Any], path: tuple[str, ...], new: Any) -> dict[str, Any]:
    inside = new if len(path) == 1 else updated(value.get(path[0], {}), path[1:], new)
    return {**value, path[0]: inside}


@settings(deadline=None)
@given(OBJECTS, LAYOUTS, VALUES, st.data())
def test_a_member_that_is_there_is_set_and_every_other_character_stays(
    value: dict[str, Any], layout: dict[str, Any], new: Any, data: st.DataObject
) -> None:
    value.setdefault("always", {})
    path = data.draw(st.sampled_from(paths_of(value)))
    text = laid_out(value, layout)
    place = scan(text).places[path]

    edited = with_member(text, path, new)

    assert json.loads(edited) == updated(value, path, new)
    assert edited.startswith(text[: place.start])
    assert edited.endswith(text[place.end :])


@settings(deadline=None)
@given(OBJECTS, LAYOUTS, VALUES, st.data())
def test_a_member_that_is_not_there_is_added_and_every_other_member_keeps_its_text(
    value: dict[str, Any], layout: dict[str, Any], new: Any, data: st.DataObject
) -> None:
    objects = [(), *(path for path in paths_of(value) if isinstance(value_at(value, path), dict))]
    around = data.draw(st.sampled_from(objects))
    name = data.draw(NAMES.filter(lambda name: name not in value_at(value, around)))
    more = data.draw(st.lists(NAMES, max_size=2))
    path = (*around, name, *more)
    text = laid_out(value, layout)

    edited = with_member(text, path, new)

    assert json.loads(edited) == updated(value, path, new)
    assert list(value_at(json.loads(edited), around)) == [*value_at(value, around), name]
    before, after = scan(text), scan(edited)
    for other, place in before.places.items():
        if other != path[: len(other)]:
            kept = after.places[other]
            assert edited[kept.start : kept.end] == text[place.start : place.end]


def numbered(value: Any, count: list[int]) -> Any:
    """The same shape with a text of its own in place of every leaf."""
    if isinstance(value, dict):
        return {name: numbered(inside, count) for name, inside in value.items()}
    if isinstance(value, list):
        return [numbered(inside, count) for inside in value]
    count[0] += 1
    return f"<<leaf {count[0]}>>"


def leaves_of(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        return [(path, value)]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [leaf for at, inside in items for leaf in leaves_of(inside, (*path, at))]


@settings(deadline=None)
@given(OBJECTS, LAYOUTS)
def test_the_line_of_a_value_is_the_line_it_stands_in(value: dict[str, Any], layout: dict[str, Any]) -> None:
    value = numbered(value, [0])
    text = laid_out(value, layout)
    known = scan(text)
    rows = text.split("\n")
    for path, leaf in leaves_of(value):
        place = known.places[path]
        assert json.loads(text[place.start : place.end]) == leaf
        assert leaf in rows[known.line_of(path) - 1]
        assert known.line_of((*path, "not", "there")) == known.line_of(path)


def test_comments_and_trailing_commas_stay_where_they_are() -> None:
    text = '{\n  // mine\n  "a": 1, /* "a": 9 */\n  "b": {\n    "url": "http://x", // two slashes\n  },\n}\n'
    edited = with_member(text, ("b", "c"), [True], comments=True)
    assert read(edited, comments=True) == {"a": 1, "b": {"url": "http://x", "c": [True]}}
    for kept in ("// mine", '/* "a": 9 */', "// two slashes"):
        assert kept in edited
    with pytest.raises(json.JSONDecodeError):
        with_member(text, ("b", "c"), 1)


def test_a_name_given_twice_is_told_with_its_line() -> None:
    assert scan('{\n  "a": 1,\n  "b": {"c": 1,\n    "c": 2},\n  "a": 3\n}').repeated == [(("b", "c"), 4), (("a",), 5)]


@pytest.mark.parametrize(
    ("text", "path", "at"),
    [("[]", ("a",), ()), ('{"a": 1}', ("a", "b"), ("a",)), ('{"a": {"b": []}}', ("a", "b", "0"), ("a", "b"))],
)
def test_what_is_no_object_takes_no_member(text: str, path: tuple[str, ...], at: tuple[str, ...]) -> None:
    with pytest.raises(NotAnObject) as caught:
        with_member(text, path, 1)
    assert caught.value.path == at


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_file_becomes_an_object(text: str) -> None:
    assert json.loads(with_member(text, ("a", "b"), 1)) == {"a": {"b": 1}}
