"""Values that a client may offer while somebody types an argument.

They come from the parameter's own type (`Literal`, an enum, a bool), or from a function: `@note.completes("id")`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolkit._base.words import did_you_mean
from toolkit.errors import ToolDefinitionError
from toolkit.tools.calling import workers
from toolkit.tools.served import Served

MOST_VALUES = 100
"""What the protocol lets one answer hold."""
MOST_SECONDS = 2.0
"""A person is typing: what comes later is of no use."""

_log = logging.getLogger("toolkit.tools")

Completer = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Completion:
    """Values for one argument."""

    values: list[str]
    total: int | None = None
    """How many there are; None where that is not known."""

    def wire(self) -> dict[str, Any]:
        """The `completion/complete` result as JSON-ready data."""
        found: dict[str, Any] = {"values": self.values[:MOST_VALUES], "hasMore": len(self.values) > MOST_VALUES}
        return {"completion": found if self.total is None else {**found, "total": self.total}}


def check_completer(served: Served[..., Any], parameter: str, names: Iterable[str], completer: Completer) -> None:
    """Raise unless a function can complete this parameter.

    Raises:
        ToolDefinitionError: there is no such parameter, or the function takes too much.
    """
    names = list(names)
    if parameter not in names:
        raise ToolDefinitionError(
            f"{served.kind} '{served.name}' has no parameter '{parameter}'{did_you_mean(parameter, names)}",
            tool=served.name,
            parameter=parameter,
            where=[served.source_line],
            fix=f'Name a parameter of it: @{served.name}.completes("{names[0] if names else "…"}")',
        )
    if not callable(completer) or _how_many(completer) is None:
        raise ToolDefinitionError(
            f"{served.kind} '{served.name}': what completes '{parameter}' takes too many arguments",
            tool=served.name,
            parameter=parameter,
            where=[served.source_line],
            fix="Write it as: def _(typed: str) -> list[str], or def _(typed: str, arguments: dict[str, str]) -> …",
        )


def _how_many(completer: Completer) -> int | None:
    """How many arguments it takes, 0 to 2; None where it wants more."""
    parameters = inspect.signature(completer).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    plain = [each for each in parameters if each.kind in kinds]
    needed = [each for each in parameters if each.default is each.empty]
    is_simple = len(needed) <= 2 and all(each.kind in kinds for each in needed)
    return min(len(plain), 2) if is_simple else None


async def complete(
    served: Served[..., Any],
    parameter: str,
    typed: str,
    arguments: Mapping[str, str],
    completer: Completer | None,
) -> Completion:
    """The values that fit what was typed; none where nothing completes it, or takes too long."""
    if completer is None:
        return _fitting(_of_schema(served.arguments.schema.get("properties", {}).get(parameter, {})), typed)
    import anyio

    with anyio.move_on_after(MOST_SECONDS) as scope:
        try:
            return await _asked(completer, typed, arguments)
        except Exception:
            _log.exception("completing '%s' of %s '%s' failed", parameter, served.kind, served.name)
    if scope.cancelled_caught:
        _log.error(
            "completing '%s' of %s '%s' took longer than %g s", parameter, served.kind, served.name, MOST_SECONDS
        )
    return Completion([])


async def _asked(completer: Completer, typed: str, arguments: Mapping[str, str]) -> Completion:
    given = (typed, dict(arguments))[: _how_many(completer)]
    if inspect.iscoroutinefunction(completer):
        found = await completer(*given)
    else:
        found = await workers.run(lambda: _listed(completer(*given)))
        if inspect.isawaitable(found):
            found = await found
    values = [str(value) for value in _listed(found)]
    # A function that does not look at what was typed gives all there are.
    return Completion(values) if given else _fitting(values, typed)


def _listed(found: Any) -> Any:
    if inspect.isawaitable(found):
        return found
    return [] if found is None else [found] if isinstance(found, str) else list(found)


def _fitting(values: Iterable[str], typed: str) -> Completion:
    fitting = [value for value in values if value.lower().startswith(typed.lower())]
    return Completion(fitting, len(fitting))


def _of_schema(schema: Mapping[str, Any]) -> list[str]:
    """The values that a parameter's type names."""
    if schema.get("type") == "boolean":
        return ["true", "false"]
    values = [value if isinstance(value, str) else _as_typed(value) for value in schema.get("enum", ())]
    return [*values, *(value for each in schema.get("anyOf", ()) for value in _of_schema(each))]


def _as_typed(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
