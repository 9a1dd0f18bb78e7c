"""`@tool`, the one decorator, and `Tool`: a function with everything a client needs to know about it.

It is still the function. Everything the agent sees comes from the signature and the docstring.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

from toolkit.tools.content import Reply
from toolkit.tools.context import ToolContext
from toolkit.tools.options import EntryOptions, Options, ToolOptions
from toolkit.tools.schema import Arguments, Subject, doubts, is_certain, read_call, read_subject
from toolkit.tools.served import Served, Shared, as_served

# What a tool needs when it is called, or has schemas of more than plain types, is loaded then.
if TYPE_CHECKING:
    from toolkit.tools.calling import Renderer
    from toolkit.tools.schema.compiling import Entry, GivenArguments, GivenOutput, Output

P = ParamSpec("P")
R = TypeVar("R")
Q = ParamSpec("Q")
S = TypeVar("S")
T = TypeVar("T")


class _SharedTool(Shared):
    """What a tool and all its bound copies have in common."""

    def __init__(self, subject: Subject, options: Options, entry: Entry | None = None) -> None:
        super().__init__(subject, options.description)
        self.options = options
        self.entry = entry
        """The schemas that were given, where they are not made from the signature."""

    @functools.cached_property
    def arguments(self) -> Arguments | GivenArguments:
        if self.entry is None:
            return Arguments(self.subject)
        from toolkit.tools.schema.compiling import GivenArguments

        return GivenArguments(self.subject, self.entry)

    @functools.cached_property
    def output(self) -> Output | GivenOutput | None:
        if self.entry is None and not self.options.structured:
            return None
        from toolkit.tools.schema.compiling import GivenOutput, Output

        if self.entry is None:
            return Output(self.subject)
        return None if self.entry.output_schema is None else GivenOutput(self.subject, self.entry)

    def make_sure(self) -> None:
        if self.entry is not None:
            return  # made sure of where it was given
        if not is_certain(self.subject):
            self.arguments  # noqa: B018
        if self.options.structured:
            from toolkit.tools.schema.compiling import is_certain_output

            if not is_certain_output(self.subject):
                self.output  # noqa: B018

    @functools.cached_property
    def description(self) -> str:
        return (self.own_description or "") if self.entry is not None else super().description


class Tool(Served[P, R]):
    """A function that an agent can call. Call it yourself as before: sync stays sync, async stays async."""

    _shared: _SharedTool

    def __init__(self, subject: Subject, options: Options, entry: Entry | None = None) -> None:
        super().__init__(subject, _SharedTool(subject, options, entry))
        self.options: Final = options
        """What `@tool(...)` was given."""

    @classmethod
    def from_schema(
        cls,
        *,
        name: str,
        input_schema: Mapping[str, Any],
        call: Callable[..., S],
        output_schema: Mapping[str, Any] | None = None,
        **options: Unpack[EntryOptions],
    ) -> Tool[..., S]:
        """A tool made of an entry of a catalogue: its schemas are passed on untouched, and held.

        `call` gets the checked arguments as one dict, and a ToolContext where it has a parameter of that
        type; it may be async. `description`, `annotations` and `meta` are the entry's own, `render` is as
        `@tool.renders`.

        Raises:
            ToolDefinitionError: a schema is none, a name or an option cannot be, or `call` takes no arguments.
        """
        module = str(sys._getframe(1).f_globals.get("__name__", ""))
        from toolkit.tools.schema.compiling import Entry

        subject = read_call(call, name, module)
        chosen, render = Options.of_entry(subject, options)
        return _of_entry(subject, chosen, Entry(input_schema, output_schema), render)

    # Said again for type checkers: a method's tool is a tool.
    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self: Tool[Concatenate[S, Q], T], instance: S, owner: type | None = None) -> Tool[Q, T]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return super().__get__(instance, owner)

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self.arguments.schema

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the structured result; None unless the tool asks for one."""
        return None if self._shared.output is None else self._shared.output.schema

    def listing(self) -> dict[str, Any]:
        """The `tools/list` entry, JSON-ready."""
        options = self.options
        entry: dict[str, Any] = {
            "name": self.name,
            "title": options.title,
            "description": self.description or None,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": options.hints() or None,
            "icons": list(options.icons) or None,
            "_meta": options.meta() or None,
        }
        return {key: value for key, value in entry.items() if value is not None}

    def make_sure(self) -> None:
        """Find the mistakes that only a schema shows; where there can be none, no schema is made yet.

        Raises:
            ToolDefinitionError: a type that JSON cannot carry.
        """
        self._shared.make_sure()

    def warnings(self) -> list[str]:
        """What the model API may refuse in this tool, with the place and the fix; empty for most."""
        return [str(self._shared.subject.refusal(what, fix)) for what, fix in doubts(self.input_schema)]

    def reply(self, value: Any) -> Reply:
        """A value of this tool as a client gets it."""
        from toolkit.tools.calling import render

        rendered = render(value, renderer=self._shared.renderer, max_chars=self.options.max_chars)
        output = self._shared.output
        if output is None or rendered.is_error:
            return rendered
        return Reply(rendered.content, structured=output.structured(value))

    async def invoke(self, arguments: Mapping[str, Any] | None = None, context: ToolContext | None = None) -> Reply:
        """Call the tool as a client does: JSON arguments in, a reply out, never an exception."""
        from toolkit.tools.calling import invoke

        return await invoke(self, arguments, context or ToolContext())

    def _parts(self) -> tuple[Any, ...]:
        subject, entry = self._shared.subject, self._shared.entry
        made = (subject.call, self.name, subject.module, self.options, self._shared.renderer)
        return (_remade, made) if entry is None else (_remade_of_entry, (*made, entry))


class _Decorator(Protocol):
    def __call__(self, function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> Tool[P, R]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> _Decorator: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a typed function a tool: `@tool`, `@tool(read_only=True)` or `tool(function, name="…")`.

    Raises:
        ToolDefinitionError: the function cannot be a tool; the message has the place and the fix.
    """
    # The caller's frame: annotations given as text may name classes that only exist inside its function.
    frame = sys._getframe(1)
    # Only a function defined inside another needs names that its globals do not have.
    namespace = {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
    module = str(frame.f_globals.get("__name__", ""))

    def decorate(target: Callable[..., Any]) -> Tool[..., Any]:
        subject = read_subject(target, options.get("name"), module, namespace)
        return Tool(subject, Options.checked(subject, options))

    return decorate if function is None else decorate(function)


def _remade(
    call: Callable[..., Any], name: str, module: str, options: Options, renderer: Renderer | None
) -> Tool[..., Any]:
    """A tool made of something that is a tool nowhere else, such as `tool(function)` inside a list."""
    made: Tool[..., Any] = Tool(read_subject(call, name, module, {}), options)
    made._shared.renderer = renderer
    return made


def _remade_of_entry(
    call: Callable[..., Any], name: str, module: str, options: Options, renderer: Renderer | None, entry: Entry
) -> Tool[..., Any]:
    return _of_entry(read_call(call, name, module), options, entry, renderer)


def _of_entry(subject: Subject, options: Options, entry: Entry, renderer: Renderer | None) -> Tool[..., Any]:
    made: Tool[..., Any] = Tool(subject, options, entry)
    made._shared.renderer = renderer
    made.listing()  # now and not when it is boxed: the schemas were given here
    return made


def as_tool(value: object) -> Tool[..., Any] | None:
    """The tool in a value: a Tool, or a class method made of one; None for anything else."""
    found = as_served(value)
    return found if isinstance(found, Tool) else None
