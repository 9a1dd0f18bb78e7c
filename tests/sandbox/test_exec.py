"""`toolkit sandbox exec` is a shell with nothing to steal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.jails import a_jail, needs_jail
from toolkit.errors import SandboxError
from toolkit.sandbox import run_confined


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

    assert missing.returncode == 1
    assert "does not exist" in missing.stderr
    assert _exec(tmp_path).returncode == 2
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
