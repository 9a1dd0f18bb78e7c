"""The page of all runs, and the report of each, as files that need no server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolkit._base.files import write_whole
from toolkit.errors import RunError, ToolkitError
from toolkit.report import render_report
from toolkit.runs import load_run
from toolkit.ui.page import make_ui_page
from toolkit.ui.table import RunTable


def export_ui(folder: Path | str, home: Path | str | None = None) -> Path:
    """Write `index.html` and `runs/RUN.html` for each run into a folder, and give the path of the first.

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
        write_whole(target / "index.html", make_ui_page(rows, live=False))
    except OSError as error:
        raise RunError(
            f"the page cannot be written: {error.strerror}",
            where=[str(error.filename or target)],
            fix="Name another folder",
        ) from error
    return target / "index.html"


def _report(target: Path, row: dict[str, Any], home: Path | str | None) -> str | None:
    try:
        page = render_report(load_run(row["id"], home))
    except ToolkitError:
        return None
    write_whole(target / "runs" / f"{row['id']}.html", page)
    return f"runs/{row['id']}.html"
