"""The page of all runs, and the report of each, as files that need no server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolkit._base.files import refused_at, write_whole
from toolkit.errors import RunError, ToolkitError
from toolkit.report import render_report
from toolkit.report.batches import batch_data, make_batch_page
from toolkit.runs import load_run
from toolkit.ui.batches import BatchLines
from toolkit.ui.page import make_ui_page
from toolkit.ui.table import RunTable


def export_ui(folder: Path | str, home: Path | str | None = None) -> Path:
    """Write `index.html`, `runs/RUN.html` for each run and `batches/NAME.html` for each batch; give the first's path.

    Only the owner may read them: a run can hold secrets. A run that cannot be read has a row and no report.

    Raises:
        RunError: the folder cannot be written.
    """
    target = Path(folder)
    table = RunTable(home)
    table.look()
    rows = table.rows()
    try:
        (target / "runs").mkdir(mode=0o700, parents=True, exist_ok=True)
        for row in rows:
            row["report"] = _report(target, row, home)
        write_whole(target / "index.html", make_ui_page(rows, _batches(target, rows, home), live=False))
    except OSError as error:
        raise RunError(
            f"the page cannot be written: {error.strerror}",
            where=[refused_at(Path(error.filename or target), error)],
            fix="Name another folder",
        ) from error
    return target / "index.html"


def _batches(target: Path, rows: list[dict[str, Any]], home: Path | str | None) -> list[dict[str, Any]]:
    """The lines of all batches, each with its page, which links the reports that were written."""
    batches = BatchLines(home)
    batches.look()
    reports = {row["id"]: f"../{row['report']}" for row in rows if row["report"]}
    for line in batches.lines():
        if "damage" not in line:
            (target / "batches").mkdir(mode=0o700, exist_ok=True)
            page = make_batch_page(batch_data(batches.table(line["batch"]), reports.get))
            write_whole(target / "batches" / f"{line['batch']}.html", page)
            line["report"] = f"batches/{line['batch']}.html"
    return batches.lines()


def _report(target: Path, row: dict[str, Any], home: Path | str | None) -> str | None:
    try:
        page = render_report(load_run(row["id"], home))
    except ToolkitError:
        return None
    write_whole(target / "runs" / f"{row['id']}.html", page)
    return f"runs/{row['id']}.html"
