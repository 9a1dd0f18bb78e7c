"""An order: what a worker is asked to do, and its answer. No credential is in either."""

from __future__ import annotations

import dataclasses
import json
import pickle
from dataclasses import dataclass, field
from typing import Any, Literal

from toolkit.errors import RunError
from toolkit.fleets.packs import Pack
from toolkit.fleets.workers.returning import Sent
from toolkit.runs import RunResult, RunSpec

_SECRETS: dict[str, Any] = {"api_key": None, "auth_token": None, "oauth_token": None, "api_headers": {}}
"""The options of a run that hold a credential, and what they are without one."""

MARK = "mark"
Kind = Literal["ended", "unsaid", "held", "lost", "released"]
_KINDS = ("ended", "unsaid", "held", "lost", "released")


@dataclass(frozen=True, slots=True)
class Order:
    """One task for a worker."""

    batch: str
    base: str
    """Where the batch keeps its records in the store."""
    task: str
    prompt: str
    spec: bytes = field(repr=False)
    """The spec, pickled: see `pack_spec`."""
    after: int = 0
    """The runs of the task up to this number do not count."""
    lease: float = 60.0
    most_losses: int = 2
    priority: int = 0
    """Whose requests go first on the worker."""
    store: str | None = None
    """The address of the store; None for one that is reached through the engine."""
    pack: Pack | None = None
    """What the run works on, for workers that do not share the caller's disk."""
    door: tuple[str, str] | None = field(default=None, repr=False)
    """Where the caller's gate is, and the word for it; None where the worker has a key of its own."""
    code: Pack | None = None
    """Files of tools that the worker does not have."""
    mark: str = ""
    """What stands in the file `mark` of the batch: whoever finds that stores runs where the caller does."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an order."""

    kind: Kind
    """`ended`: the task is done with. `unsaid`: so it is, and nobody could be told. `held`: another worker does it.
    `lost`: it was cut off here. `released`: this one could not do it."""
    said: dict[str, Any]
    """What is written down of the end, of who holds it, or of why it was given back."""
    worker: str = ""
    result: dict[str, Any] | None = None
    """The result of the run, where it was done for this order."""
    is_stored: bool = False
    """Whether the caller has the run on its own disk."""
    sent: Sent | None = field(default=None, repr=False)
    """The run itself, on its way back."""

    def to_bytes(self) -> bytes:
        """The answer as it travels: no pickle, as its reader trusts no worker."""
        names = ("kind", "said", "worker", "result", "is_stored")
        head = json.dumps({name: getattr(self, name) for name in names}).encode()
        rest = b"" if self.sent is None else self.sent.to_bytes()
        return len(head).to_bytes(8, "big") + head + rest

    @classmethod
    def of(cls, data: bytes) -> Answer:
        """The answer in what a worker sent.

        Raises:
            RunError: there is none.
        """
        try:
            end = 8 + int.from_bytes(data[:8], "big")
            rest = data[end:]
            answer = cls(**json.loads(data[8:end]), sent=Sent.of(rest) if rest else None)
            if answer.kind not in _KINDS or not isinstance(answer.said, dict):
                raise ValueError(answer.kind)
            if answer.result is not None:
                RunResult.from_data(answer.result)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RunError(f"a worker's answer cannot be read: {type(error).__name__}") from None
        return answer


def pack_spec(spec: RunSpec) -> bytes:
    """A spec as it travels: without credentials, and without what belongs to this machine.

    Raises:
        RunError: it cannot be sent.
    """
    try:
        return pickle.dumps(dataclasses.replace(spec, **_SECRETS, home=None))
    except Exception as error:
        raise RunError(
            f"the spec cannot be sent: {type(error).__name__}: {error}",
            fix="Name tools by their file or module, and give no functions of your own",
        ) from None


def unpack_spec(data: bytes) -> RunSpec:
    """The spec of an order.

    Raises:
        RunError: it cannot be read here.
    """
    try:
        spec = pickle.loads(data)
    except Exception as error:
        raise RunError(f"the spec cannot be read here: {type(error).__name__}: {error}") from None
    if not isinstance(spec, RunSpec):
        raise RunError("an order holds no spec")
    return spec
