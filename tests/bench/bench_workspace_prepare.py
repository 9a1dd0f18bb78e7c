"""How quickly a workspace is ready, against cp, rsync and the plain loop, on a tree made here; and what it weighs.

In memory where there is room for it: a disk writes back whenever it likes, and hits whoever is running then.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pathspec

from tests.bench._common import Pair, Row, child_env, first_missing, left_open
from toolkit.workspace import HostMount, WorkspaceSection
from toolkit_workspace.selecting.pattern import read_globs
from toolkit_workspace.selecting.rules import RuleList

FILES = 30_000
MODULES = 60_000
ROUNDS = 15
EXCLUDE = ("node_modules/", "*.pyc", "build/")


def main() -> Iterator[Row]:
    top = Path(tempfile.mkdtemp(prefix="bench-workspace-", dir=roomy_memory()))
    try:
        make_tree(top / "tree", FILES, average=8_000)
        yield _copies(top, (), ["cp", "-a"]).row(f"prepare {FILES:,} files / cp -a", 1.0, unit="s")
        make_tree(top / "tree/node_modules", MODULES, average=300)
        excludes = [f"--exclude={pattern}" for pattern in EXCLUDE]
        what = "prepare with excludes / rsync -a"
        if missing := first_missing("rsync"):
            yield left_open(what, 1.0, missing)
        else:
            yield _copies(top, EXCLUDE, ["rsync", "-a", *excludes]).row(what, 1.0, unit="s")
        yield _interleaved(_prepare(top, EXCLUDE), _plain_loop(top), rounds=2).row(
            "prepare with excludes / os.walk + match_file + copy2", 0.35, unit="s"
        )
        yield _matching()
        shutil.rmtree(top / "tree/node_modules")
        yield Row("watch, median delay of a host edit", asyncio.run(_delay(top)), None, 150)
        make_tree(top / "many", 100_000, average=10)
        yield Row("peak memory for 100,000 files above the interpreter", _memory(top / "many"), None, 45, "MB")
    finally:
        subprocess.run(["rm", "-rf", top], check=True)


def roomy_memory() -> str | None:
    memory = "/dev/shm"
    return memory if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 << 30 else None


def make_tree(root: Path, files: int, *, average: int) -> None:
    """Folders of about a dozen files, up to nine levels deep."""
    rng = random.Random(1)
    blob = rng.randbytes(1 << 20)
    root.mkdir()
    folders = [(root, 0)]
    made = 0
    while made < files:
        above, depth = rng.choice(folders[-200:])
        folder = above / f"folder{made}"
        folder.mkdir()
        if depth < 8:
            folders.append((folder, depth + 1))
        for _ in range(min(rng.randint(2, 24), files - made)):
            start = rng.randrange(1 << 19)
            size = min(int(rng.expovariate(1 / average)), 1 << 19)
            (folder / f"file{made}.{rng.choice(['py', 'txt', 'c', 'md'])}").write_bytes(blob[start : start + size])
            made += 1


def _target(top: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix="out-", dir=top))


Run = Callable[[], Path | WorkspaceSection]


def _prepare(top: Path, exclude: tuple[str, ...]) -> Run:
    def run() -> WorkspaceSection:
        mount = HostMount(top / "tree", exclude_glob=exclude)
        return WorkspaceSection([mount], [top], parent=_target(top)).prepare()

    return run


def _command(top: Path, command: list[str]) -> Run:
    def run() -> Path:
        target = _target(top)
        subprocess.run([*command, top / "tree", target], check=True, env=child_env())
        return target

    return run


def _plain_loop(top: Path) -> Run:
    spec = pathspec.GitIgnoreSpec.from_lines(EXCLUDE, backend="simple")

    def run() -> Path:
        source, target = str(top / "tree"), _target(top)
        for folder, _, names in os.walk(source):
            for name in names:
                inner = os.path.relpath(os.path.join(folder, name), source)  # noqa: PTH118
                if not spec.match_file(inner):
                    (target / inner).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(os.path.join(folder, name), target / inner)  # noqa: PTH118
        return target

    return run


def _remove(made: Path | WorkspaceSection) -> None:
    """After the clock has stopped; cleanup also ends the thread that keeps base bytes."""
    if isinstance(made, Path):
        subprocess.run(["rm", "-rf", made], check=True)
    else:
        made.cleanup()


def _copies(top: Path, exclude: tuple[str, ...], command: list[str]) -> Pair:
    return _interleaved(_prepare(top, exclude), _command(top, command), rounds=ROUNDS)


def _interleaved(ours: Run, theirs: Run, *, rounds: int) -> Pair:
    pair = Pair([], [])
    sides = [(ours, pair.ours), (theirs, pair.theirs)]
    for turn in range(-1, rounds):
        for run, times in sides if turn % 2 == 0 else reversed(sides):
            gc.collect()
            start = time.perf_counter()
            made = run()
            taken = time.perf_counter() - start
            _remove(made)
            if turn >= 0:
                times.append(taken)
    return pair


def _matching() -> Row:
    """300 patterns over 50,000 paths, all asked."""
    lines = [f"*.ext{n}" for n in range(100)] + [f"/some{n}/**/name{n}" for n in range(100)]
    lines += [f"gen{n}-[0-9]*/" for n in range(100)]
    paths = [f"a{n % 7}/b{n % 130}/c{n % 11}/file{n}.py" for n in range(50_000)]
    simple = pathspec.GitIgnoreSpec.from_lines(lines, backend="simple")
    raw = [path.encode() for path in paths]
    rules = RuleList(read_globs(lines, "exclude_glob"))
    start = time.perf_counter()
    found = sum(1 for path in raw if rules.last_match(path, False))
    ours = time.perf_counter() - start
    start = time.perf_counter()
    theirs_found = sum(1 for path in paths if simple.match_file(path))
    theirs = time.perf_counter() - start
    assert found == theirs_found
    return Row("300 patterns over 50,000 paths / pathspec simple", ours, theirs, 0.1, "s")


async def _delay(top: Path) -> float:
    """Milliseconds from a host edit until the workspace has it, the median of forty."""
    mount = HostMount(top / "tree")
    delays = []
    with WorkspaceSection([mount], [top], parent=_target(top)) as section:
        async with section.watch() as watching:
            await watching.settle()
            for number in range(40):
                file = next((top / "tree").iterdir()) / f"edit{number}.txt"
                start = time.perf_counter()
                file.write_bytes(b"edit")
                async with asyncio.timeout(20):
                    async for event in watching:
                        if event.path.endswith(file.name):
                            break
                delays.append((time.perf_counter() - start) * 1e3)
                file.unlink()
    return statistics.median(delays)


_CHILD = """
import sys
if len(sys.argv) > 1:
    from toolkit.workspace import HostMount, WorkspaceSection
    with WorkspaceSection([HostMount(sys.argv[1])], [sys.argv[1]], parent=sys.argv[2]) as section:
        section.render()
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def _memory(tree: Path) -> float:
    """Megabytes; not ru_maxrss, which a child inherits from the process that started it."""

    def peak(*arguments: str) -> int:
        command = [sys.executable, "-c", _CHILD, *arguments]
        return int(subprocess.run(command, check=True, capture_output=True, env=child_env(), text=True).stdout)

    return (peak(str(tree), str(_target(tree.parent))) - peak()) / 1024
