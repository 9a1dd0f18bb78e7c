"""What it costs to bring one repository to the workers of a machine, and what every further run there costs.

Eight worker processes ask for the same pack at the same time: one of them fetches and unpacks it, the others wait. They
are there before the clock starts, as the workers of a cluster are.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench._common import Row, child_env, interleave
from tests.bench.bench_workspace_prepare import make_tree, roomy_memory
from toolkit.fleets.packs import Pack, pack, send_pack, unpack
from toolkit.fleets.store import FolderStore
from toolkit.workspace import HostMount, WorkspaceSection

FILES = 30_000
WORKERS = 8
ROUNDS = 5
WORKER = """
import pickle, sys
from pathlib import Path
from toolkit.fleets.packs import unpack
from toolkit.fleets.store import FolderStore
for line in sys.stdin:
    store, temp, packed = line.split()
    unpack(pickle.loads(bytes.fromhex(packed)), FolderStore(store), temp=Path(temp)).release()
    print("there", flush=True)
"""


def main() -> Iterator[Row]:
    top = Path(tempfile.mkdtemp(prefix="bench-packs-", dir=roomy_memory()))
    workers = [_worker() for _ in range(WORKERS)]
    try:
        make_tree(top / "tree", FILES, average=8_000)
        bringing = _Bringing(top, workers)
        pair = interleave(bringing.bring, bringing.prepare, rounds=ROUNDS)
        yield pair.row(
            f"{FILES:,} files packed and brought to {WORKERS} workers of a machine / one prepare", 2.0, unit="s"
        )
        again = interleave(bringing.arrived, bringing.prepare, rounds=ROUNDS)
        yield again.row("a further run on a worker that has the pack / one prepare", 1.2, unit="s")
    finally:
        for worker in workers:
            worker.kill()
            worker.wait(10)
        subprocess.run(["rm", "-rf", top], check=True)


class _Bringing:
    def __init__(self, top: Path, workers: list[subprocess.Popen[str]]) -> None:
        self._top, self._workers, self._round = top, workers, 0
        self._latest: tuple[Pack, Path] | None = None

    def _section(self) -> WorkspaceSection:
        return WorkspaceSection([HostMount(self._top / "tree")], [self._top], backend="copy")

    def bring(self) -> None:
        """Pack it, send it, and wait until every worker has it."""
        self._round += 1
        folder = self._top / f"round{self._round}"
        (folder / "temp").mkdir(parents=True)
        packed = pack(self._section(), folder / "packs", toolchain=False)
        send_pack(packed, folder / "packs", FolderStore(folder / "store"))
        for worker in self._workers:
            assert worker.stdin is not None
            worker.stdin.write(f"{folder / 'store'} {folder / 'temp'} {pickle.dumps(packed).hex()}\n")
            worker.stdin.flush()
        for worker in self._workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "there\n"
        before, self._latest = self._latest, (packed, folder)
        if before is not None:
            subprocess.run(["rm", "-rf", before[1]], check=True)

    def prepare(self) -> None:
        """What a run on the caller's own machine does."""
        with self._section().prepare(parent=self._top):
            pass

    def arrived(self) -> None:
        """A workspace on a worker that has the pack."""
        assert self._latest is not None
        packed, folder = self._latest
        with unpack(packed, FolderStore(folder / "store"), temp=folder / "temp") as there:
            section = there.section()
            section.backend = "copy"
            with section.prepare(parent=self._top):
                pass


def _worker() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=child_env()
    )


if __name__ == "__main__":
    for row in main():
        print(row, row.verdict)
