"""The parameters of a tool: their schema, and the way from JSON to Python.

The schema is written when a client asks for it, the validators are compiled when a call comes: most of what a server is
asked for first needs neither pydantic nor the time to load it.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Optional, get_args, get_origin

from toolkit.tools.schema.docstring import parameter_texts
from toolkit.tools.schema.plain import plain_schema, text_in, text_of
from toolkit.tools.schema.portable import Schema, described, portable, without_null
from toolkit.tools.schema.subject import Subject, is_context

if TYPE_CHECKING:
    from toolkit.tools.schema.compiling import CompiledType, Parser


class Arguments:
    """The parameters of one tool."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._annotations: dict[str, Any] = {}
        self._required: list[str] = []
        self._parser: Parser | None = None
        self.context_parameter: str | None = None
        """The name of the parameter that takes the ToolContext, if there is one."""
        self.schema: Schema = {"type": "object", "properties": {}}
        """The JSON Schema a client sees."""
        self._build(subject)

    def parse(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """The keyword arguments for the function; parameters left out keep their default.

        Raises:
            ArgumentsError: names every wrong, unknown and missing argument.
        """
        if self._parser is None:
            from toolkit.tools.schema.compiling import Parser

            self._parser = Parser(self._subject, self._annotations, self._required)
        return self._parser.parse(given)

    def _build(self, subject: Subject) -> None:
        hints = subject.hints()
        documented = parameter_texts(subject.function.__doc__)
        definitions: dict[str, Schema] = {}
        for parameter in subject.parameters:
            hint = hints.get(parameter.name, Any)
            if is_context(hint):
                if self.context_parameter is not None:
                    what = f"'{self.context_parameter}' and '{parameter.name}' both take the ToolContext of the call"
                    raise subject.refusal(what, "Leave one of them out", parameter.name)
                self.context_parameter = parameter.name
                continue
            bare, text = _split_text(hint)
            if parameter.default is None and bare not in (Any, object):
                bare = Optional[bare]  # noqa: UP045  # a model sends the default it reads in the schema
            self._annotations[parameter.name] = bare
            own = _shown(subject, parameter.name, bare, definitions)
            if parameter.default is None:
                own = without_null(own)
            if text or parameter.name in documented:
                own = _with_description(own, text, documented.get(parameter.name))
            if parameter.default is inspect.Parameter.empty:
                self._required.append(parameter.name)
            elif parameter.default is not None:
                own = {**own, **_default(parameter.default)}
            self.schema["properties"][parameter.name] = own
        if self._required:
            self.schema["required"] = self._required
        if definitions:
            self.schema["$defs"] = definitions


def is_certain(subject: Subject) -> bool:
    """Whether `Arguments` can be made of it for certain, so that this can wait until a client asks.

    Raises:
        ToolDefinitionError: an annotation means nothing.
    """
    hints = subject.hints()
    wanted = [hints.get(parameter.name, Any) for parameter in subject.parameters]
    others = [hint for hint in wanted if not is_context(hint)]
    return len(wanted) - len(others) <= 1 and all(plain_schema(hint) is not None for hint in others)


def _shown(subject: Subject, parameter: str, annotation: Any, definitions: dict[str, Schema]) -> Schema:
    """The schema of one parameter; definitions that it refers to are added to those of the tool."""
    plain = plain_schema(annotation)
    if plain is not None:
        made: Schema = portable(plain)
        return made
    from toolkit.tools.schema.compiling import compile_parameter

    return _adopt(compile_parameter(subject, parameter, annotation), definitions)


def _split_text(hint: Any) -> tuple[Any, str | None]:
    """`Annotated[int, "how many"]` as `int` and its text; other metadata stays with the type."""
    if get_origin(hint) is not Annotated:
        return hint, None
    bare, *metadata = get_args(hint)
    rest = [m for m in metadata if text_of(m) is None]
    return (Annotated[(bare, *rest)] if rest else bare), text_in(metadata)


def _adopt(compiled: CompiledType, definitions: dict[str, Schema]) -> Schema:
    """The type's schema with its definitions moved to the tool, renamed where a name is taken."""
    renames: dict[str, str] = {}
    for name in compiled.shown_definitions:
        free, number = name, 2
        while free in definitions and definitions[free] != compiled.shown_definitions[name]:
            free, number = f"{name}_{number}", number + 1
        renames[name] = free
    for name, schema in compiled.shown_definitions.items():
        definitions[renames[name]] = _renamed(schema, renames)
    return _renamed(compiled.shown, renames) if compiled.shown_definitions else compiled.shown


def _renamed(schema: Any, renames: dict[str, str]) -> Any:
    if isinstance(schema, list):
        return [_renamed(item, renames) for item in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {key: _renamed(value, renames) for key, value in schema.items()}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        start, _, name = reference.rpartition("/")
        renamed["$ref"] = f"{start}/{renames.get(name, name)}"
    return renamed


def _with_description(schema: Schema, text: str | None, documented: str | None) -> Schema:
    """Annotated text first, then what Field or the docstring says."""
    description = text or (None if "description" in schema and "$ref" not in schema and not documented else documented)
    return described(schema, description) if description else schema


def _default(value: Any) -> Schema:
    """The default for the schema; nothing where JSON cannot say it."""
    if type(value) in (bool, int) or (type(value) is str and value.isascii()):
        return {"default": value}
    if type(value) is float:
        return {"default": value} if math.isfinite(value) else {}
    from pydantic_core import PydanticSerializationError

    from toolkit.tools.plain_json import json_value

    try:
        plain = json_value(value)
        json.dumps(plain, allow_nan=False)
    except (PydanticSerializationError, ValueError):
        return {}
    return {"default": plain}
