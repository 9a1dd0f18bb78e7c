"""The validators of jsonschema, but for two things in which it serves a model badly.

It divides floats, so that 19.99 is no multiple of 0.01; here a number is what its digits say.
And it loses the place of a property that `false` forbids.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

from toolkit.tools.schema.portable import Schema


@lru_cache(maxsize=16)
def mended(make: Any) -> Any:
    """A class of validators as it should be; `make` is one of jsonschema's."""
    from jsonschema import ValidationError  # type: ignore[import-untyped]
    from jsonschema.validators import extend  # type: ignore[import-untyped]

    def multiple_of(validator: Any, step: Any, value: Any, schema: Schema) -> Iterator[Any]:
        if validator.is_type(value, "number") and not _is_multiple(value, step):
            yield ValidationError(f"{value!r} is not a multiple of {step}")

    def properties(validator: Any, wanted: Any, value: Any, schema: Schema) -> Iterator[Any]:
        if not validator.is_type(value, "object"):
            return
        for name in (name for name, own in wanted.items() if own is False and name in value):
            yield ValidationError("nothing is allowed", path=[name], validator="false", instance=value[name])
        others = {name: own for name, own in wanted.items() if own is not False}
        yield from make.VALIDATORS["properties"](validator, others, value, schema)

    return extend(make, {"multipleOf": multiple_of, "properties": properties})


def _is_multiple(value: float, step: float) -> bool:
    try:
        return Fraction(repr(value)) % Fraction(repr(step)) == 0
    except ValueError:  # NaN or infinity
        return False
