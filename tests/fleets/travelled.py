"""A run on a worker that shares nothing but a store with its caller, played in one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.fleets.packs import PackedHome, pack, packed_home, send_pack, unpack
from toolkit.fleets.returns import Brought, bring, take_in
from toolkit.fleets.store import FolderStore
from toolkit.runs import StoredRun, load_run, run
from toolkit.testing import FakeCLI, text, tool_use
from toolkit.workspace import WorkspaceSection


@dataclass
class Fleet:
    """A caller and a worker with homes and temp folders of their own."""

    top: Path

    def __post_init__(self) -> None:
        for name in ("caller", "worker", "temp"):
            (self.top / name).mkdir(exist_ok=True)
        self.store = FolderStore(self.top / "store")
        self.packs = self.top / "caller" / "packs"

    def packed(self, section: WorkspaceSection) -> PackedHome:
        """What the batch works on, packed and sent."""
        made = pack(section, self.packs)
        send_pack(made, self.packs, self.store)
        return packed_home(made, self.packs)

    async def done(self, packed: PackedHome, run_id: str, work: Callable[[Path], Any], **options: Any) -> StoredRun:
        """A run on the worker in which the agent does this to its copy."""
        with unpack(packed.pack, self.store, temp=self.top / "temp") as arrived:
            section = arrived.section()

            def bash(arguments: dict[str, Any]) -> str:
                work(section.temp_dir)
                return "done"

            cli = FakeCLI([tool_use("Bash", command="work")], [text("All done.")], tools={"Bash": bash})
            home = self.top / "worker"
            await run("Work.", workspace=section, transport=cli, run_id=run_id, home=home, **options)
            return load_run(run_id, home)

    async def returned(self, section: WorkspaceSection, run_id: str, work: Callable[[Path], Any]) -> StoredRun:
        """The same, come back to the caller."""
        packed = self.packed(section)
        stored = await self.done(packed, run_id, work)
        brought = bring(stored, self.store, pack=packed.pack.hash)
        stored.remove()
        return self.take_in(brought, packed)

    def take_in(self, brought: Brought, packed: PackedHome | None, **options: Any) -> StoredRun:
        """Taken in by the caller."""
        return take_in(brought, self.store, run=brought.run, pack=packed, home=self.top / "caller", **options)
