"""`Served`: a function that clients reach, and still the function. Tools, resources and prompts have this in common."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
from collections.abc import Callable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, overload

from toolkit.tools.context import ToolContext
from toolkit.tools.schema import Arguments, Subject, description, is_context

if TYPE_CHECKING:
    from toolkit.tools.calling import Renderer
    from toolkit.tools.schema.compiling import GivenArguments

P = ParamSpec("P")
R = TypeVar("R")
Q = ParamSpec("Q")
S = TypeVar("S")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Shared:
    """What a served function and all its bound copies have in common, built when it is first needed."""

    def __init__(self, subject: Subject, own_description: str | None) -> None:
        self.subject = subject
        self.own_description = own_description
        """The description that was given in place of the docstring."""
        self.renderer: Renderer | None = None

    @functools.cached_property
    def arguments(self) -> Arguments | GivenArguments:
        return Arguments(self.subject)

    @functools.cached_property
    def description(self) -> str:
        return self.own_description or description(self.subject.function.__doc__)


class Served(Generic[P, R]):
    """A function that clients reach. Call it yourself as before: sync stays sync, async stays async."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[P, R]
    _shared: Shared

    def __init__(self, subject: Subject, shared: Shared) -> None:
        functools.update_wrapper(self, subject.call)
        self._shared = shared
        self.name: Final = subject.name
        """The name a client calls it by."""
        self.function: Callable[..., Any] = subject.call
        """The callable itself, bound where it is a method of an object."""
        self.is_unbound_method = subject.takes_receiver
        """True for a method taken from its class: it cannot be served without an object."""
        written = subject.function
        self.is_async: Final = inspect.iscoroutinefunction(written) or inspect.isasyncgenfunction(written)
        """Whether calling it gives something to await; then it runs in the event loop, not in a thread."""
        if self.is_async and sys.version_info >= (3, 12):
            inspect.markcoroutinefunction(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function. A ToolContext that is not given is made for the call."""
        name = self.arguments.context_parameter if self._may_take_context else None
        if name is not None and not self._gives(name, args, kwargs):
            kwargs[name] = ToolContext()
        result: R = self.function(*args, **kwargs)
        return result

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self: Served[Concatenate[S, Q], T], instance: S, owner: type | None = None) -> Served[Q, T]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if not self.is_unbound_method:
            return self
        receiver = owner if self._shared.subject.receiver_is_class else instance
        return self if receiver is None else self.bind(receiver)

    def bind(self, receiver: object) -> Self:
        """The same as a method of `receiver`."""
        bound = object.__new__(type(self))
        bound.__dict__.update(self.__dict__)
        bound.function = types.MethodType(self.function, receiver)
        bound.__wrapped__ = bound.function  # its signature has no receiver any more
        bound.is_unbound_method = False
        return bound

    def renamed(self, name: str) -> Self:
        """The same under another name, which is used as it is given."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, name=name)
        return copy

    def renders(self, renderer: F) -> F:
        """Use a function to render the value: `@my_tool.renders`. It gives text or content objects."""
        self._shared.renderer = renderer
        return renderer

    @property
    def description(self) -> str:
        """What clients read about it: the docstring without its parameter section."""
        return self._shared.description

    @property
    def location(self) -> str:
        """`file.py:line` of the function."""
        return self._shared.subject.location()

    @property
    def module(self) -> str:
        """The module that decorated it."""
        return self._shared.subject.module

    @property
    def source_line(self) -> str:
        """The place and the line of code, as error messages show it."""
        return self._shared.subject.source_line()

    @property
    def kind(self) -> str:
        """What it is: tool, resource or prompt."""
        return self._shared.subject.kind

    @property
    def arguments(self) -> Arguments | GivenArguments:
        """The compiled parameters."""
        return self._shared.arguments

    @property
    def takes_context(self) -> bool:
        """Whether it can know and say something about its call."""
        return self._may_take_context and self.arguments.context_parameter is not None

    @functools.cached_property
    def _may_take_context(self) -> bool:
        """Asked of the names in the annotations, so that calling a plain function compiles nothing."""
        subject = self._shared.subject
        known = {**getattr(subject.function, "__globals__", {}), **subject.namespace}
        words = (re.findall(r"\w+", str(parameter.annotation)) for parameter in subject.parameters)
        return any(word == "ToolContext" or is_context(known.get(word)) for word in chain.from_iterable(words))

    def _gives(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        if name in kwargs:
            return True
        names = [parameter.name for parameter in self._shared.subject.parameters]
        return len(args) - int(self.is_unbound_method) > names.index(name)

    def __repr__(self) -> str:
        return f"<{self.kind.capitalize()} {self.name} at {self.location}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle by name, like a function: what stands in a module is found there again."""
        path = getattr(self, "__qualname__", "")
        if _named(self.__module__, path) is self:
            return str(path)
        if isinstance(self.function, types.MethodType):
            receiver, name = self.function.__self__, path.rpartition(".")[2]
            again = getattr(receiver, name, None)
            if isinstance(again, Served) and again._shared is self._shared and again.name == self.name:
                return getattr, (receiver, name)
        return self._parts()

    def _parts(self) -> tuple[Any, ...]:
        """How to make it again where it has no name: a function and its arguments."""
        raise NotImplementedError


def as_served(value: object) -> Served[..., Any] | None:
    """The tool, resource or prompt in a value: itself, or a class method made of one; None for anything else."""
    if isinstance(value, Served):
        return value
    if isinstance(value, types.MethodType) and isinstance(value.__func__, Served):
        return value.__func__.bind(value.__self__)
    return None


def _named(module: str, path: str) -> object:
    """What a dotted name in a module stands for; None if nothing."""
    value: object = sys.modules.get(module)
    for name in path.split("."):
        value = getattr(value, name, None)
    return value
