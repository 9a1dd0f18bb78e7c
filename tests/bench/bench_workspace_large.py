"""Preparing and `changes()` from 30,000 to a million files: memory is bounded by the files, and time grows with them.

Each size is measured in a process of its own, on a tree of small files, most of them empty, that is gone afterwards. Time is
that of the processors, ours and the second process's, the kernel's part included: what else runs on the machine does not count.
The exponent is the slope of all sizes, in logarithms: 1 where twice the files take twice the time.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench._common import Row, child_env
from tests.bench.bench_workspace_prepare import roomy_memory

SIZES = (30_000, 100_000, 300_000, 1_000_000)
PER_FOLDER = 25
BASE_MB, BYTES_PER_FILE = 60, 100
EXPONENT = 1.05
ROUNDS = {30_000: 5, 100_000: 3}
_CHILD = """
import json, resource, sys, time
def used():
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in found)
def peak():
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))) * 1024
from toolkit.workspace import HostMount, WorkspaceSection
start = used()
section = WorkspaceSection([HostMount(sys.argv[1], "src")], [sys.argv[1]], parent=sys.argv[2], keep=True).prepare()
section.release()
prepared = used() - start
at_prepare = peak()
for number in range(40):
    (section.temp_dir / "src" / f"new{number}").write_bytes(b"new")
start = used()
assert len(section.changes()) == 40
seen = used() - start
print(json.dumps([prepared, seen, at_prepare, peak(), str(section.temp_dir)]))
"""
_LATER = """
import json, resource, sys, time
def used():
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in found)
def peak():
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))) * 1024
from toolkit.workspace import WorkspaceSection
section = WorkspaceSection.open(sys.argv[1])
assert len(section.changes()) == 40
print(peak())
section.cleanup()
"""


def main() -> Iterator[Row]:
    top = Path(tempfile.mkdtemp(prefix="bench-large-", dir=_roomy()))
    times: list[tuple[int, float, float]] = []
    try:
        for size in SIZES:
            if _has_no_room(top, size):
                print(f"bench workspace_large: {top} has no room for {size:,} files", file=sys.stderr)
                break
            make_many(top / "tree", size)
            prepared, seen, memory = _measured(top, ROUNDS.get(size, 1))
            times.append((size, prepared, seen))
            bound = BASE_MB + size * BYTES_PER_FILE / 1e6
            yield Row(f"peak memory, preparing and changes() of {size:,} files", memory / 1e6, None, bound, "MB")
            subprocess.run(["rm", "-rf", top / "tree"], check=True)
        print(f"bench workspace_large: files, CPU s of prepare and of changes(): {times}", file=sys.stderr)
        for what, column in (("preparing", 1), ("changes()", 2)):
            name = f"{what}, CPU time from {times[0][0]:,} to {times[-1][0]:,} files, exponent"
            yield Row(name, _exponent([(one[0], one[column]) for one in times]), None, EXPONENT, "")
    finally:
        subprocess.run(["rm", "-rf", top], check=True)


def make_many(root: Path, files: int) -> None:
    """Folders of a few files, three levels deep; one file in ten holds something."""
    made = 0
    while made < files:
        number = made // PER_FOLDER
        folder = root / f"part{number // 400}" / f"module{number // 20 % 20}" / f"folder{number}"
        folder.mkdir(parents=True)
        for one in range(min(PER_FOLDER, files - made)):
            handle = os.open(folder / f"file{one}.py", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            if one % 10 == 0:
                os.write(handle, b"x = 1\n")
            os.close(handle)
        made += PER_FOLDER


def _measured(top: Path, rounds: int) -> tuple[float, float, float]:
    """Seconds to prepare and to see changes, the best of some rounds, and the peak of both processes."""
    found = []
    for _ in range(rounds):
        prepared, seen, at_first, at_end, folder = json.loads(_child(_CHILD, str(top / "tree"), str(top)))
        later = int(_child(_LATER, folder))
        found.append((prepared, seen, max(at_first, at_end, later)))
    return min(one[0] for one in found), min(one[1] for one in found), max(one[2] for one in found)


def _child(program: str, *words: str) -> str:
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, check=True, capture_output=True, env=child_env(), text=True, timeout=1800)
    return done.stdout


def _has_no_room(top: Path, files: int) -> bool:
    found = os.statvfs(top)
    return 0 < found.f_favail < 2.1 * files or shutil.disk_usage(top).free < files * 3_000


def _roomy() -> str | None:
    """Memory, where it has room for the largest tree and its copy; else the disk."""
    memory = roomy_memory()
    return None if memory is None or _has_no_room(Path(memory), max(SIZES)) else memory


def _exponent(times: list[tuple[int, float]]) -> float:
    """The slope of a straight line through the logarithms."""
    points = [(math.log(files), math.log(seconds)) for files, seconds in times]
    return statistics.linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else 1.0
