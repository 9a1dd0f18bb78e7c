"""The folder of a run, as the run writes it.

    $TOOLKIT_HOME/runs/RUN/
      run.json       what was asked for, and where it works
      events.jsonl   one line for each event, written as it happens
      result.json    what it came to; written after every turn
      workspace/     the agent's copy, where the run made it
      lock           held while the run lives

A run without a result whose lock is free has crashed. `stored.py` reads all this.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from toolkit.errors import RunError
from toolkit.runs.result import RunResult
from toolkit.runs.spec import RunSpec

if TYPE_CHECKING:
    from toolkit.runs.place import Place

FORMAT = 1
"""The version of this layout, kept in every run.json."""


def runs_home(home: Path | str | None = None) -> Path:
    """The folder that holds all runs."""
    if home is None:
        home = os.environ.get("TOOLKIT_HOME")
    if home is None:
        state = os.environ.get("XDG_STATE_HOME")
        home = (Path(state) if state else Path.home() / ".local" / "state") / "toolkit"
    return Path(home).absolute() / "runs"


class RunFolder:
    """Where one run keeps itself, locked as long as the run lives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events = folder / "events.jsonl"
        self.workspace = folder / "workspace"
        self._facts: dict[str, Any] = {}
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def asked(self, spec: RunSpec) -> None:
        """Write down what was asked for."""
        limits = {name: value for name, value in asdict(spec.limits).items() if value is not None}
        self._facts = {
            "format": FORMAT,
            "run": spec.run_id,
            "began": time.time(),
            "pid": os.getpid(),
            "prompt": spec.prompt if isinstance(spec.prompt, str) else None,
            "model": spec.model,
            "profile": spec.profile,
            "domains": list(spec.domains),
            "limits": limits,
            "trace": spec.trace,
            "confined": spec.transport is None,
        }
        self._write("run.json", self._facts)

    def started(self, place: Place) -> None:
        """Write down where it works."""
        self._facts["workspace"] = str(place.folder)
        self._facts["copied"] = place.section is not None
        self._write("run.json", self._facts)

    def finished(self, result: RunResult[Any]) -> None:
        """Write down what it came to so far."""
        self._write("result.json", result.to_data())

    def close(self) -> None:
        """The run lives no more."""
        os.close(self._lock)

    def _write(self, name: str, data: dict[str, Any]) -> None:
        """Replace a file whole: a reader sees the old one or the new one."""
        text = json.dumps(data, ensure_ascii=False, indent=1, default=to_jsonable_python)
        fresh = self.folder / f".{name}.new"
        fresh.write_text(text + "\n", encoding="utf-8")
        fresh.replace(self.folder / name)


def new_run(spec: RunSpec) -> RunFolder:
    """A folder for a new run.

    Raises:
        RunError: there is a run of that id, or the folder cannot be made.
    """
    home = runs_home(spec.home)
    folder = home / spec.run_id
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
    except FileExistsError as error:
        raise RunError(f"there is a run '{spec.run_id}' already", fix="Leave run_id out, or choose another") from error
    except OSError as error:
        raise RunError(
            f"the run cannot be stored: {error.strerror}",
            where=[str(home)],
            fix="Set TOOLKIT_HOME to a folder of yours",
        ) from error
    stored = RunFolder(folder)
    stored.asked(spec)
    return stored
