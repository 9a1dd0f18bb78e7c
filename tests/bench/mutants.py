"""Break the source a little, one place at a time, and see whether the tests of its room notice.

    python -m tests.bench.mutants [--sample N] [--nearest] [--kept FILE] [ROOM ...]

A mutant is one changed comparison, condition, constant, return value or guard in a
module on which safety or money rests. Each is tried in a private copy of the tree:
first with the test files nearest to it, then with all tests of its room. Which ones
are tried is always the same for the same source. It takes an hour: `--nearest` asks
only the nearest tests, and with `--kept` a mutant that was noticed is not tried again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench._mutating import Mutant, mutants_of

ROOT = Path(__file__).parents[2]
SAMPLE = 300
_NEAREST_SECONDS = 300
_ROOM_SECONDS = 600
_TOGETHER = ("-n", "auto", "--dist", "loadfile")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_NOT_COPIED = shutil.ignore_patterns(".git", ".*venv", "__pycache__", ".*_cache", "dist")


@dataclass(frozen=True)
class Room:
    """Modules to be mutated, found by a class or function they define, and the tests that should notice."""

    below: str
    defines: str
    nearest: tuple[str, ...]
    """The test files that know it best, tried first."""
    tests: str
    """All tests of its room."""

    def module(self, root: Path = ROOT) -> Path:
        """The one module that defines it.

        Raises:
            LookupError: there is none, or more than one: the table below is out of date.
        """
        definition = re.compile(rf"^(class|def|async def) {self.defines}\b", re.MULTILINE)
        files = sorted((root / self.below).rglob("*.py"))
        found = [file for file in files if definition.search(file.read_text(encoding="utf-8"))]
        if len(found) != 1:
            raise LookupError(f"{self.defines!r} is defined in {len(found)} modules below {self.below}")
        return found[0]


ROOMS = {
    "policy": Room(
        "toolkit/runs", "Policy", ("tests/runs/test_policy.py", "tests/runs/test_approvals.py"), "tests/runs"
    ),
    "guard": Room(
        "toolkit/runs",
        "Guard",
        ("tests/runs/test_guard.py", "tests/runs/test_policy.py", "tests/runs/test_agents.py"),
        "tests/runs",
    ),
    "gate policy": Room(
        "toolkit/sandbox",
        "check_route",
        ("tests/sandbox/test_gate_refusals.py", "tests/sandbox/test_gate_secrets.py", "tests/sandbox/test_gate.py"),
        "tests/sandbox",
    ),
    "selection": Room(
        "workspace",
        "RuleList",
        ("tests/workspace/test_selecting.py", "tests/workspace/test_gitignore.py"),
        "tests/workspace",
    ),
    "decide": Room(
        "workspace",
        "Decider",
        ("tests/workspace/test_deciding.py", "tests/workspace/test_applying.py"),
        "tests/workspace",
    ),
    "steps": Room(
        "workspace",
        "Move",
        (
            "tests/workspace/test_moves.py",
            "tests/workspace/test_journal.py",
            "tests/workspace/test_applying.py",
            "tests/workspace/test_applying_races.py",
            "tests/workspace/test_interrupted_applying.py",
        ),
        "tests/workspace",
    ),
    "versions": Room(
        "workspace",
        "HostVersion",
        (
            "tests/workspace/test_journal.py",
            "tests/workspace/test_applying.py",
            "tests/workspace/test_interrupted_applying.py",
        ),
        "tests/workspace",
    ),
    "usage": Room("toolkit/runs", "TurnUsage", ("tests/runs/test_meter.py", "tests/runs/test_turns.py"), "tests/runs"),
    "gate usage": Room(
        "toolkit/sandbox",
        "Ledger",
        ("tests/sandbox/test_gate_ledger.py", "tests/sandbox/test_gate_spend.py", "tests/sandbox/test_gate.py"),
        "tests/sandbox",
    ),
}

_ONLY_ASKED = "callers only ask whether it is true"
_BLOCKS = "where the rules are cut into blocks changes no answer"
_INCLUDED = "return max(self._number, self._include.last_match(path, is_folder)) if self._include else 0"
_NEVER_READ = "without include patterns nobody asks for the number of one"
EXPLAINED: dict[tuple[str, str], str] = {
    ("_MOST_BLOCK_BYTES = 64_000", "64_000 → 63999"): _BLOCKS,
    ("_MOST_BLOCK_BYTES = 64_000", "64_000 → 64001"): _BLOCKS,
    ("size += len(pattern.regex) + 8", "8 → 9"): _BLOCKS,
    ("size += len(pattern.regex) + 8", "8 → 7"): _BLOCKS,
    ("start, size = end, 0", "0 → 1"): _BLOCKS,
    ("start, size = end, 0", "0 → (-1)"): _BLOCKS,
    (
        "if number == self._number:",
        "if number == self._number: return self → pass",
    ): "it only saves making the same again",
    (
        "values = {name: headers.all(name)[0] for name in REQUEST_HEADERS if len(headers.all(name)) == 1}",
        "0 → (-1)",
    ): "there is exactly one",
    (
        'going.sort(key=lambda case: (case.change.type == "folder", -case.path.count(b"/")))',
        "\"folder\" → 'folderx'",
    ): "the deepest first is enough: what is in a folder lies deeper than it",
    ("return self.goal is None", "return self.goal is None → return None"): "removing what is not there does nothing",
    ("return self.goal is None", "self.goal is None → (self.goal is not None)"): "there is nothing to change then",
    (
        "def __init__(self, run: str, attempt: int = 0) -> None:",
        "0 → (-1)",
    ): "in a run it is always said which process it is",
    (
        "if os.geteuid() != 0:",
        "if os.geteuid() != 0: return HostVersion(kind, mode) → pass",
    ): "whoever may not give a file away keeps it: that is no failure",
    (_INCLUDED, "0 → 1"): _NEVER_READ,
    (_INCLUDED, "0 → (-1)"): _NEVER_READ,
    ("return False", "return False → return None"): _ONLY_ASKED,
    ("return []", "return [] → return None"): "callers only ask whether there are any",
    (
        "if self.limit.price is not None and usd is not None:",
        "self.limit.price is not None and usd is not None → (self.limit.price is not None or usd is not None)",
    ): "there is a sum in dollars exactly where there are prices",
    ("if len(self._held) > MAX_EVENT_BYTES * 16:", "16 → 15"): "both are far beyond any answer",
    ("if len(self._held) > MAX_EVENT_BYTES * 16:", "16 → 17"): "both are far beyond any answer",
    (
        "self._guessed_output += 1 + max(0, len(line) - _DELTA_FRAME_BYTES) // _BYTES_A_TOKEN",
        "0 → 1",
    ): "one byte is no token",
}
"""Survivors that change nothing anybody could notice: the line of code, `OLD → NEW` as printed, and why."""


@dataclass(frozen=True)
class Tried:
    """A mutant and what became of it."""

    room: str
    file: str
    mutant: Mutant
    noticed_by: str
    """The test that failed, or another end of the tests; empty if all passed."""

    @property
    def is_noticed(self) -> bool:
        return bool(self.noticed_by)

    @property
    def is_explained(self) -> bool:
        return (self.mutant.code, str(self.mutant)) in EXPLAINED

    def __str__(self) -> str:
        return f"{self.file}:{self.mutant.line}  {self.room}: {self.mutant}"


def chosen(rooms: Sequence[str], sample: int) -> list[tuple[str, Path, Mutant]]:
    """About `sample` mutants, as many of each room as there are, up to its share."""
    every = {room: mutants_of(ROOMS[room].module().read_bytes()) for room in rooms}
    left, picked = sample, []
    for number, (room, mutants) in enumerate(sorted(every.items(), key=lambda item: len(item[1]))):
        share = min(len(mutants), left // (len(every) - number))
        left -= share
        some = random.Random(room).sample(mutants, share)
        file = ROOMS[room].module().relative_to(ROOT)
        picked += [(room, file, one) for one in sorted(some, key=lambda one: (one.start, one.end, one.new))]
    return picked


class Copy:
    """A private copy of the tree in which one module at a time is broken."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._time = 1_000_000_000
        shutil.copytree(ROOT, folder, symlinks=True, ignore=_NOT_COPIED)

    def notices(self, room: str, file: Path, mutant: Mutant, *, nearest_only: bool = False) -> str:
        """What fails with the mutant in place; empty if nothing does."""
        place = self.folder / file
        source = place.read_bytes()
        self._write(place, mutant.text(source))
        try:
            said = self.failure(ROOMS[room].nearest, _NEAREST_SECONDS)
            if not said and not nearest_only:
                said = self.failure([*_TOGETHER, ROOMS[room].tests], _ROOM_SECONDS)
            failed = _FAILED.search(said)
            return failed[1] if failed else said[-200:]
        finally:
            self._write(place, source)

    def failure(self, arguments: Sequence[str], seconds: float) -> str:
        """How these tests fail, if only by taking longer than they may; empty if they pass.

        Raises:
            RuntimeError: nothing was tested.
        """
        paths = [str(self.folder / name) for name in ("", "servers", "workspace")]
        base = self.folder.parent / "b"  # short: the path of a socket has to be
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--basetemp={base}",
            *arguments,
        ]
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                said, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return f"not done after {seconds} s"
        shutil.rmtree(base, ignore_errors=True)
        if process.returncode in (4, 5) or process.returncode < 0:
            raise RuntimeError(f"pytest ended with {process.returncode}:\n{said.decode(errors='replace')}")
        return said.decode(errors="replace")[-2000:] if process.returncode else ""

    def _write(self, place: Path, text: bytes) -> None:
        """Write a module with a time of its own: byte code is told from older one by the second and the size."""
        place.write_bytes(text)
        self._time += 2
        os.utime(place, (self._time, self._time))


