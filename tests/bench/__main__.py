"""Run the benches and print, for each row: what, ours, theirs, ratio, the bound and whether it holds.

    ./dev bench            all of them
    ./dev bench stdio      only tests/bench/bench_stdio.py

Ends with 1 when a row is over its bound or a bench fails, with 2 for a name that does not exist.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path

from tests.bench._common import Row

Bench = Callable[[], Iterable[Row]]

_LINE = "{:<58} {:>12} {:>12} {:>8} {:>9}  {}"


def find_benches() -> dict[str, str]:
    """Name → module of every bench there is."""
    files = sorted(Path(__file__).parent.glob("bench_*.py"))
    return {file.stem.removeprefix("bench_"): f"tests.bench.{file.stem}" for file in files}


def format_row(row: Row) -> str:
    """One line of the table."""
    ours = f"{row.ours:.3g} {row.unit}"
    verdict = "ok" if row.ok else "OVER"
    if row.theirs is None:
        return _LINE.format(row.what, ours, "-", "-", f"≤ {row.must_be:g}", verdict)
    ratio = f"{row.judged:.2f}x" if row.judged >= 0.095 else f"{row.judged:.4f}x"
    return _LINE.format(row.what, ours, f"{row.theirs:.3g} {row.unit}", ratio, f"≤ {row.must_be:g}x", verdict)


def run_bench(name: str, main: Bench) -> bool:
    """Print a bench's rows as they are measured; True when it gave rows and each keeps its bound."""
    seen, ok = 0, True
    try:
        for row in main():
            print(format_row(row), flush=True)
            seen, ok = seen + 1, ok and row.ok
    except Exception:
        traceback.print_exc()
        print(f"bench {name} failed", flush=True)
        return False
    if not seen:
        print(f"bench {name} measured nothing", flush=True)
    return ok and seen > 0


def main(names: Sequence[str]) -> int:
    benches = find_benches()
    unknown = [name for name in names if name not in benches]
    if unknown:
        print(f"no bench called {', '.join(unknown)}; there are: {', '.join(benches)}", file=sys.stderr)
        return 2
    print(_LINE.format("what", "ours", "theirs", "ratio", "must be", ""), flush=True)
    done = [run_bench(name, import_module(benches[name]).main) for name in names or benches]
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
