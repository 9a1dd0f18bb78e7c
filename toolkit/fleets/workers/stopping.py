"""End a run that is done on this machine, for somebody elsewhere."""

from __future__ import annotations

from toolkit.errors import ToolkitError
from toolkit.runs.asking import RunClient
from toolkit.runs.storage import runs_home


def stop_here(run: str) -> str | None:
    """Tell a run of this machine to stop; what it gave is kept. Gives why it cannot be told, else None."""
    folder = runs_home() / run
    if not folder.is_dir():
        return f"there is no run {run} on this machine"
    try:
        with RunClient(folder) as client:
            client.stop()
    except ToolkitError as error:
        return error.what
    except OSError as error:
        return f"run {run} does not answer: {error.strerror or type(error).__name__}"
    return None
