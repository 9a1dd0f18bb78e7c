"""The folder of a run, as the run writes it, and the place the run works in.

    $TOOLKIT_HOME/runs/RUN/
      run.json       what was asked for, where it works, and when it came to its end
      events.jsonl   one line for each event, written as it happens
      result.json    what it came to; written after every turn
      delivery.json  the branch that was made of it at its end, or why there is none
      setup.log      what its setup printed, where one ran
      attachments/   the pictures and documents of its prompts, each once
      toolkit-workspace-…/   the agent's copy, where the run made one (its record is hidden beside it)
      workspace/     the empty folder it worked in, where it was given none
      home/          the agent's home, while the run lives
      guests/        the later runs that went on in its workspace
      lock           held while the run lives

A run whose lock is free and whose last turn has not finished has crashed.
`stored_run.py` reads all this.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit._base.files import nearest_existing, state_home, write_whole
from toolkit._base.handles import remove_folder
from toolkit._base.locks import take_lock
from toolkit._base.unborn import unborn_name
from toolkit._base.words import size_text
from toolkit.errors import RunError
from toolkit.runs.kinds import path
from toolkit.runs.outcome.events import as_line

if TYPE_CHECKING:
    from toolkit.runs.outcome.result import RunResult
    from toolkit.runs.prompts import Attachment
    from toolkit.runs.spec import RunSpec
    from toolkit.runs.storage.place import Place
    from toolkit_workspace import Changes

ATTACHMENTS = "attachments"
DELIVERY = "delivery.json"
LAST = "last"
"""What people call the run that began last; no run has this id."""
SETUP_LOG = "setup.log"
FORMAT = 1
"""The version of this layout, kept in every run.json."""


def runs_home(home: Path | str | None = None) -> Path:
    """The folder that holds all runs.

    Raises:
        OptionError: `home` is no path.
    """
    if home is not None and not isinstance(home, Path):
        path("home", home)
    return state_home(home) / "runs"


class RunFolder:
    """Where one run keeps itself, locked as long as the run lives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._facts: dict[str, Any] = {}
        lock = take_lock(folder / "lock")
        assert lock is not None, "nobody knows of a folder that was just made"
        self._lock = lock

    @property
    def events(self) -> Path:
        """The file its events go to."""
        return self.folder / "events.jsonl"

    @property
    def home(self) -> Path:
        """The agent's home, while the run lives."""
        return self.folder / "home"

    @property
    def workspace(self) -> Path:
        """The empty folder it works in when it is given none."""
        return self.folder / "workspace"

    def asked(self, spec: RunSpec) -> None:
        """Write down what was asked for."""
        from toolkit.runs.prompts import own_text

        self._facts = {
            "format": FORMAT,
            "run": spec.run_id,
            "began": time.time(),
            "pid": os.getpid(),
            "cwd": str(Path.cwd()),
            "prompt": own_text(spec.prompt),
            "model": spec.model,
            "profile": spec.profile_name,
            "domains": list(spec.domains),
            "limits": spec.limits.given(),
            "mode": spec.mode,
            "verify": None if spec.verify is None else spec.verify.name,
            "protect": [str(path) for path in spec.protect],
            "trace": spec.trace,
            "confined": spec.transport is None,
            "resume": None if spec.fork else spec.resume,
        }
        if spec.setup is not None:
            setup = spec.setup
            self._facts["setup"] = {"command": setup.command, "domains": list(setup.domains)}
            self._facts["setup"] |= {"keyed_by": list(setup.keyed_by), "deadline": setup.deadline}
        self._write("run.json", self._facts)

    def placed(self, folder: Path) -> None:
        """It is complete, and gets the name that readers look for."""
        self.folder = self.folder.rename(folder)

    def started(self, place: Place) -> None:
        """Write down where it works."""
        self._facts["workspace"] = str(place.folder)
        self._facts["copied"] = place.section is not None
        self._facts["mounts"] = place.mounts()
        self._facts["inside"] = place.start
        self._facts["lent"] = place.lent()
        if place.section is not None:
            self._facts["backend"] = list(place.section.filled_by)
        if place.layer is not None:
            layer = place.layer
            facts = {"command": layer.command, "key": layer.key, "places": list(layer.places), "bytes": layer.size}
            self._facts["setup"] = {**self._facts.get("setup", {}), **facts}
        self._write("run.json", self._facts)

    def attach(self, found: Attachment) -> dict[str, Any]:
        """Keep a picture or document of a prompt, once for all turns; where it is, relative to the run's folder."""
        import hashlib

        folder = self.folder / ATTACHMENTS
        folder.mkdir(mode=0o700, exist_ok=True)
        suffix = re.sub(r"[^a-z0-9]", "", found.media_type.rpartition("/")[2].lower())[:8] or "bin"
        file = folder / f"{hashlib.sha256(found.data).hexdigest()[:32]}.{suffix}"
        if not file.exists():
            write_whole(file, found.data)
        where = f"{ATTACHMENTS}/{file.name}"
        return {"type": found.kind, "media_type": found.media_type, "bytes": len(found.data), "file": where}

    def told(self, prompt: str) -> None:
        """Write down what was asked for, where that was not known before it began."""
        self._facts["prompt"] = prompt
        self._write("run.json", self._facts)

    def finished(self, result: RunResult[Any], changes: Changes | None) -> None:
        """Write down what it came to so far."""
        found = None if changes is None else changes.to_json()
        self._write("result.json", {**result.to_data(), "changes": found})

    @property
    def facts(self) -> dict[str, Any]:
        """What was asked for, and where it works."""
        return self._facts

    def delivered(self, delivery: dict[str, Any]) -> None:
        """Write down what became of its work as a branch."""
        self._write(DELIVERY, delivery)

    def close(self) -> None:
        """The run lives no more, and came to its end by itself."""
        try:
            self._write("run.json", {**self._facts, "ended": time.time()})
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Give up the lock."""
        self._lock.release()

    def _write(self, name: str, data: dict[str, Any]) -> None:
        write_whole(self.folder / name, as_line(data) + "\n")


def cannot_store(error: OSError, place: Path, what: str = "the run") -> RunError:
    """The error for a run, or a part of one, that cannot be written down; it says how much is free there."""
    return RunError(
        f"{what} cannot be stored: {error.strerror or error}",
        where=[f"{place}{_free(place)}"],
        fix="Make room there, or set TOOLKIT_HOME to a folder of yours",
    )


def _free(place: Path) -> str:
    """How much is free where a path is, or would be; nothing where that cannot be told."""
    import shutil

    try:
        return f" ({size_text(shutil.disk_usage(nearest_existing(place)).free)} free)"
    except OSError:
        return ""


def new_run(spec: RunSpec) -> RunFolder:
    """A folder for a new run. Readers see it once it is locked and says what was asked for.

    Raises:
        RunError: there is a run of that id, or a folder that cannot be made.
    """
    home = runs_home(spec.home)
    unborn = home / unborn_name(f"{spec.run_id}.{os.urandom(4).hex()}")
    stored: RunFolder | None = None
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        unborn.mkdir(mode=0o700)
        stored = RunFolder(unborn)
        stored.asked(spec)
        stored.placed(home / spec.run_id)
    except OSError as error:
        with contextlib.suppress(OSError):
            remove_folder(unborn)
        if stored is not None:
            stored.let_go()
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise RunError(
                f"there is a run '{spec.run_id}' already", fix="Leave run_id out, or choose another"
            ) from error
        raise cannot_store(error, home) from error
    return stored
