"""Take a callable apart: its name, where it stands, and the parameters that clients can fill.

Reads functions, methods, callable objects and `functools.partial`; refuses, with
the place and the fix, what no client could call: untyped parameters, `*args`,
`**kwargs` and positional-only parameters.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit._base.words import safe_line, typed_path
from toolkit.errors import ToolDefinitionError
from toolkit.tools.context import ToolContext
from toolkit.tools.schema.portable import PROPERTY_NAME

_NAME_FIX = 'Use 1 to 64 letters, digits, "_" or "-", a letter or "_" first: name="…"'
_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Subject:
    """A callable that is to become a tool, a resource or a prompt."""

    call: Callable[..., Any]
    """What is called; for a method in a class body it still wants its receiver."""
    function: Any
    """The function written in the source: it has the code, the annotations and the docstring."""
    name: str
    parameters: tuple[inspect.Parameter, ...]
    """Those a client may fill: no receiver, nothing a partial has filled."""
    takes_receiver: bool
    """Written in a class body and not bound yet: the first argument is `self` or `cls`."""
    receiver_is_class: bool
    """A class method: what it takes is the class, also when it is looked up on an object."""
    module: str
    """The module that made it a tool."""
    namespace: dict[str, Any]
    """Names visible there, for annotations given as text."""
    kind: str = "tool"
    """What it is to become: tool, resource or prompt."""

    def location(self) -> str:
        """`file.py:line` of the definition, relative to the current directory where possible."""
        return _place(self.function)[0]

    def source_line(self) -> str:
        """The place and the line of code, as error messages show it."""
        place, line = _place(self.function)
        return f"{place}  {line}".rstrip()

    def hints(self) -> dict[str, Any]:
        """Every annotation as a type, `Annotated` kept; text annotations are looked up now."""
        function = inspect.unwrap(self.function)
        closure = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
        try:
            return typing.get_type_hints(function, localns={**self.namespace, **closure}, include_extras=True)
        except NameError as error:
            raise self.refusal(
                f"its annotations use a name that is not defined: {error.name}",
                f"Import or define {error.name} before the Toolbox is made, outside of TYPE_CHECKING",
            ) from error
        except Exception as error:  # an annotation that is text may hold any expression
            why = safe_line(f"{type(error).__name__}: {error}", 200)
            raise self.refusal(f"its annotations cannot be read: {why}", "Write each as a type, such as int") from error

    def refusal(self, what: str, fix: str, parameter: str | None = None) -> ToolDefinitionError:
        """Why it cannot be a tool, with the place and the fix."""
        return ToolDefinitionError(
            f"{self.kind} '{self.name}': {what}",
            tool=self.name,
            parameter=parameter,
            where=[self.source_line()],
            fix=fix,
        )


def read_subject(
    target: object, name: str | None, module: str, namespace: dict[str, Any], kind: str = "tool"
) -> Subject:
    """Take `target` apart and refuse what cannot be a tool, a resource or a prompt.

    Raises:
        ToolDefinitionError: not callable, a bad name, or a parameter no client can fill.
    """
    subject = _taken_apart(target, name, module, namespace, kind)
    for parameter in subject.parameters:
        _refuse_bad_parameter(subject, parameter)
    return subject


def read_call(target: object, name: str, module: str) -> Subject:
    """Take apart what carries out a tool whose schema is given: it gets the arguments as one dict.

    Raises:
        ToolDefinitionError: not callable, or a bad name.
    """
    if not callable(target):
        raise ToolDefinitionError(
            f"tool '{name}': call={target!r} is no function",
            tool=str(name),
            fix="Give the function that carries it out: call=run_it, with def run_it(arguments: dict) -> …",
        )
    if not isinstance(name, str) or not name:
        raise ToolDefinitionError(f"{name!r} cannot be a tool's name", tool=str(name), fix=_NAME_FIX)
    return _taken_apart(target, name, module, {})


def is_context(hint: Any) -> bool:
    """Whether a parameter of this type takes the ToolContext; a list of them takes none."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(map(is_context, inside))
    if origin is typing.Annotated:
        return is_context(inside[0])
    return isinstance(hint, type) and origin is None and issubclass(hint, ToolContext)


def _taken_apart(target: Any, name: str | None, module: str, namespace: dict[str, Any], kind: str = "tool") -> Subject:
    wrapper = type(target)
    if isinstance(target, classmethod | staticmethod):
        target = target.__func__
    if not callable(target):
        raise ToolDefinitionError(
            f"@{kind} needs a function, not {type(target).__name__}",
            tool=name or repr(target),
            fix=f"Put @{kind} directly above a def",
        )
    function, filled = _written_function(target)
    own = getattr(target, "__name__", None) or getattr(function, "__name__", "")
    title = str(own if name is None else name)
    if title == "__call__":
        title = type(target).__name__
    parameters = _parameters(target, function, title, filled, kind)
    in_class = function is target and _is_in_class_body(function) and wrapper is not staticmethod
    is_receiver = bool(parameters) and (wrapper is classmethod or parameters[0].name in ("self", "cls"))
    takes_receiver = in_class and is_receiver
    subject = Subject(
        call=target,
        function=function,
        name=title,
        parameters=parameters[1:] if takes_receiver else parameters,
        takes_receiver=takes_receiver,
        receiver_is_class=wrapper is classmethod,
        module=module,
        namespace=namespace,
        kind=kind,
    )
    _refuse_bad_name(subject)
    return subject


