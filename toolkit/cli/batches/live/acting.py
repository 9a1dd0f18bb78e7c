"""What can be done to a task: end its run, have it done again, show its report. Each says what came of it."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from toolkit.errors import RunError

if TYPE_CHECKING:
    from toolkit.fleets.looking import BatchTable, TaskRow


def interrupt(table: BatchTable, row: TaskRow) -> str:
    """End the run under way; what it gave is kept.

    Raises:
        RunError: nothing runs, or whoever does it cannot be reached.
    """
    from toolkit.runs.asking import RunClient

    if row.state != "running" or row.run is None:
        raise RunError(f"'{row.task}' does not run: it is {row.state}")
    stored = table.stored(row.run)
    if stored.folder.is_dir() and row.machine in (None, platform.node()):
        with RunClient(stored.folder) as client:
            client.stop()
        return f"{row.run} was told to stop"
    address = None if row.worker is None else table.batch.cluster
    if row.worker is None or address is None:
        raise RunError(f"the run of '{row.task}' cannot be reached from here: it runs on {row.machine}")
    import asyncio

    from toolkit.fleets.engine import stop_there

    asyncio.run(stop_there(address, row.worker, row.run))
    return f"{row.run} was told to stop, on {row.machine}"


def retry(table: BatchTable, row: TaskRow) -> str:
    """Have a task that has ended done once more, from the start.

    Raises:
        RunError: it has not ended.
    """
    if not table.batch.again(row.task):
        return f"'{row.task}' is to be done again already"
    if table.batch.is_worked_on:
        return f"'{row.task}' will be done again after the others; on a cluster, with the next --resume"
    return f"'{row.task}' is open again; to do it: toolkit batch TASKS --name {table.batch.name} --resume"


def show_report(table: BatchTable, row: TaskRow) -> str:
    """Write the report of its latest run and open it in the browser.

    Raises:
        RunError: there is no run here, or it cannot be read.
    """
    import webbrowser

    from toolkit.report import write_report

    if row.run is None or not table.stored(row.run).folder.is_dir():
        raise RunError(f"there is no run of '{row.task}' on this machine")
    file = write_report(table.stored(row.run))
    opened = webbrowser.open(file.as_uri())
    return str(file) if opened else f"no browser could be opened; the report is {file}"
