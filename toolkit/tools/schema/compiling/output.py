"""Structured results, for tools that ask for them: an output schema and content that fits it.

MCP wants an object; a list, a number or a text travels as `{"result": …}`.
"""

from __future__ import annotations

import functools
import json
import types
import typing
from collections import abc
from typing import Any, get_args, get_origin

from pydantic import PydanticUserError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from toolkit._base.json_bytes import as_read
from toolkit.errors import RenderError
from toolkit.tools.content import Audio, Image, Resource, Text, ToolResult
from toolkit.tools.plain_json import in_base64
from toolkit.tools.schema.compiling.compile import compile_output
from toolkit.tools.schema.compiling.fitting import fits, is_plain
from toolkit.tools.schema.compiling.given import GivenSchema, NotASchemaError
from toolkit.tools.schema.compiling.unusable import UnusableTypeError
from toolkit.tools.schema.plain import plain_schema
from toolkit.tools.schema.portable import Schema
from toolkit.tools.schema.subject import Subject

_STREAMS = (abc.Iterator, abc.Iterable, abc.Generator, abc.AsyncIterator, abc.AsyncIterable, abc.AsyncGenerator)
_KEY = "result"
_FIX = "Declare a return type that pydantic can serialise, or leave structured=True out"


class Output:
    """The declared result of one tool: its schema, and values in that form."""

    def __init__(self, subject: Subject) -> None:
        annotation = _declared(subject)
        try:
            schema, definitions, self._adapter, self._has_bytes = compile_output(annotation)
        except PydanticUserError as error:
            raise subject.refusal(f"its return type has no schema: {annotation}", _FIX) from error
        except UnusableTypeError as error:
            raise subject.refusal(f"its return type cannot be used: {error}", error.fix) from error
        self._wraps = schema.get("type") != "object"
        if self._wraps:
            schema = {"type": "object", "properties": {_KEY: schema}, "required": [_KEY], "additionalProperties": False}
        self.schema: Schema = {**schema, "$defs": definitions} if definitions else schema
        self._is_plain = is_plain(self.schema)

    def structured(self, value: Any) -> dict[str, Any]:
        """The value as the schema describes it.

        Raises:
            RenderError: the tool returned something other than it declares.
        """
        value = value.value if isinstance(value, ToolResult) else value
        try:
            if self._has_bytes:  # pydantic's JSON mode takes them for UTF-8 text
                python = self._adapter.dump_python(value, by_alias=True, warnings="error")
                plain = to_jsonable_python(in_base64(python), by_alias=True)
            else:
                plain = self._adapter.dump_python(value, mode="json", by_alias=True, warnings="error")
        except (PydanticSerializationError, ValueError) as error:
            raise RenderError(f"the tool returned a {type(value).__name__}, not what it declares: {error}") from error
        given = {_KEY: plain} if self._wraps else plain
        structured = nulled(given)
        # pydantic takes None for any field, and asks nothing of a range or of a key that is missing.
        if not (self._is_plain and fits(structured, self.schema)) and (problems := self._problems(structured)):
            raise misfit_in_words(problems, "return type", is_nulled=structured is not given)
        sent: dict[str, Any] = structured
        return sent

    def _problems(self, structured: Any) -> list[str]:
        """What a client would find wrong; nothing where the schema is one that no client can compile."""
        return [] if self._check is None else self._check.problems(structured, "the result")

    @functools.cached_property
    def _check(self) -> GivenSchema | None:
        try:
            return GivenSchema(self.schema)
        except NotASchemaError:
            return None


def is_certain_output(subject: Subject) -> bool:
    """Whether `Output` can be made of it for certain.

    Raises:
        ToolDefinitionError: it declares nothing, or nothing that has a structured form.
    """
    return plain_schema(_declared(subject)) is not None


def nulled(structured: Any) -> Any:
    """The result with null for NaN and infinity; itself where there is none."""
    try:
        json.dumps(structured, allow_nan=False)
        return structured
    except ValueError:  # JSON has no such numbers
        return as_read(structured)


def misfit_in_words(problems: list[str], schema: str, *, is_nulled: bool) -> RenderError:
    """Why a result is not sent: what does not fit the schema of this name."""
    if is_nulled:
        return RenderError(
            f"the tool returned a number that JSON does not have (NaN or infinity): {problems[0]}",
            fix="Declare it as float | None, or return another value",
        )
    return RenderError(f"the tool returned what its {schema} does not allow: {'; '.join(problems)}")


def _declared(subject: Subject) -> Any:
    hints = subject.hints()
    if "return" not in hints:
        raise subject.refusal("structured=True needs a return type", _FIX)
    annotation = hints["return"]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is ToolResult or origin is ToolResult:
        annotation = arguments[0] if arguments else Any
    elif origin in _STREAMS:
        annotation = list[arguments[0]]  # type: ignore[valid-type]  # generators are collected
    if _has_content(annotation):
        raise subject.refusal("content objects have no structured form", _FIX)
    return annotation


def _has_content(annotation: Any) -> bool:
    members = get_args(annotation) if get_origin(annotation) in (typing.Union, types.UnionType, list) else (annotation,)
    return any(member in (Text, Image, Audio, Resource) for member in members)
