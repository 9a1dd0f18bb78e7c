"""One run on disk, as any process can read it."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from toolkit._base.handles import remove_folder
from toolkit._base.locks import Lock, take_lock
from toolkit.errors import RunError, WorkspaceError
from toolkit.runs.outcome.events import Event
from toolkit.runs.outcome.fold import result_of
from toolkit.runs.outcome.result import RunResult
from toolkit.runs.storage.event_log import EventFile, Following, last_turn_has_finished, warnings_in
from toolkit.runs.storage.run_folder import ATTACHMENTS, DELIVERY, FORMAT, SETUP_LOG

if TYPE_CHECKING:
    from claude_agent_sdk import SessionStore

    from toolkit.runs.checkpoints import Checkpoint, Rewound
    from toolkit.runs.delivery import DeliveryOptions
    from toolkit_workspace import WorkspaceSection
    from toolkit_workspace.applying import Applied
    from toolkit_workspace.changes import Changes
    from toolkit_workspace.delivering import Delivered

State = Literal["running", "finished", "crashed"]
_TRIES = 20
_GUESTS = "guests"
"""A folder with an empty file for each later run that works in the workspace."""
_KILLED = "The process that ran it was killed before the run came to its end."


class StoredRun:
    """One run on disk. What is asked of it is read then: a live run moves on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.id = folder.name

    def __repr__(self) -> str:
        return f"StoredRun({self.id!r})"

    @property
    def setup_log(self) -> Path:
        """What its setup printed; no such file where none ran."""
        return self.folder / SETUP_LOG

    @property
    def facts(self) -> dict[str, Any]:
        """What was asked for, and where it works: `run.json`.

        Raises:
            RunError: it cannot be read, or a newer version wrote it.
        """
        facts = self._read("run.json")
        if facts is None:
            raise RunError(
                f"run {self.id} says nothing of itself",
                where=[f"{self.folder / 'run.json'} is missing"],
                fix=f"Remove it: toolkit runs remove {self.id}",
            )
        if facts.get("format") != FORMAT:
            raise RunError(
                f"run {self.id} was stored in format {facts.get('format')!r}; this version reads {FORMAT}",
                where=[str(self.folder / "run.json")],
                fix="Update the toolkit to look at it",
            )
        return facts | {"workspace": str(self._moved(place))} if (place := facts.get("workspace")) else facts

    def _moved(self, place: str) -> Path:
        """Where its workspace is: beside it, as it was, where all runs were copied to another place."""
        here = self.folder.parent / Path(place).parent.name / Path(place).name
        return here if here.is_dir() else Path(place)

    @property
    def state(self) -> State:
        """`running` while its lock is held, `finished` when its last turn has ended, else `crashed`."""
        if self.is_running():
            return "running"
        if "ended" in self.facts and self._file("result.json").exists():
            return "finished"
        return "finished" if last_turn_has_finished(self._file("events.jsonl")) else "crashed"

    @property
    def ended(self) -> float | None:
        """When it ended, in seconds since the epoch; None while it runs. A crashed one ended with its last event."""
        if self.is_running():
            return None
        with contextlib.suppress(RunError):
            if "ended" in (facts := self.facts):
                return float(facts["ended"])
        for name in ("events.jsonl", "run.json", "."):
            with contextlib.suppress(FileNotFoundError):
                return self._file(name).stat().st_mtime
        return time.time()

    def events(self) -> Iterator[Event]:
        """The events that are stored, from the first on, without waiting for more.

        Raises:
            RunError: a line cannot be read; one that was cut off by a kill at the very end is left out.
        """
        return iter(EventFile(self._file("events.jsonl")))

    @property
    def warnings(self) -> list[str]:
        """What its owner should know, as its `lifecycle.warning` events tell it."""
        return warnings_in(self._file("events.jsonl"))

    def follow(self) -> Following:
        """The events, with `for` or `async for`, waiting for more until the run has ended, whoever runs it."""
        return Following(self._file("events.jsonl"), self.is_running)

    def attachment(self, file: str) -> Path:
        """Where a picture or document of a prompt is kept: `file` is what the event says of it."""
        return self.folder / ATTACHMENTS / Path(file).name

    def result(self) -> RunResult[Any]:
        """What it came to; for a crashed run the part that its events tell. `changes` has a method of its own.

        Raises:
            RunError: it is still running, or its files are damaged.
        """
        state = self.state
        if state == "running":
            raise self._still_running("it has no result yet")
        if state == "crashed":
            return dataclasses.replace(self.so_far(), cause=_KILLED)
        data = self._read("result.json")
        if data is None:
            return self.so_far()
        data.pop("changes", None)
        try:
            result = RunResult.from_data(data)
            return dataclasses.replace(result, delivery=self.delivery, folder=self.folder)
        except (KeyError, TypeError) as error:
            raise self.damaged("result.json", f"{type(error).__name__}: {error}") from error

    def so_far(self) -> RunResult[Any]:
        """What the events stored until now tell; its code is `crashed` where the last turn has not finished."""
        try:
            return result_of(self.id, self.events())
        except (KeyError, TypeError) as error:
            raise self.damaged("events.jsonl", f"{type(error).__name__}: {error}") from error

    def changed_files(self) -> list[dict[str, Any]] | None:
        """The changes as they were when it finished, kept also when its workspace is not; None where none are known."""
        data = self._read("result.json") or {}
        return data.get("changes")

    def changes(self) -> Changes:
        """What the agent changed and was not applied yet.

        Raises:
            RunError: it is still running, or it has no copy to compare.
            WorkspaceError: the copy is in use or cannot be read.
        """
        with self._workspace() as section:
            return section.changes()

    def diff(self) -> bytes:
        """The same as a patch that `git apply` takes."""
        return self.changes().patch()

    def apply(
        self,
        *,
        paths: Iterable[str | os.PathLike[str]] | None = None,
        mounts: Iterable[str] | None = None,
        dry_run: bool = False,
        conflict_markers: bool = False,
    ) -> Applied:
        """Take the changes back to the host, as `WorkspaceSection.apply` does.

        Raises:
            RunError: it is still running, or it has no copy to apply.
            WorkspaceError: they cannot be applied; nothing was touched.
        """
        with self._settled_workspace() as section:
            return section.apply(paths=paths, mounts=mounts, dry_run=dry_run, conflict_markers=conflict_markers)

    def undo_apply(self) -> bool:
        """Take back an interrupted apply, or else the last finished one; False if there is none. Raises as `apply`."""
        with self._workspace() as section:
            return section.undo_apply()

    def resume_apply(self) -> bool:
        """Finish an apply, or an undo, that was interrupted; False when there is none. Raises as `apply`."""
        with self._workspace() as section:
            return section.resume_apply()

    @property
    def unfinished_apply(self) -> WorkspaceError | None:
        """What is to be said where an apply of its changes, or its undo, was interrupted; None where none was.

        Where nobody can tell, that is to be said. It is found by looking only.
        """
        facts = self.facts
        place = facts.get("workspace")
        return self._unfinished_in(Path(place)) if place is not None and facts.get("copied") else None

    def refuse_half_applied(self, so: str) -> None:
        """Refuse what has to wait until an interrupted apply of its changes is settled; `so` says what that is.

        Raises:
            RunError: there is such an apply, or nobody can tell.
        """
        _refuse(self.unfinished_apply, so)

    def branch(self, name: str | None = None, **options: Unpack[DeliveryOptions]) -> Delivered:
        """Make the changes a branch of the host's repository: the agent's commits, and one for the rest.

        `name` is `agent/RUN` if not given. Work tree and index are not touched, and nothing of the workspace runs.

        Raises:
            RunError: it is still running, it has no copy, or the agent's commits cannot be packed.
            WorkspaceError: there is no repository, the branch exists, or changes do not fit; nothing was written.
        """
        from toolkit.runs.delivery import deliver_run

        with self._settled_workspace() as section:
            return deliver_run(section, self.facts, self.result(), name=name, **options)

    def mails(self, **options: Unpack[DeliveryOptions]) -> Delivered:
        """The same commits as mails for `git am`, in `mailbox`; raises as `branch`, and for several repositories."""
        from toolkit.runs.delivery import deliver_run

        with self._settled_workspace() as section:
            return deliver_run(section, self.facts, self.result(), as_mailbox=True, **options)

    def pull_request(self) -> str:
        """A summary in Markdown: what, why, verified by whom, cost, changed files, what to look at twice."""
        from toolkit.runs.delivery import pull_request

        return pull_request(self.facts, self.result(), self.changes())

    @property
    def has_repository(self) -> bool:
        """Whether a mount lies in a git repository of the host, so that its changes can become a branch."""
        hosts = [Path(str(mount[0])) for mount in self.facts.get("mounts") or ()]
        return any((folder / ".git").exists() for host in hosts for folder in (host, *host.parents))

    @property
    def delivery(self) -> dict[str, Any] | None:
        """What became of `RunSpec.branch` at its end: `branches`, or `why` there are none; None if not asked for."""
        return self._read(DELIVERY)

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """The moments of it that `rewind` can go back to: the start of every turn, and those its caller took."""
        from toolkit.runs.checkpoints import checkpoints_of

        return checkpoints_of(self.folder)

    def rewind(self, to: int, *, store: SessionStore | None = None) -> Rewound:
        """Take its files and its conversation back to one of its checkpoints; `--resume` goes on from there.

        What it was like until now is a checkpoint too: `.back` of the answer. `store` is that of the run, where it
        had one of its own.

        Raises:
            RunError: it has no such checkpoint, it or its conversation is under way, or its copy is gone.
            WorkspaceError: the copy is in use, or cannot be read or written.
        """
        from toolkit.runs.checkpoints import rewind_run

        return rewind_run(self, to, store=store)

    def drop_workspace(self) -> bool:
        """Remove the copy and keep the rest; False if it is gone, or no run made it.

        Raises:
            RunError: it is still running, the copy is in use, a later run went on in it, or an apply was interrupted.
        """
        from toolkit_workspace import WorkspaceSection

        with self.alone("it cannot be removed"):
            place = Path(self.facts.get("workspace") or self._file("workspace"))
            if (place.parent != self.folder and self.owner_of_workspace is None) or not place.is_dir():
                return False
            if place.parent == self.folder:
                self._refuse_guests("it cannot be dropped here")
            if self.facts.get("copied"):
                self.refuse_half_applied("its workspace is kept")
                WorkspaceSection.open(place).cleanup()
            else:
                remove_folder(place)
            return True

    @property
    def session(self) -> str | None:
        """The conversation it belongs to, as far as it can be told."""
        with contextlib.suppress(RunError):
            data = self._read("result.json")
            return data.get("session") if data is not None else self.so_far().session
        return None

    def remove(self, *, forgetting: bool = True) -> None:
        """Remove the run with its workspace; one that lives is left as it is.

        With `forgetting`, its conversation goes along when no other stored run belongs to it.

        Raises:
            RunError: it is still running, its workspace is in use, a later run went on in it, an apply of its changes
                was interrupted, or it cannot be removed.
        """
        session = self.session if forgetting else None
        with self.alone("it cannot be removed"):
            self._refuse_used_workspace()
            self._refuse_guests("it cannot be removed")
            # Out of sight first: a removal that is interrupted leaves no half run behind.
            gone = self.folder.with_name(f".{self.id}.{os.urandom(4).hex()}.gone")
            try:
                self.folder.rename(gone)
                remove_folder(gone)
            except OSError as error:
                raise RunError(f"run {self.id} cannot be removed: {error.strerror}", where=[str(gone)]) from error
        if session is not None:
            forget_unused({session}, self.folder.parent)

    @property
    def owner_of_workspace(self) -> StoredRun | None:
        """The run in whose folder its workspace lies: itself, or one it went on after; None where it lies elsewhere."""
        place = Path(self.facts.get("workspace") or self._file("workspace"))
        return StoredRun(place.parent) if place.parent.parent == self.folder.parent else None

    @contextmanager
    def visited(self) -> Iterator[None]:
        """Keep a run that has ended from being removed for a moment.

        Raises:
            RunError: it is still running.
        """
        lock = self._take_lock(shared=True)
        if lock is None:
            raise self._still_running("its workspace is in use")
        with lock:
            yield

    def note_guest(self, run_id: str) -> None:
        """Remember that a later run works in its workspace."""
        self._file(_GUESTS).mkdir(mode=0o700, exist_ok=True)
        (self._file(_GUESTS) / run_id).touch(mode=0o600)

    @property
    def guests(self) -> list[StoredRun]:
        """The stored runs that went on in its workspace."""
        if not self._file(_GUESTS).is_dir():
            return []
        runs = [StoredRun(self.folder.parent / name.name) for name in sorted(self._file(_GUESTS).iterdir())]
        return [run for run in runs if run.folder.is_dir()]

    def _refuse_guests(self, so: str) -> None:
        if guests := self.guests:
            raise RunError(
                f"later runs went on in the workspace of run {self.id}: {so}",
                where=[guest.id for guest in guests],
                fix=f"Remove those first: toolkit runs remove {' '.join(guest.id for guest in guests)}",
            )

    @contextmanager
    def _workspace(self) -> Iterator[WorkspaceSection]:
        if self.is_running():
            raise self._still_running("its workspace is in use")
        with self.opened() as section:
            yield section

    @contextmanager
    def _settled_workspace(self) -> Iterator[WorkspaceSection]:
        with self._workspace() as section:
            if (unfinished := self.unfinished_apply) is not None:
                raise unfinished
            yield section

    @contextmanager
    def opened(self) -> Iterator[WorkspaceSection]:
        """The copy of a run that has ended, taken for a moment.

        Raises:
            RunError: it has none, or none any more.
            WorkspaceError: somebody works in it.
        """
        from toolkit_workspace import WorkspaceSection

        facts = self.facts
        place = facts.get("workspace")
        if place is None:
            stayed = (facts.get("returned") or {}).get("left_there")
            what = "left its files on the worker" if stayed else "ended before its workspace was ready"
            raise RunError(f"run {self.id} {what}", where=[stayed] if stayed else [])
        if not Path(place).is_dir():
            raise RunError(f"the workspace of run {self.id} was removed", where=[place])
        if not facts.get("copied"):
            raise RunError(
                f"run {self.id} worked on no copy, so there is nothing to compare or apply",
                where=[place],
                fix="Its files are there",
            )
        section = WorkspaceSection.open(place)
        try:
            yield section
        finally:
            _let_go(section)

    def _refuse_used_workspace(self) -> None:
        from toolkit_workspace import find_workspaces

        found = find_workspaces(self.folder)
        used = [one for one in found if one.status == "in use"]
        if used:
            where = [f"{one.temp_dir} by process {one.pid}" for one in used]
            raise RunError(f"the workspace of run {self.id} is in use", where=where, fix="Wait for it")
        for one in found:
            _refuse(self._unfinished_in(one.temp_dir), f"run {self.id} cannot be removed")

    def _unfinished_in(self, folder: Path) -> WorkspaceError | None:
        from toolkit_workspace import Workspace

        looked_at = Workspace(folder)
        try:
            if not looked_at.has_unfinished_apply:
                return None
        except WorkspaceError as error:
            return error
        unfinished = looked_at.unfinished()
        with contextlib.suppress(RunError):  # of a run that cannot be read, only the workspace can be settled
            if self.facts.get("workspace") == str(folder):
                command = f"toolkit runs apply {self.id}"
                fix = f"Apply all of it: {command} --resume, or take all of it back: {command} --undo"
                return WorkspaceError(unfinished.what, where=unfinished.where, fix=fix)
        return unfinished

    def _file(self, name: str) -> Path:
        return self.folder / name

    def _read(self, name: str) -> dict[str, Any] | None:
        """One of its JSON files; None where there is none."""
        try:
            data = json.loads(self._file(name).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise self.damaged(name, str(error)) from error
        except OSError as error:
            raise self.damaged(name, error.strerror or "") from error
        if not isinstance(data, dict):
            raise self.damaged(name, "it holds no object")
        return data

    def damaged(self, name: str, why: str) -> RunError:
        """The error for a file of its that cannot be read."""
        return RunError(
            f"a file of run {self.id} cannot be read",
            where=[f"{self._file(name)}: {why}"],
            fix=f"It was damaged after the run; this removes it: toolkit runs remove {self.id}",
        )

    def _still_running(self, so: str) -> RunError:
        return RunError(
            f"run {self.id} is still running: {so}", fix=f"Wait for its end: toolkit runs events {self.id} --follow"
        )

    def is_running(self) -> bool:
        """Whether its lock is held."""
        lock = self._take_lock(shared=True)
        if lock is not None:
            lock.release()
        return lock is None

    def _take_lock(self, *, shared: bool = False) -> Lock | None:
        """The lock of the run; None while it is held. A run without a lock file holds none."""
        try:
            return take_lock(self._file("lock"), shared=shared, create=False)
        except FileNotFoundError:
            return Lock(-1)

    @contextmanager
    def alone(self, so: str) -> Iterator[None]:
        """Hold the lock of a run that has ended, so that nobody else changes it.

        Raises:
            RunError: it is still running; `so` says what that means.
        """
        for _ in range(_TRIES):
            lock = self._take_lock()
            if lock is not None:
                break
            time.sleep(0.01)  # another reader may be looking, for a moment
        else:
            raise self._still_running(so)
        with lock:
            yield


def stored_in(folder: Path) -> list[StoredRun]:
    """The runs in the folder of all runs."""
    try:
        entries = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    return [StoredRun(entry) for entry in entries if not entry.name.startswith(".") and entry.is_dir()]


def forget_unused(sessions: set[str], folder: Path) -> None:
    """Forget those of `sessions` that no run in the folder of all runs belongs to."""
    from toolkit.runs.sessions.transcripts import forget, sessions_home

    used = {run.session for run in stored_in(folder)}
    for session in sessions - used:
        forget(sessions_home(folder.parent), session)


def _refuse(unfinished: WorkspaceError | None, so: str) -> None:
    if unfinished is not None:
        raise RunError(f"{unfinished.what}: {so}", where=unfinished.where, fix=unfinished.fix)


def _let_go(section: WorkspaceSection) -> None:
    """Leave a copy as it was found; also on a disk that takes no word about it: whoever looked has looked."""
    try:
        section.release()
    except WorkspaceError as error:
        cause = error.__cause__
        if not isinstance(cause, OSError) or cause.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        import logging  # it is rare, and as much as all else here

        logging.getLogger("toolkit.runs").warning("%s", error.what)
