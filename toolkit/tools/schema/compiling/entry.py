"""A tool whose schemas are given, as an entry of somebody's catalogue: arguments in and structured results out.

The schemas reach clients as they were given. The function gets the arguments as one dict, checked, and nothing is
filled in or converted but for one slip of models: a list or an object that is sent as JSON text is read.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticSerializationError

from toolkit.errors import ArgumentsError, RenderError
from toolkit.tools.content import ToolResult
from toolkit.tools.plain_json import json_value
from toolkit.tools.schema.compiling.compile import from_json_text, reads_json
from toolkit.tools.schema.compiling.given import GivenSchema, NotASchemaError
from toolkit.tools.schema.compiling.output import misfit_in_words, nulled
from toolkit.tools.schema.compiling.parse import was_not_called
from toolkit.tools.schema.portable import PROPERTY_NAME, Schema
from toolkit.tools.schema.subject import Subject, is_context


@dataclass(frozen=True, slots=True)
class Entry:
    """The schemas of a catalogue's entry."""

    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None = None


class GivenArguments:
    """Arguments that fit a given schema.

    Raises:
        ToolDefinitionError: it is no schema for arguments, or the function does not take them.
    """

    def __init__(self, subject: Subject, entry: Entry) -> None:
        self._tool = subject.name
        self._parameter, self.context_parameter = _parameters(subject)
        self._check = _compiled(subject, "input_schema", entry.input_schema)
        self.schema: Schema = self._check.schema
        """The JSON Schema as it was given."""
        properties = self.schema.get("properties", {})
        for name in properties:
            if not PROPERTY_NAME.fullmatch(name):
                raise subject.refusal(
                    f"the model API takes no argument called '{name}', and refuses every request with this tool in it",
                    'Use 1 to 64 letters (a to z), digits, "_", "." or "-" in input_schema',
                    name,
                )
        definitions = {**self.schema.get("definitions", {}), **self.schema.get("$defs", {})}
        parts = {name: part for name, part in properties.items() if isinstance(part, dict)}
        self._read_as_json = {name for name, part in parts.items() if reads_json(part, definitions)}

    def parse(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """The keyword arguments for the function.

        Raises:
            ArgumentsError: names every argument that does not fit the schema.
        """
        arguments = dict(given or {})
        for name in self._read_as_json & arguments.keys():
            if type(arguments[name]) is str:
                arguments[name] = from_json_text(arguments[name])
        if problems := self._check.problems(arguments):
            raise ArgumentsError(was_not_called(self._tool, problems))
        return {self._parameter: arguments}


class GivenOutput:
    """Results that fit a given schema.

    Raises:
        ToolDefinitionError: it is no schema.
    """

    def __init__(self, subject: Subject, entry: Entry) -> None:
        self._check = _compiled(subject, "output_schema", entry.output_schema)
        self.schema: Schema = self._check.schema

    def structured(self, value: Any) -> dict[str, Any]:
        """The value as the schema describes it.

        Raises:
            RenderError: it is something else.
        """
        value = value.value if isinstance(value, ToolResult) else value
        try:
            plain = json_value(value)
        except (PydanticSerializationError, ValueError) as error:
            raise RenderError(f"the tool returned a {type(value).__name__}, which is no JSON: {error}") from error
        if not isinstance(plain, dict):
            raise RenderError(f"the tool returned a {type(value).__name__}, and its output_schema is an object")
        structured = nulled(plain)
        if problems := self._check.problems(structured, "the result"):
            raise misfit_in_words(problems, "output_schema", is_nulled=structured is not plain)
        sent: dict[str, Any] = structured
        return sent


def _compiled(subject: Subject, what: str, schema: object) -> GivenSchema:
    try:
        return GivenSchema(schema)
    except NotASchemaError as error:
        fix = 'Give a JSON Schema of an object: {"type": "object", "properties": {…}}'
        raise subject.refusal(f"its {what} cannot be used: {error}", fix) from error


def _parameters(subject: Subject) -> tuple[str, str | None]:
    """The names of the parameters that take the arguments and the context."""
    hints = subject.hints() if len(subject.parameters) > 1 else {}
    contexts = [each.name for each in subject.parameters if is_context(hints.get(each.name))]
    others = [each for each in subject.parameters if each.name not in contexts]
    needed = [each for each in others if each.default is inspect.Parameter.empty] or others[:1]
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if len(needed) != 1 or needed[0].kind not in by_name or len(contexts) > 1:
        raise subject.refusal(
            "its function does not take the arguments as one dict",
            "Write it as: def run_it(arguments: dict) -> …, with ctx: ToolContext beside it if it needs one",
        )
    return needed[0].name, contexts[0] if contexts else None
