"""Arguments as a client sends them, made into the values a function wants.

Each parameter's validator is compiled once, and shared by every tool that uses
the same type. What is wrong is said in words a model can act on, all of it at
once, and before the function is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin

from pydantic import PydanticUserError, ValidationError
from pydantic.fields import FieldInfo

from toolkit._base.words import did_you_mean
from toolkit.errors import ArgumentsError, ToolDefinitionError
from toolkit.tools.plain_json import excerpt, json_value
from toolkit.tools.schema.compiling.compile import CompiledType, compile_type
from toolkit.tools.schema.compiling.types import NotBase64Error, spelled_out
from toolkit.tools.schema.compiling.unusable import UnusableTypeError
from toolkit.tools.schema.subject import Subject
from toolkit.tools.workspace_path import holds_place


class Parser:
    """The compiled parameters of one tool."""

    def __init__(self, subject: Subject, annotations: Mapping[str, Any], required: Sequence[str]) -> None:
        self._tool = subject.name
        self._types = {name: compile_parameter(subject, name, each) for name, each in annotations.items()}
        self._required = required
        # The model reads them in the schema, and means its own files when it leaves such an argument out.
        self._places = {
            each.name: json_value(each.default)
            for each in subject.parameters
            if each.name not in required and each.default is not None and holds_place(annotations.get(each.name))
        }
        """The defaults that are paths, as the agent would write them."""

    def parse(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """The keyword arguments for the function.

        Raises:
            ArgumentsError: names every wrong, unknown and missing argument.
        """
        values: dict[str, Any] = {}
        problems: list[str] = []
        for name, value in {**self._places, **(given or {})}.items():
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


def compile_parameter(subject: Subject, parameter: str, annotation: Any) -> CompiledType:
    """What values of one parameter need on their way in.

    Raises:
        ToolDefinitionError: JSON cannot carry its type.
    """
    annotation = spelled_out(annotation)

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
    except UnusableTypeError as error:
        raise refusal(f"has a type that cannot be used: {error}", error.fix) from error


def was_not_called(tool: str, problems: list[str]) -> str:
    """Why a call was not made, for the model."""
    count = "an argument is wrong" if len(problems) == 1 else f"{len(problems)} arguments are wrong"
    return "\n".join([f"{tool} was not called: {count}", *(f"- {problem}" for problem in problems)])


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
