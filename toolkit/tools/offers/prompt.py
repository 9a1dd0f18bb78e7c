"""`@prompt`: a typed function that gives a client the beginning of a conversation."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

from toolkit.tools.calling import CallFailed, NotCalled, carry_out
from toolkit.tools.content import Block, ToolResult
from toolkit.tools.context import ToolContext
from toolkit.tools.offers.messages import Messages, as_messages
from toolkit.tools.offers.offer import Offer
from toolkit.tools.offers.options import OfferOptions, PromptOptions
from toolkit.tools.plain_json import sendable_blocks
from toolkit.tools.schema import Subject, read_subject

P = ParamSpec("P")
R = TypeVar("R")
Q = ParamSpec("Q")
S = TypeVar("S")
T = TypeVar("T")

_NO_MESSAGE = (None, int, float, bool, complex, bytes, bytearray)


class ServedPrompt(Offer[P, R]):
    """A function that gives messages. Call it yourself as before: sync stays sync, async stays async."""

    # Said again for type checkers: a method's prompt is a prompt.
    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self: ServedPrompt[Concatenate[S, Q], T], instance: S, owner: type | None = None
    ) -> ServedPrompt[Q, T]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return super().__get__(instance, owner)

    def listing(self) -> dict[str, Any]:
        """The `prompts/list` entry, JSON-ready."""
        schema = self.arguments.schema
        required = schema.get("required", ())
        arguments = [
            {
                "name": name,
                **({"description": own["description"]} if own.get("description") else {}),
                "required": name in required,
            }
            for name, own in schema["properties"].items()
        ]
        entry: dict[str, Any] = {
            "name": self.name,
            "description": self.description or None,
            "arguments": arguments or None,
            **self.options.shown(),
        }
        return {key: value for key, value in entry.items() if value is not None}

    async def get(self, arguments: Mapping[str, Any] | None = None, context: ToolContext | None = None) -> Messages:
        """The messages for these arguments. Never raises, but for cancellation."""

        def finish(value: Any) -> list[Block]:
            if isinstance(value, ToolResult):
                if not value.ok:
                    raise CallFailed(value.message or f"{self.name} failed and gave no reason")
                value = value.value
            renderer = self._shared.renderer
            return as_messages(value if renderer is None else renderer(value))

        try:
            messages = await carry_out(self, arguments, context or ToolContext(), finish, self.options.timeout)
        except CallFailed as failure:
            return Messages(problem=str(failure), is_misfit=isinstance(failure, NotCalled))
        return Messages(sendable_blocks(messages), self.description)

    def _parts(self) -> tuple[Any, ...]:
        subject = self._shared.subject
        shared = (self._shared.renderer, self._shared.completers)
        return _remade_prompt, (subject.call, subject.name, subject.module, self.options, shared)


class _PromptDecorator(Protocol):
    def __call__(self, function: Callable[P, R], /) -> ServedPrompt[P, R]: ...


@overload
def prompt(function: Callable[P, R], /, **options: Unpack[PromptOptions]) -> ServedPrompt[P, R]: ...
@overload
def prompt(**options: Unpack[PromptOptions]) -> _PromptDecorator: ...
def prompt(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a typed function a prompt: `@prompt` or `@prompt(title="Summarise a note")`.

    Give it a text, content objects, or pairs such as `("assistant", "…")`, one or a list of them.

    Raises:
        ToolDefinitionError: the function cannot be a prompt; the message has the place and the fix.
    """
    frame = sys._getframe(1)
    namespace = {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
    module = str(frame.f_globals.get("__name__", ""))

    def decorate(target: Callable[..., Any]) -> ServedPrompt[..., Any]:
        subject = read_subject(target, options.get("name"), module, namespace, "prompt")
        _refuse_no_message(subject)
        return ServedPrompt(subject, OfferOptions.checked(subject, options, PromptOptions))

    return decorate if function is None else decorate(function)


def _refuse_no_message(subject: Subject) -> None:
    """Raise where what the function declares can be no message."""
    declared = getattr(inspect.unwrap(subject.function), "__annotations__", {}).get("return", str)
    names = {getattr(each, "__name__", "None"): each for each in _NO_MESSAGE}
    if declared in _NO_MESSAGE or (isinstance(declared, str) and declared in names):
        fix = 'Return text, content objects, or pairs such as ("assistant", "…"), one or a list of them'
        raise subject.refusal(f"it returns {getattr(declared, '__name__', declared)}, which is no message", fix)


def _remade_prompt(
    call: Callable[..., Any], name: str, module: str, options: OfferOptions, shared: tuple[Any, Any]
) -> ServedPrompt[..., Any]:
    made: ServedPrompt[..., Any] = ServedPrompt(read_subject(call, name, module, {}, "prompt"), options)
    made._shared.renderer, made._shared.completers = shared
    return made
