"""`@resource("notes://{id}")`: a typed function that gives what is behind an address."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Final, ParamSpec, Protocol, Self, TypeVar, Unpack, get_args, get_origin, overload

from toolkit.tools.calling import CallFailed, NotCalled, carry_out
from toolkit.tools.content import Audio, Block, Image, Resource, ToolResult
from toolkit.tools.context import ToolContext
from toolkit.tools.offers.contents import Contents, as_contents, guessed_mime
from toolkit.tools.offers.offer import Offer
from toolkit.tools.offers.options import OfferOptions, ResourceOptions
from toolkit.tools.offers.template import NotATemplateError, Template, read_template
from toolkit.tools.plain_json import sendable_blocks
from toolkit.tools.schema import Subject, is_context, read_subject

P = ParamSpec("P")
R = TypeVar("R")
Q = ParamSpec("Q")
S = TypeVar("S")
T = TypeVar("T")


class ServedResource(Offer[P, R]):
    """A function behind an address. Call it yourself as before: sync stays sync, async stays async."""

    def __init__(self, subject: Subject, options: OfferOptions, template: Template) -> None:
        super().__init__(subject, options)
        self.uri: Final = template.text
        """Its address; a template where the function has parameters."""
        self.template: Final = template

    # Said again for type checkers: a method's resource is a resource.
    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self: ServedResource[Concatenate[S, Q], T], instance: S, owner: type | None = None
    ) -> ServedResource[Q, T]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return super().__get__(instance, owner)

    @property
    def is_template(self) -> bool:
        """Whether its address has parameters."""
        return bool(self.template.names)

    @property
    def mime(self) -> str | None:
        """The MIME type as far as it is known before it is read."""
        return self.options.mime or guessed_mime(self.uri) or _mime_of(self._shared.subject)

    def listing(self) -> dict[str, Any]:
        """The `resources/list` or `resources/templates/list` entry, JSON-ready."""
        entry: dict[str, Any] = {
            "uriTemplate" if self.is_template else "uri": self.uri,
            "name": self.name,
            "description": self.description or None,
            "mimeType": self.mime,
            "annotations": dict(self.options.annotations) or None,
            **self.options.shown(),
        }
        return {key: value for key, value in entry.items() if value is not None}

    async def read(
        self, uri: str, arguments: Mapping[str, Any] | None = None, context: ToolContext | None = None
    ) -> Contents:
        """What is behind `uri`; `arguments` are the values in it. Never raises, but for cancellation."""

        def finish(value: Any) -> list[Block] | None:
            if isinstance(value, ToolResult):
                if not value.ok:
                    raise CallFailed(value.message or f"{self.name} failed and gave no reason")
                value = value.value
            renderer = self._shared.renderer
            value = value if renderer is None or value is None else renderer(value)
            return None if value is None else as_contents(value, uri, self.options)

        try:
            contents = await carry_out(self, arguments, context or ToolContext(), finish, self.options.timeout)
        except NotCalled as failure:
            return Contents(problem=str(failure), is_missing=True)
        except CallFailed as failure:
            return Contents(problem=str(failure))
        if contents is None:
            return Contents(problem=f"there is no {uri}", is_missing=True)
        return Contents(sendable_blocks(contents), ttl=self.options.ttl)

    def _parts(self) -> tuple[Any, ...]:
        subject = self._shared.subject
        shared = (self._shared.renderer, self._shared.completers)
        return _remade_resource, (subject.call, subject.name, subject.module, self.options, self.uri, shared)


class _ResourceDecorator(Protocol):
    def __call__(self, function: Callable[P, R], /) -> ServedResource[P, R]: ...


def resource(uri: str, /, **options: Unpack[ResourceOptions]) -> _ResourceDecorator:
    """Make a typed function a resource: `@resource("notes://{id}")` or `@resource("config://app", mime="text/toml")`.

    The parameters in braces are the function's, with its types. Give it text, bytes, a content object or data; None
    means that there is nothing at this address.

    Raises:
        ToolDefinitionError: the address or the function cannot be; the message has the place and the fix.
    """
    frame = sys._getframe(1)
    # Only a function defined inside another needs names that its globals do not have.
    namespace = {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
    module = str(frame.f_globals.get("__name__", ""))

    def decorate(target: Callable[P, R]) -> ServedResource[P, R]:
        subject = read_subject(target, options.get("name"), module, namespace, "resource")
        made: Any = _made(subject, OfferOptions.checked(subject, options, ResourceOptions), uri)
        found: ServedResource[P, R] = made
        return found

    if callable(uri):  # @resource without its address
        subject = read_subject(uri, None, module, namespace, "resource")
        raise subject.refusal("it has no address", f'Say where it is: @resource("{subject.name}://{{id}}")')
    return decorate


def _made(subject: Subject, options: OfferOptions, uri: str) -> ServedResource[..., Any]:
    try:
        template = read_template(uri)
    except NotATemplateError as error:
        fix = f'Write an address such as @resource("{subject.name}://{{id}}")'
        raise subject.refusal(f"its address {uri!r} cannot be used: {error}", fix) from error
    _refuse_misfit(subject, template)
    for name in options.any_path - set(template.names):
        raise subject.refusal(f"any_path names '{name}', which is not in its address", "Leave it out", name)
    _refuse_nothing(subject)
    return ServedResource(subject, options, template)


def _refuse_misfit(subject: Subject, template: Template) -> None:
    """Raise where the address and the function do not have the same parameters."""
    own = {each.name: each for each in subject.parameters if not _is_context(each)}
    names = template.names
    for name in names:
        if name not in own:
            fix = f"Add the parameter: def {subject.name}({name}: str, …), or take {{{name}}} out of the address"
            raise subject.refusal(f"its address has {{{name}}}, and the function has no parameter '{name}'", fix, name)
    for name, parameter in own.items():
        if name not in names and parameter.default is inspect.Parameter.empty:
            fix = f"Put {{{name}}} into the address, or give the parameter a default"
            raise subject.refusal(f"parameter '{name}' is not in its address and has no default", fix, name)
        if name in template.query and parameter.default is inspect.Parameter.empty:
            fix = f"Give it a default: a URI may leave out what stands after the ?, as in {name}: … = …"
            raise subject.refusal(f"parameter '{name}' is optional in its address and has no default", fix, name)


def _is_context(parameter: inspect.Parameter) -> bool:
    return "ToolContext" in str(parameter.annotation) or is_context(parameter.annotation)


def _returned(subject: Subject) -> Any:
    return getattr(inspect.unwrap(subject.function), "__annotations__", {}).get("return", inspect.Signature.empty)


def _refuse_nothing(subject: Subject) -> None:
    if _returned(subject) in (None, "None", type(None)):
        fix = "Return what is behind the address: text, bytes, a content object, or data"
        raise subject.refusal("it returns None, so there would never be anything to read", fix)


def _mime_of(subject: Subject) -> str | None:
    """What the declared type of the value says of its MIME type."""
    declared = subject.hints().get("return", Any)
    if declared is str:
        return "text/plain"
    if declared in (bytes, bytearray, Any, Image, Audio, Resource) or get_origin(declared) is ToolResult:
        return None
    members = get_args(declared) or (declared,)
    is_plain = any(each in (str, bytes, Any, Image, Audio, Resource) for each in members)
    is_data = hasattr(declared, "__dataclass_fields__") or hasattr(declared, "model_fields")
    is_data = is_data or declared in (dict, list) or get_origin(declared) is dict
    return "application/json" if is_data and (get_origin(declared) is dict or not is_plain) else None


def _remade_resource(
    call: Callable[..., Any], name: str, module: str, options: OfferOptions, uri: str, shared: tuple[Any, Any]
) -> ServedResource[..., Any]:
    made = _made(read_subject(call, name, module, {}, "resource"), options, uri)
    made._shared.renderer, made._shared.completers = shared
    return made
