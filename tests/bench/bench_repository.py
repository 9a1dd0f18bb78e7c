"""A real repository for an agent: 30,000 files, 60,000 more in node_modules, 200 MB of history.

Preparing it, with git at work and node_modules lent, against what people do by hand: `git worktree add` of the
same commit and `cp -a node_modules`. And `git status` in the jail against the same on the host: git's own time, in turns.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bench._common import Pair, Row, interleave
from toolkit.sandbox import Jail
from toolkit.sandbox.jail import ENVIRONMENT, JailFolder, open_jail
from toolkit.workspace import HostMount, WorkspaceSection

FILES, PACKAGES, HISTORY_MB, ROUNDS, ASKED = 30_000, 60_000, 200, 5, 31
_ASKED_AGAIN = """
git status --porcelain > /dev/null
while read -r; do
    start=$EPOCHREALTIME; git status --porcelain > /dev/null; end=$EPOCHREALTIME
    echo $(( (${end/./} - ${start/./}) ))
done
"""
"""Git's own time in microseconds, once for each line it is sent; the shell around it runs all the while."""


def main() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        top = Path(folder)
        shop = _make(top / "shop")
        pair = interleave(lambda: _prepare(shop, top), lambda: _by_hand(shop, top), rounds=ROUNDS)
        yield pair.row(f"prepare {FILES:,} files, git, node_modules / worktree add + cp -a", 0.3)
        yield _status(shop, top).row("git status in the jail / on the host", 1.2)


def _make(shop: Path) -> Path:
    rng = random.Random(14)
    shop.mkdir()
    _git(shop, "init", "-q")
    for number in range(HISTORY_MB // 4):  # bytes that do not compress, gone from the work tree again
        (shop / "asset.bin").write_bytes(rng.randbytes(4 << 20))
        _git(shop, "add", "asset.bin")
        _git(shop, "commit", "-qm", f"asset {number}")
    _git(shop, "rm", "-q", "asset.bin")
    _fill(shop / "src", FILES, rng)
    (shop / ".gitignore").write_text("node_modules/\n")
    _git(shop, "add", "-A")
    _git(shop, "commit", "-qm", "code")
    _git(shop, "gc", "-q")
    _fill(shop / "node_modules", PACKAGES, rng)
    return shop


def _fill(root: Path, files: int, rng: random.Random) -> None:
    for number in range(files // 20):
        folder = root / f"package{number % 50}" / f"part{number}"
        folder.mkdir(parents=True)
        for file in range(20):
            (folder / f"file_{file}.js").write_bytes(rng.randbytes(rng.randrange(100, 3000)).hex().encode())


def _prepare(shop: Path, top: Path) -> None:
    section = WorkspaceSection([HostMount(shop, lend="node_modules")], [shop], parent=top, keep_bases=False).prepare()
    shutil.rmtree(section.state_dir)
    section.temp_dir.rename(top / f"done-{section.temp_dir.name}")  # removing it is not measured


def _by_hand(shop: Path, top: Path) -> None:
    tree = Path(tempfile.mkdtemp(prefix="tree-", dir=top)) / "shop"
    _git(shop, "worktree", "add", "-q", "--detach", str(tree))
    subprocess.run(["cp", "-a", str(shop / "node_modules"), str(tree)], check=True)


def _status(shop: Path, top: Path) -> Pair:
    section = WorkspaceSection([HostMount(shop, lend="node_modules")], [shop], parent=top).prepare()
    section.show_inside()
    places = section.places
    jail = Jail(
        section.temp_dir,
        places=tuple((part.landing, part.inside) for part in places.parts),
        start=places.start,
        lent=tuple((Path(host), inside) for host, inside in section.shown.all),
        environment={**ENVIRONMENT, "GIT_CONFIG_GLOBAL": os.devnull},
    )
    command = ["/bin/bash", "-c", _ASKED_AGAIN]
    with JailFolder() as own, ExitStack() as stack:
        opened = open_jail(jail, own)
        inside = stack.enter_context(_shell([str(opened.script), *command], None))
        host = stack.enter_context(_shell(command, shop))
        # In turns, and each once before: what the machine does meanwhile, and what it has in memory, is the same.
        pair = Pair([], [])
        sides = [(inside, pair.ours), (host, pair.theirs)]
        for turn in range(-1, ASKED):
            for shell, times in sides if turn % 2 == 0 else reversed(sides):
                taken = _one(shell)
                if turn >= 0:
                    times.append(taken)
    section.cleanup()
    return pair


@contextmanager
def _shell(command: list[str], folder: Path | None) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, text=True, bufsize=1, stdin=pipe, stdout=pipe) as shell:
        yield shell
        assert shell.stdin is not None
        shell.stdin.close()


def _one(shell: subprocess.Popen[str]) -> float:
    assert shell.stdin is not None
    assert shell.stdout is not None
    shell.stdin.write("\n")
    return int(shell.stdout.readline()) / 1e6


def _git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=b", "-c", "user.email=b@b", "-c", "gc.auto=0"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)
