"""Run the benches and print, for each row: what, ours, theirs, ratio, the bound and whether it holds.

    ./dev bench            all of them
    ./dev bench stdio      only tests/bench/bench_stdio.py

`noise` is a median over its bound whose spread reaches it; `open` a row whose contender is not installed.
Ends with 1 when a row is over its bound or a bench fails, with 2 for a name that does not exist.
"""

from __future__ import annotations

import shutil
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path

from tests.bench._common import Row

Bench = Callable[[], Iterable[Row]]

_LINE = "{:<64} {:>11} {:>11} {:>8} {:>15} {:>9}  {}"


def find_benches() -> dict[str, str]:
    """Name → module of every bench there is."""
    files = sorted(Path(__file__).parent.glob("bench_*.py"))
    return {file.stem.removeprefix("bench_"): f"tests.bench.{file.stem}" for file in files}


def format_row(row: Row) -> str:
    """One line of the table."""
    bound = f"≤ {row.must_be:g}" + ("x" if row.theirs is not None or row.missing else "")
    if row.missing:
        return _LINE.format(row.what, "-", "-", "-", "-", bound, f"open: {row.missing} is not installed")
    ours = f"{row.ours:.3g} {row.unit}"
    spread = "-" if row.spread is None else "–".join(_number(value) for value in row.spread)
    if row.theirs is None:
        return _LINE.format(row.what, ours, "-", "-", spread, bound, row.verdict)
    theirs = f"{row.theirs:.3g} {row.unit}"
    return _LINE.format(row.what, ours, theirs, f"{_number(row.judged)}x", spread, bound, row.verdict)


def _number(value: float) -> str:
    return f"{value:.2f}" if value >= 0.095 else f"{value:.4f}"


def run_bench(name: str, main: Bench) -> bool:
    """Print a bench's rows as they are measured; True when it gave rows and each keeps its bound."""
    seen, ok = 0, True
    try:
        for row in main():
            print(format_row(row), flush=True)
            seen, ok = seen + 1, ok and row.ok
    except FileNotFoundError as error:
        missing = str(error.filename or "")
        if "/" in missing or not missing or shutil.which(missing):
            raise
        print(f"bench {name}: {missing} is not installed, its other rows are left open", flush=True)
        return ok
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
    print(_LINE.format("what", "ours", "theirs", "ratio", "spread", "must be", ""), flush=True)
    done = [run_bench(name, import_module(benches[name]).main) for name in names or benches]
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
