"""What one can do to a run from the page. Each gives a sentence about what was done, or raises one about why not."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolkit._base.words import safe_name
from toolkit.errors import RunError
from toolkit.runs import Decision, ProjectFile, StoredRun
from toolkit.runs.asking import RunClient

_MOST_DIFF = 300_000
_CHOICES = {"allow": "ALLOW_ONCE", "session": "ALLOW_SESSION", "project": "ALLOW_PROJECT", "deny": "DENY"}


def answer(run: StoredRun, said: dict[str, Any]) -> dict[str, Any]:
    """Answer a question that waits."""
    choice = said.get("choice")
    if choice not in _CHOICES:
        raise RunError(f"{choice!r} is no answer", fix=f"Use one of: {', '.join(_CHOICES)}")
    kind: Any = _CHOICES[choice]
    with RunClient(run.folder) as client:
        message = str(said.get("message") or "")
        decision = Decision(kind, message, stop=said.get("stop") is True)
        client.answer(str(said.get("id")), decision, fields=_fields(said.get("fields")))
    return {"said": f"answered: {choice}"}


def _fields(given: Any) -> dict[str, str] | None:
    """What was typed into a form."""
    if given is not None and not (isinstance(given, dict) and all(isinstance(one, str) for one in given.values())):
        raise RunError("the fields of a form are texts")
    return given


def stop(run: StoredRun, said: dict[str, Any]) -> dict[str, Any]:
    """End the turn under way, and the run with it."""
    with RunClient(run.folder) as client:
        client.stop()
    return {"said": "the run was told to stop"}


def interrupt(run: StoredRun, said: dict[str, Any]) -> dict[str, Any]:
    """End the turn under way; a program that talks with the run may go on."""
    with RunClient(run.folder) as client:
        client.interrupt()
    return {"said": "the turn was interrupted"}


def changes(run: StoredRun, said: dict[str, Any]) -> dict[str, Any]:
    """What would be taken back, with the marks that deserve a look first."""
    found = run.changes()
    return {
        "files": found.counted.to_json(),
        "ignored": found.ignored_line(),
        "diff": found.patch().decode("utf-8", "replace")[:_MOST_DIFF] if found else "",
    }


def apply(run: StoredRun, said: dict[str, Any]) -> dict[str, Any]:
    """Take the changes back to the host: all of them but what is never taken unless it is named, or these paths."""
    paths = said.get("paths")
    if paths is not None and not (isinstance(paths, list) and all(isinstance(path, str) for path in paths)):
        raise RunError("the paths to apply are no list of texts")
    applied = run.apply(paths=paths)
    lines = [f"{one.action}  {safe_name(one.path)}" for one in applied.changes] or ["nothing to apply"]
    lines += [f"left: {safe_name(path)} ({reason})" for path, reason in applied.left]
    return {"said": "\n".join(lines)}


def finish(run: StoredRun, said: dict[str, Any]) -> dict[str, Any]:
    """Write what an interrupted apply has not written yet."""
    return {"said": "all of it is on the host now" if run.resume_apply() else "there was nothing to finish"}


def undo(run: StoredRun, said: dict[str, Any]) -> dict[str, Any]:
    """Take back what an interrupted apply has written; a finished one stays."""
    is_done = run.unfinished_apply is not None and run.undo_apply()
    return {"said": "the host is as it was before" if is_done else "there was nothing to take back"}


def branch(run: StoredRun, said: dict[str, Any]) -> dict[str, Any]:
    """Put the changes on a new branch of the host's repository."""
    made = run.branch(str(said["name"]) if said.get("name") else None)
    return {"said": str(made)}


def resume(run: StoredRun, said: dict[str, Any]) -> dict[str, Any]:
    """Go on with the conversation in a process of its own, which this one does not wait for."""
    prompt = str(said.get("prompt") or "").strip()
    if not prompt:
        raise RunError("there is no prompt to go on with")
    if run.is_running():
        raise RunError(f"run {run.id} is still running")
    folder = Path(str(run.facts.get("cwd")))
    _check_project_file(folder)
    command = [sys.executable, "-m", "toolkit", "run", "-", "--resume", run.id]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=folder if folder.is_dir() else None,
    )
    assert process.stdin is not None
    process.stdin.write(prompt.encode("utf-8", "replace"))
    process.stdin.close()
    threading.Thread(target=process.wait, daemon=True, name=f"after {run.id}").start()  # so that no zombie stays
    return {"said": "a new run goes on with the conversation"}


def _check_project_file(folder: Path) -> None:
    """Refuse where the new run would refuse: nobody is asked about a project file from a page."""
    file = ProjectFile.find(folder) if folder.is_dir() else None
    if file is not None and file.trust != "accepted":
        raise RunError(
            f"the project file {safe_name(str(file.path))} was not accepted as it is now",
            fix="Read it at a terminal, and accept it there: toolkit run --plan",
        )


ACTIONS: dict[str, Callable[[StoredRun, dict[str, Any]], dict[str, Any]]] = {
    "answer": answer,
    "apply": apply,
    "branch": branch,
    "changes": changes,
    "finish": finish,
    "interrupt": interrupt,
    "resume": resume,
    "stop": stop,
    "undo": undo,
}