def _written_function(target: Any) -> tuple[Any, frozenset[str]]:
    """The function in the source behind a callable, and the keywords a partial has filled."""
    filled: set[str] = set()
    while isinstance(target, functools.partial):
        filled.update(target.keywords)
        target = target.func
    if inspect.ismethod(target):
        target = target.__func__
    if inspect.isclass(target):
        target = target.__init__
    elif not inspect.isroutine(target):
        target = type(target).__call__
    return target, frozenset(filled)


def _parameters(
    target: Any, function: Any, title: str, filled: frozenset[str], kind: str
) -> tuple[inspect.Parameter, ...]:
    try:
        signature = inspect.signature(target)
    except (ValueError, TypeError) as error:
        raise ToolDefinitionError(
            f"{kind} '{title}': Python cannot tell its parameters",
            tool=title,
            where=[_place(function)[0]],
            fix="Wrap it in a def with typed parameters",
        ) from error
    return tuple(p for p in signature.parameters.values() if p.name not in filled)


def _is_in_class_body(function: Any) -> bool:
    outer = getattr(function, "__qualname__", "").rpartition(".")[0]
    return bool(outer) and not outer.endswith("<locals>")


def _refuse_bad_name(subject: Subject) -> None:
    if _TOOL_NAME.fullmatch(subject.name):
        return
    raise ToolDefinitionError(
        f"'{subject.name}' cannot be a {subject.kind}'s name",
        tool=subject.name,
        where=[subject.source_line()],
        fix=_NAME_FIX,
    )


def _refuse_bad_parameter(subject: Subject, parameter: inspect.Parameter) -> None:
    name = parameter.name

    def refuse(what: str, fix: str) -> typing.NoReturn:
        raise subject.refusal(what, fix, name)

    if parameter.kind is parameter.VAR_POSITIONAL:
        refuse(f"'*{name}' has no names a client could fill", f"Take a list: {name}: list[str]")
    if parameter.kind is parameter.VAR_KEYWORD:
        refuse(f"'**{name}' has no names a client could fill", f"Take an object: {name}: dict[str, str]")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        refuse(f"parameter '{name}' is positional-only, and clients pass names", "Remove the '/' from the signature")
    if _is_field(parameter.default):
        refuse(
            f"parameter '{name}' has Field(...) as its default, so a plain call would get the Field itself",
            f"Move it into the type: {name}: Annotated[…, Field(...)] = …",
        )
    if subject.kind == "tool" and not PROPERTY_NAME.fullmatch(name) and "ToolContext" not in str(parameter.annotation):
        refuse(
            f"the model API takes no argument called '{name}', and refuses every request with this tool in it",
            'Use 1 to 64 letters (a to z), digits, "_" or "-"',
        )
    if parameter.annotation is parameter.empty:
        refuse(f"parameter '{name}' has no type", f"Write its type, for example: {name}: {_guess(parameter)}")


def _is_field(value: object) -> bool:
    """Whether it is pydantic's `Field(…)`; told by name, as nobody need have loaded pydantic."""
    return any(cls.__name__ == "FieldInfo" and cls.__module__ == "pydantic.fields" for cls in type(value).__mro__)


def _guess(parameter: inspect.Parameter) -> str:
    """A type to suggest: the default's, or one that the name hints at."""
    if parameter.default is not parameter.empty and parameter.default is not None:
        return type(parameter.default).__name__
    return "Path" if re.search(r"path|file|folder|dir", parameter.name) else "str"


def _place(function: Any) -> tuple[str, str]:
    """`file:line` of the `def` line (decorators stand above it) and that line's text."""
    function = inspect.unwrap(function)
    code: types.CodeType | None = getattr(function, "__code__", None)
    if code is None:
        return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}", ""
    path = typed_path(code.co_filename, Path.cwd())
    for number in range(code.co_firstlineno, code.co_firstlineno + 50):
        line = linecache.getline(code.co_filename, number)
        if code.co_name == "<lambda>" or re.match(rf"\s*(async\s+)?def\s+{re.escape(code.co_name)}\b", line):
            return f"{path}:{number}", line.strip().removesuffix(":").rstrip()
        if not line:
            break
    return f"{path}:{code.co_firstlineno}", ""
