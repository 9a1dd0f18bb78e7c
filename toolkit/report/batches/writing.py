"""The page of a batch as a file, and beside it the reports of its runs: `FILE-runs/RUN.html`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from toolkit._base.files import refused_at, write_whole
from toolkit.errors import RunError, ToolkitError
from toolkit.report import render_report
from toolkit.report.batches.data import batch_data
from toolkit.report.batches.page import make_batch_page

if TYPE_CHECKING:
    from toolkit.fleets.looking import BatchTable
    from toolkit.runs import StoredRun

_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,150}")
_READ_FROM = ("run.json", "result.json", "events.jsonl", "delivery.json")


def render_batch(table: BatchTable) -> str:
    """The page alone, without links.

    Raises:
        RunError: the batch cannot be read.
    """
    return make_batch_page(batch_data(table, lambda run: None))


def write_batch(
    table: BatchTable,
    file: Path | str | None = None,
    *,
    with_runs: bool = True,
    on_run: Callable[[int, int], None] | None = None,
) -> Path:
    """Write the page to a file (`report.html` in the batch's folder if not given) and give its path.

    `with_runs` writes the report of every run beside it, and links it; one that is there already and as new as its
    run is left. A run that cannot be read has no link. `on_run` is told how many of how many are written. Only their
    owner may read the files.

    Raises:
        RunError: the batch cannot be read, or a file cannot be written.
    """
    target = Path(file).absolute() if file is not None else table.batch.folder / "report.html"
    beside = target.with_name(f"{target.stem}-runs")
    linked: dict[str, str] = {}
    try:
        if with_runs:
            linked = _write_runs(table, beside, on_run)
        write_whole(target, make_batch_page(batch_data(table, linked.get)))
    except OSError as error:
        raise RunError(
            f"the report cannot be written: {error.strerror}",
            where=[refused_at(Path(error.filename or target), error)],
            fix="Name another file: -o FILE",
        ) from error
    return target


def _write_runs(table: BatchTable, beside: Path, on_run: Callable[[int, int], None] | None) -> dict[str, str]:
    """The reports of all runs that are on this machine, each with its address as the page names it."""
    runs = [run for row in table.look().rows for run in row.runs if _RUN.fullmatch(run)]
    stored = [one for one in map(table.stored, runs) if one.folder.is_dir()]
    if stored:
        beside.mkdir(mode=0o700, exist_ok=True)
    linked = {}
    for number, run in enumerate(stored, 1):
        if on_run is not None:
            on_run(number, len(stored))
        if _write_run(run, beside / f"{run.id}.html"):
            linked[run.id] = f"{quote(beside.name)}/{quote(run.id)}.html"
    return linked


def _write_run(run: StoredRun, file: Path) -> bool:
    if _is_as_new(run, file):
        return True
    try:
        page = render_report(run)
    except ToolkitError:
        return False
    write_whole(file, page)
    return True


def _is_as_new(run: StoredRun, file: Path) -> bool:
    """Whether the report was made after the run had ended, and of what is there now."""
    try:
        made = file.stat().st_mtime_ns
        changed = [(run.folder / name).stat().st_mtime_ns for name in _READ_FROM if (run.folder / name).exists()]
    except OSError:
        return False
    return bool(changed) and made > max(changed) and not run.is_running()
