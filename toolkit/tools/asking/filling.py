"""A form filled in by a person: what was typed for each field becomes the value that the field has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit._base.words import did_you_mean, safe_line
from toolkit.errors import RunError

_YES = ("yes", "y", "true", "1", "on")
_NO = ("no", "n", "false", "0", "off")


def filled(form: Mapping[str, Any], typed: Mapping[str, str]) -> dict[str, Any]:
    """The answer to a form. A field for which nothing was typed has its default.

    Raises:
        RunError: a field that does not exist, has no value, or one that it cannot have.
    """
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

    fields: Mapping[str, Mapping[str, Any]] = form["properties"]
    for name in typed:
        if name not in fields:
            raise RunError(f"the form has no field '{safe_line(name, 60)}'{did_you_mean(name, fields)}")
    found: dict[str, Any] = {}
    for name, field in fields.items():
        if name in typed:
            found[name] = _value(name, field, typed[name])
        elif "default" in field:
            found[name] = field["default"]
        elif name in form.get("required", ()):
            raise RunError(f"the field '{name}' needs a value: {hint_of(field)}")
    wrong = next(iter(Draft202012Validator(dict(form)).iter_errors(found)), None)
    if wrong is not None:
        name = str(wrong.path[0]) if wrong.path else "the form"
        raise RunError(f"'{name}' cannot have this value: {safe_line(wrong.message, 200)}")
    return found


def hint_of(field: Mapping[str, Any]) -> str:
    """What may be typed for a field, in a few words."""
    choices = choices_of(field)
    kind = str(field.get("type", ""))
    if kind == "array":
        return f"some of: {', '.join(choices)}, with commas between"
    if choices:
        return f"one of: {', '.join(choices)}"
    return {"boolean": "yes or no", "integer": "a whole number", "number": "a number"}.get(kind, "a text")


def choices_of(field: Mapping[str, Any]) -> dict[str, str]:
    """The values that a field may have, each with its title; nothing where it is free."""
    inner = field.get("items") or field
    if "enum" in inner:
        names = inner.get("enumNames") or inner["enum"]
        return {str(value): str(name) for value, name in zip(inner["enum"], names, strict=False)}
    return {
        str(one["const"]): str(one.get("title", one["const"])) for one in inner.get("oneOf") or inner.get("anyOf") or ()
    }


def _value(name: str, field: Mapping[str, Any], text: str) -> Any:
    kind, choices = field.get("type"), choices_of(field)
    if kind == "array":
        return [_choice(name, field, one.strip(), choices) for one in text.split(",") if one.strip()]
    if choices:
        return _choice(name, field, text.strip(), choices)
    if kind == "boolean" and text.strip().lower() in (*_YES, *_NO):
        return text.strip().lower() in _YES
    if kind in ("integer", "number"):
        try:
            return int(text) if kind == "integer" else float(text)
        except ValueError:
            pass
    elif kind != "boolean":
        return text
    raise RunError(f"the field '{name}' is {hint_of(field)}, not '{safe_line(text, 60)}'")


def _choice(name: str, field: Mapping[str, Any], text: str, choices: Mapping[str, str]) -> str:
    """The choice that was meant: by its value, or by its title, whatever the case."""
    for value, title in choices.items():
        if text == value or text.lower() in (value.lower(), title.lower()):
            return value
    raise RunError(f"the field '{name}' is {hint_of(field)}, not '{safe_line(text, 60)}'")
