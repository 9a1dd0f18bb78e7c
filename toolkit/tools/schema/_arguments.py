"""Arguments as a client sends them, made into the values a function wants.

Each parameter's validator is compiled once, and shared by every tool that uses
the same type. What is wrong is said in words a model can act on, all of it at
once, and before the function is called.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Annotated, Any, Optional, get_args, get_origin

from pydantic import PydanticUserError, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError

from toolkit._base.words import did_you_mean
from toolkit.errors import ArgumentsError, ToolDefinitionError
from toolkit.tools.context import ToolContext
from toolkit.tools.plain_json import excerpt, json_value
from toolkit.tools.schema._compile import CompiledType, compile_type
from toolkit.tools.schema._docstring import parameter_texts
from toolkit.tools.schema._portable import Schema, described, without_null
from toolkit.tools.schema._subject import Subject
from toolkit.tools.schema._types import NotBase64Error, is_plain, spelled_out, text_in, text_of


class Arguments:
    """The parameters of one tool: their schema, and the way from JSON to Python."""

    def __init__(self, subject: Subject) -> None:
        self._tool = subject.name
        self._types: dict[str, CompiledType] = {}
        self._required: list[str] = []
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
        values: dict[str, Any] = {}
        problems: list[str] = []
        for name, value in (given or {}).items():
            known = self._types.get(name)
            if known is None:
                problems.append(f"{name}: no such argument{did_you_mean(name, self._types)}")
                continue
            try:
                values[name] = known.validate(value)
            except ValidationError as error:
                problems.extend(_in_words(name, known.prepare(value), error))
            except NotBase64Error as error:
                problems.append(f"{name}: should be base64 text; got {excerpt(error.text)}")
        if len(values) < len(self._types):
            present = given or {}
            problems.extend(f"{name}: missing" for name in self._required if name not in present)
        if problems:
            raise ArgumentsError(was_not_called(self._tool, problems))
        return values

    def _build(self, subject: Subject) -> None:
        hints = subject.hints()
        documented = parameter_texts(subject.function.__doc__)
        definitions: dict[str, Schema] = {}
        for parameter in subject.parameters:
            hint = hints.get(parameter.name, Any)
            if is_context(hint):
                self.context_parameter = parameter.name
                continue
            bare, text = _split_text(hint)
            if parameter.default is None and bare not in (Any, object):
                bare = Optional[bare]  # noqa: UP045  # a model sends the default it reads in the schema
            compiled = _compile_for(subject, parameter.name, spelled_out(bare))
            self._types[parameter.name] = compiled
            own = _adopt(compiled, definitions)
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
    wanted = (hints.get(parameter.name, Any) for parameter in subject.parameters)
    return all(is_context(hint) or is_plain(hint) for hint in wanted)


def was_not_called(tool: str, problems: list[str]) -> str:
    """Why a call was not made, for the model."""
    count = "an argument is wrong" if len(problems) == 1 else f"{len(problems)} arguments are wrong"
    return "\n".join([f"{tool} was not called: {count}", *(f"- {problem}" for problem in problems)])


def is_context(hint: Any) -> bool:
    """Whether a parameter of this type takes the ToolContext."""
    candidates = [hint, *get_args(hint)]
    return any(isinstance(c, type) and issubclass(c, ToolContext) for c in candidates)


def _split_text(hint: Any) -> tuple[Any, str | None]:
    """`Annotated[int, "how many"]` as `int` and its text; other metadata stays with the type."""
    if get_origin(hint) is not Annotated:
        return hint, None
    bare, *metadata = get_args(hint)
    rest = [m for m in metadata if text_of(m) is None]
    return (Annotated[(bare, *rest)] if rest else bare), text_in(metadata)


def _compile_for(subject: Subject, parameter: str, annotation: Any) -> CompiledType:
    def refusal(what: str, fix: str) -> ToolDefinitionError:
        return subject.refusal(f"parameter '{parameter}' {what}", fix, parameter)

    for metadata in get_args(annotation)[1:] if get_origin(annotation) is Annotated else ():
        if isinstance(metadata, FieldInfo) and not metadata.is_required():
            raise refusal(
                "has its default inside Field(...), where a plain call does not see it",
                f"Write it after the type: {parameter}: Annotated[…, Field(...)] = {metadata.default!r}",
            )
        if isinstance(metadata, FieldInfo) and (alias := metadata.validation_alias or metadata.alias):
            raise refusal(
                f"has an alias ({alias!r}), which only a field of a model can have",
                "Leave the alias out; clients call the argument by the parameter's name",
            )
    try:
        return compile_type(annotation)
    except PydanticUserError as error:
        if error.code in ("class-not-fully-defined", "undefined-annotation"):
            raise refusal(
                f"has a type whose own annotations use a name that is not defined: {_type_name(annotation)}",
                "Import or define that name before the Toolbox is made, outside of TYPE_CHECKING",
            ) from error
        raise refusal(
            f"has a type that JSON cannot carry: {_type_name(annotation)}",
            "Use a type pydantic knows (str, int, list, a dataclass, …) and make the object inside the tool",
        ) from error


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
    try:
        plain = json_value(value)
        json.dumps(plain, allow_nan=False)
    except (PydanticSerializationError, ValueError):
        return {}
    return {"default": plain}


def _type_name(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or str(annotation)


def _in_words(name: str, value: Any, error: ValidationError) -> list[str]:
    """One line for each wrong place; the alternatives of a union share a line."""
    places: dict[str, list[str]] = {}
    found: dict[str, Any] = {}
    for detail in error.errors(include_url=False, include_context=False):
        is_key = detail["loc"][-1:] == ("[key]",)  # then the last step before names the key, not a value
        location = detail["loc"][:-2] if is_key else detail["loc"]
        place, reached = _place(name, value, location, missing=detail["type"] == "missing")
        message = (detail["msg"][:1].lower() + detail["msg"][1:]).removeprefix("input ").removeprefix("value error, ")
        if is_key:
            message = f"the key {excerpt(detail['input'])} {message}"
        elif detail["type"] == "missing":
            message = "missing"
        elif detail["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            message = "no such field"
        places.setdefault(place, [])
        if message not in places[place]:
            places[place].append(message)
        found[place] = reached
    return [
        f"{place}: {', or '.join(messages)}"
        + ("" if messages in (["missing"], ["no such field"]) else f"; got {excerpt(found[place])}")
        for place, messages in places.items()
    ]


def _place(name: str, value: Any, location: tuple[int | str, ...], *, missing: bool) -> tuple[str, Any]:
    """`items[2].name` and what stands there; pydantic's own labels for union members are left out."""
    place = name
    for step in location:
        if isinstance(step, int) and isinstance(value, list | tuple) and step < len(value):
            place, value = f"{place}[{step}]", value[step]
        elif isinstance(step, int) and missing and step == location[-1]:
            place = f"{place}[{step}]"
        elif isinstance(step, str) and isinstance(value, dict):
            if step in value:
                place, value = f"{place}.{step}", value[step]
            elif missing and step == location[-1]:
                place = f"{place}.{step}"
    return place, value
