"""`toolkit sandbox exec` is a shell with nothing to steal."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.jails import a_jail, needs_jail, soon
from toolkit._base.processes import all_pids
from toolkit.errors import SandboxError, UnconfinedError
from toolkit.sandbox import run_confined
from toolkit.sandbox.jail import canary


def _exec(workspace: Path, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "toolkit", "sandbox", "exec", "--workspace", str(workspace), *arguments]
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "SECRET": "do-not-tell"}
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        command, env=environment, capture_output=True, text=True, timeout=60, check=False, **options
    )


@needs_jail
def test_it_passes_input_output_and_exit_code(tmp_path: Path) -> None:
    done = _exec(tmp_path, "--", "bash", "-c", "cat; env; echo made > file; exit 7", input="typed\n")

    assert done.returncode == 7
    assert done.stdout.startswith("typed\n")
    assert "do-not-tell" not in done.stdout
    assert (tmp_path / "file").read_text(encoding="ascii") == "made\n"


@needs_jail
def test_its_limits_are_options(tmp_path: Path) -> None:
    script = "touch x; for i in $(seq 20); do sleep 1 & done"
    done = _exec(tmp_path, "--processes", "16", "--read-only", "--", "sh", "-c", script)

    assert "annot fork" in done.stderr
    assert not (tmp_path / "x").exists()


def test_a_refused_folder_and_an_empty_command_are_explained(tmp_path: Path) -> None:
    missing = _exec(tmp_path / "none", "--", "true")

    assert missing.returncode == 2
    assert "does not exist" in missing.stderr
    assert _exec(tmp_path).returncode == 2
    mistyped = _exec(tmp_path, "--read-onyl", "true")
    assert (mistyped.returncode, "No such option '--read-onyl'" in mistyped.stderr) == (2, True)
    with pytest.raises(SandboxError, match="no command"):
        run_confined([], tmp_path)


@needs_jail
def test_a_person_keeps_the_terminal_and_an_agent_gets_none(tmp_path: Path) -> None:
    keyboard, terminal = pty.openpty()
    look = ["/bin/bash", "-c", "for fd in 0 1 2; do test -t $fd && exit 3; done; exit 0"]
    ends = {"stdin": terminal, "stdout": terminal, "stderr": terminal, "timeout": 60, "check": False}
    try:
        with a_jail(tmp_path) as jail:
            agent = subprocess.run([jail.script, *look], **ends)  # type: ignore[call-overload]
        with a_jail(tmp_path, terminal=True) as jail:
            person = subprocess.run([jail.script, *look], **ends)  # type: ignore[call-overload]
    finally:
        os.close(keyboard)
        os.close(terminal)

    assert agent.returncode == 0
    assert person.returncode == 3


@needs_jail
def test_nothing_runs_in_a_jail_that_is_not_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "_FEW", 0)

    with pytest.raises(UnconfinedError, match="not proven"):
        run_confined(["touch", "made"], tmp_path)

    assert not (tmp_path / "made").exists()


_KILLED_WHILE_PROVING = """
import os, signal, sys, time
from pathlib import Path
from toolkit.sandbox import run_confined
from toolkit.sandbox.jail import proof

def is_held(process, mark):
    try:
        return b"read -r word" in (process / "cmdline").read_bytes() and mark in (process / "environ").read_bytes()
    except OSError:
        return False

def fly(opened, cli, meanwhile):
    meanwhile()
    mark, end = f"TOOLKIT_JAIL={opened.folder.name}".encode(), time.monotonic() + 60
    while not any(is_held(process, mark) for process in Path("/proc").glob("[0-9]*")) and time.monotonic() < end:
        pass
    print(opened.folder.name, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

proof.fly = fly
run_confined(["touch", "made"], sys.argv[1])
"""


@needs_jail
def test_a_command_never_starts_when_its_caller_is_killed_before_the_proof(tmp_path: Path) -> None:
    told = tmp_path / "told"
    with told.open("w", encoding="ascii") as output:
        workspace = tmp_path / "work"
        workspace.mkdir()
        command = [sys.executable, "-c", _KILLED_WHILE_PROVING, str(workspace)]
        done = subprocess.run(command, stdout=output, timeout=120, check=False)
    jail = told.read_text(encoding="ascii").strip()

    assert done.returncode == -9
    assert jail
    assert soon(lambda: not _marked(jail))
    assert not (workspace / "made").exists()


def _marked(jail: str) -> list[int]:
    """The processes that carry a jail's mark."""
    found = []
    for pid in all_pids():
        with contextlib.suppress(OSError):
            if f"TOOLKIT_JAIL={jail}".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
    return found


@needs_jail
@pytest.mark.parametrize("word", ["x" * 200_000, "a\0b"], ids=["too long", "with a null"])
def test_a_command_that_the_system_does_not_take_is_no_doubt_about_the_jail(tmp_path: Path, word: str) -> None:
    with pytest.raises(SandboxError, match="the command cannot be started") as caught:
        run_confined(["echo", word], tmp_path)

    assert not isinstance(caught.value, UnconfinedError)
