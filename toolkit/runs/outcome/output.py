"""Structured output: a Python type as the schema the CLI wants, and its answer as a value of that type.

The CLI can only fill an object. A list, a number or a text travels wrapped in one
and is unwrapped again; users never see the wrapping. So does an object with alternatives
at its top, because the model API refuses every request with such a tool in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import PydanticUserError, ValidationError

from toolkit.errors import RunError
from toolkit.runs.outcome.accepted import refused_by_cli
from toolkit.tools.schema import PROPERTY_NAME, combined, doubts
from toolkit.tools.schema.compiling import CompiledType, UnusableTypeError, check_schema, compile_type, plain_copy

_KEY = "result"
_SHARED = ("$defs", "definitions")
"""Where schemas stand that others refer to; they stay where they are when a schema is wrapped."""
_STAY = [[key] for key in _SHARED]


class OutputShape:
    """The form a run's output has to have: a type, or a JSON Schema given as a mapping.

    Raises:
        ValueError: the mapping is no JSON Schema.
        RunError: the type has none.
    """

    def __init__(self, wanted: Any) -> None:
        self._type: CompiledType | None = None
        if isinstance(wanted, Mapping):
            self._schema = plain_copy(wanted)
            check_schema(self._schema)
        else:
            self._type = _compiled(wanted)
            definitions = self._type.definitions
            self._schema = {**self._type.schema, **({"$defs": definitions} if definitions else {})}
        self._wraps = self._schema.get("type") != "object" or bool(combined(self._schema))

    def format(self) -> dict[str, Any]:
        """The SDK's `output_format`."""
        schema = self._schema
        if self._wraps:
            moved = _moved(schema)
            shared = {key: moved.pop(key) for key in _SHARED if key in moved}
            schema = {"type": "object", "properties": {_KEY: moved}, "required": [_KEY], "additionalProperties": False}
            schema |= shared
        return {"type": "json_schema", "schema": schema}

    def refused_name(self) -> str | None:
        """A field with whose name the model API refuses every request; None where there is none."""
        names = self.format()["schema"].get("properties", {})
        return next((name for name in names if not PROPERTY_NAME.fullmatch(name)), None)

    def refused_by_cli(self) -> tuple[str, str] | None:
        """Why the CLI would refuse it, and what to do; None where nothing is known against it."""
        return refused_by_cli(self.format()["schema"])

    def doubts(self) -> list[tuple[str, str]]:
        """What the model API may refuse further inside: what, and what to do."""
        return doubts(self.format()["schema"])

    def parse(self, given: Any) -> Any:
        """The value in the CLI's `structured_output`.

        Raises:
            ValueError: there is none, or it does not have the form.
        """
        if given is None:
            raise ValueError("the model called no StructuredOutput")
        if self._wraps:
            if not isinstance(given, Mapping) or _KEY not in given:
                raise ValueError(f"no '{_KEY}' in the output")
            given = given[_KEY]
        if self._type is None:
            return given
        try:
            return self._type.validate(given)
        except ValidationError as error:
            raise ValueError(str(error)) from error


def _moved(part: Any) -> Any:
    """A part of a schema with its references as they are once the whole is a property of another schema."""
    if isinstance(part, list):
        return [_moved(each) for each in part]
    if not isinstance(part, dict):
        return part
    made = {key: _moved(value) for key, value in part.items()}
    reference = made.get("$ref")
    if isinstance(reference, str) and re.match("#(/|$)", reference) and reference.split("/")[1:2] not in _STAY:
        made["$ref"] = f"#/properties/{_KEY}{reference[1:]}"
    return made


def _compiled(wanted: Any) -> CompiledType:
    try:
        return compile_type(wanted)
    except PydanticUserError as error:
        name = getattr(wanted, "__name__", wanted)
        raise RunError(
            f"output={name}: this type has no JSON Schema",
            fix="Use a dataclass, a pydantic model, a TypedDict, a list of these or a plain type",
        ) from error
    except UnusableTypeError as error:
        raise RunError(f"output={getattr(wanted, '__name__', wanted)}: {error}", fix=error.fix) from error
