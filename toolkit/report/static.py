"""The report of a stored run, as text or as a file."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.errors import RunError
from toolkit.report._data import run_data
from toolkit.report._page import make_page

if TYPE_CHECKING:
    from toolkit.runs import StoredRun

FILE = "report.html"
"""The name of a report that is kept with its run."""


def render_report(run: StoredRun) -> str:
    """The whole page for a run; for one that is still running, what there is so far.

    Raises:
        RunError: the run cannot be read.
    """
    return make_page(run_data(run))


def write_report(run: StoredRun, file: Path | str | None = None) -> Path:
    """Write the page to a file (`report.html` in the run's own folder if not given) and give its path.

    The file is replaced whole, and only its owner may read it: a run can hold secrets.

    Raises:
        RunError: the run cannot be read, or the file cannot be written.
    """
    target = Path(file).absolute() if file is not None else run.folder / FILE
    page = render_report(run).encode()
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as writing:
            writing.write(page)
        fresh.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise RunError(
            f"the report cannot be written: {error.strerror}", where=[str(target)], fix="Name another file: -o FILE"
        ) from error
    return target