class Kept:
    """Which mutants of which source were noticed, and by what, kept in a file from one time to the next."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        lines = file.read_text(encoding="utf-8").splitlines() if file is not None and file.exists() else []
        self._noticed: dict[str, str] = dict(json.loads(line) for line in lines)

    def noticed_by(self, room: str, file: Path, mutant: Mutant) -> str:
        """What noticed it the last time; empty if it is not known or survived."""
        return self._noticed.get(self._key(room, file, mutant), "")

    def keep(self, one: Tried) -> None:
        """Remember one that was noticed."""
        if self._file is not None and one.is_noticed:
            with self._file.open("a", encoding="utf-8") as out:
                out.write(json.dumps([self._key(one.room, Path(one.file), one.mutant), one.noticed_by]) + "\n")

    @staticmethod
    def _key(room: str, file: Path, mutant: Mutant) -> str:
        source = hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:16]
        return f"{room} {source} {mutant.start} {mutant.end} {mutant.new}"


def try_all(
    rooms: Sequence[str],
    *,
    sample: int = SAMPLE,
    nearest_only: bool = False,
    kept: Path | None = None,
    tell: Callable[[Tried], object] = lambda one: None,
) -> list[Tried]:
    """Try the chosen mutants, one after the other, and tell of each as it is known.

    Raises:
        RuntimeError: the tests fail without any mutant.
    """
    tried, known = [], Kept(kept)
    with tempfile.TemporaryDirectory(prefix="m-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # some tests go on as another user
        copy = Copy(Path(folder, "copy"))
        suites = [ROOMS[room].nearest if nearest_only else (*_TOGETHER, ROOMS[room].tests) for room in rooms]
        for tests in dict.fromkeys(suites):
            if failure := copy.failure(tests, _ROOM_SECONDS):
                raise RuntimeError(f"{' '.join(tests)} fails without any mutant: {failure}")
        for room, file, mutant in chosen(rooms, sample):
            before = known.noticed_by(room, file, mutant)
            noticed_by = before or copy.notices(room, file, mutant, nearest_only=nearest_only)
            tried.append(Tried(room, file.as_posix(), mutant, noticed_by))
            if not before:
                known.keep(tried[-1])
            tell(tried[-1])
    return tried


def shares(tried: Sequence[Tried]) -> Iterator[tuple[str, int, int]]:
    """Room, how many of its mutants were noticed, and of how many; explained ones are left out."""
    for room in dict.fromkeys(one.room for one in tried):
        counted = [one for one in tried if one.room == room and (one.is_noticed or not one.is_explained)]
        yield room, sum(one.is_noticed for one in counted), len(counted)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.mutants")
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"one of: {', '.join(ROOMS)}; all if none is named")
    parser.add_argument("--sample", type=int, default=SAMPLE, help="how many mutants are tried in all")
    parser.add_argument("--nearest", action="store_true", help="ask only the nearest tests")
    parser.add_argument(
        "--kept", type=Path, metavar="FILE", help="a mutant noticed as this file says is not tried again"
    )
    options = parser.parse_args(words)
    if unknown := sorted({*options.rooms} - {*ROOMS}):
        parser.error(f"no room called {', '.join(unknown)}; there are: {', '.join(ROOMS)}")

    def tell(one: Tried) -> None:
        by = f"  [{one.noticed_by.splitlines()[-1]}]" if one.is_noticed else ""
        print(f"{'noticed ' if one.is_noticed else 'SURVIVED'}  {one}{by}", flush=True)

    rooms = options.rooms or list(ROOMS)
    tried = try_all(rooms, sample=options.sample, nearest_only=options.nearest, kept=options.kept, tell=tell)
    for room, noticed, count in shares(tried):
        print(f"{noticed:4} of {count:4} noticed  {room}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
