"""A run goes back to its caller: into the store that was named, or along with the answer."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from toolkit.errors import RunError, ToolkitError
from toolkit.fleets.returns import bring
from toolkit.fleets.store import MemoryStore, open_store
from toolkit.runs import StoredRun
from toolkit.runs.storage import runs_home


@dataclass(frozen=True, slots=True)
class Sent:
    """A run on its way back."""

    brought: dict[str, Any] | None = None
    """What its caller is told of it; None where it could not be sent."""
    records: dict[str, bytes] = field(default_factory=dict, repr=False)
    """It itself, where no store was named."""
    why: str = ""
    """Why it could not be sent."""

    def to_bytes(self) -> bytes:
        """All of it as it travels."""
        sizes = [(name, len(data)) for name, data in self.records.items()]
        head = json.dumps({"brought": self.brought, "why": self.why, "sizes": sizes}).encode()
        return b"".join([len(head).to_bytes(8, "big"), head, *self.records.values()])

    @classmethod
    def of(cls, data: bytes) -> Sent:
        """The same again.

        Raises:
            RunError: it cannot be read.
        """
        try:
            end = 8 + int.from_bytes(data[:8], "big")
            head = json.loads(data[8:end])
            records: dict[str, bytes] = {}
            for name, size in head["sizes"]:
                records[str(name)] = data[end : end + int(size)]
                end += int(size)
            return cls(head["brought"], records, str(head["why"]))
        except (ValueError, TypeError, KeyError) as error:
            raise RunError(f"a run that came back cannot be read: {type(error).__name__}") from None


def send_back(run: str, base: str, pack: str | None, store: str | None) -> Sent:
    """Send a run that has ended on this machine back to its caller."""
    place = MemoryStore() if store is None else open_store(store)
    try:
        brought = bring(StoredRun(runs_home() / run), place, pack=pack, name=f"{base}/runs/{run}")
    except ToolkitError as error:
        return Sent(why=str(error))
    return Sent(asdict(brought), place.records if isinstance(place, MemoryStore) else {})


def drop_run(run: str) -> None:
    """Remove a run that its caller has; what a later run went on in stays."""
    with contextlib.suppress(ToolkitError, OSError):
        StoredRun(runs_home() / run).remove(forgetting=False)
