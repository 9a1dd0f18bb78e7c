"""What a resource and a prompt have in common: completions, refusals, and how they are made again elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, TypeVar

from toolkit.tools.offers.completing import Completer, Completion, check_completer, complete
from toolkit.tools.offers.options import OfferOptions
from toolkit.tools.schema import Subject
from toolkit.tools.served import Served, Shared

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class SharedOffer(Shared):
    """What a resource or a prompt and all its bound copies have in common."""

    def __init__(self, subject: Subject, options: OfferOptions) -> None:
        super().__init__(subject, options.description)
        self.completers: dict[str, Completer] = {}


class Offer(Served[P, R]):
    """A function that gives a client something to read or to say."""

    _shared: SharedOffer

    def __init__(self, subject: Subject, options: OfferOptions) -> None:
        super().__init__(subject, SharedOffer(subject, options))
        self.options: Final = options
        """What the decorator was given."""

    @property
    def parameters(self) -> list[str]:
        """The names a client fills."""
        return list(self.arguments.schema["properties"])

    def completes(self, parameter: str) -> Callable[[F], F]:
        """Use a function to complete a parameter: `@note.completes("id")`.

        It takes what was typed, and the other arguments if it wants them, and gives the values that fit. One that
        takes nothing gives all values. It may be async; what takes longer than 2 s is given up.
        """

        def decorate(completer: F) -> F:
            check_completer(self, parameter, self.parameters, completer)
            self._shared.completers[parameter] = completer
            return completer

        return decorate

    @property
    def has_completions(self) -> bool:
        """Whether values can be offered for one of its parameters."""
        if self._shared.completers:
            return True
        schemas = self.arguments.schema["properties"].values()
        return any("enum" in each or each.get("type") == "boolean" or "anyOf" in each for each in schemas)

    async def complete(self, parameter: str, typed: str = "", arguments: Mapping[str, str] | None = None) -> Completion:
        """The values that fit what was typed for a parameter."""
        return await complete(self, parameter, typed, arguments or {}, self._shared.completers.get(parameter))
