"""Run the installed `toolkit` command as a user does, and read what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

TOOLKIT = Path(sys.executable).with_name("toolkit")


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


def toolkit(
    *arguments: str, cwd: Path, env: dict[str, str] | None = None, closed_stdout: bool = False, stdin: str = ""
) -> Done:
    """Run `toolkit ARGUMENTS` in a folder; machine-dependent paths in its output are named.

    With `closed_stdout` nobody reads what it prints.
    """
    reading, writing = os.pipe()
    os.close(reading)
    clean = {"PATH": os.environ["PATH"], "HOME": str(cwd), "COLUMNS": "100", "LANG": "C.UTF-8", **(env or {})}
    try:
        done = subprocess.run(
            [str(TOOLKIT), *arguments],
            cwd=cwd,
            env=clean,
            input=stdin,
            stdout=writing if closed_stdout else subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
    return Done(done.returncode, named(done.stdout or "", cwd), named(done.stderr, cwd))


def named(text: str, cwd: Path) -> str:
    """The text with what differs between machines replaced by its name."""
    text = text.replace(str(TOOLKIT), "<toolkit>")
    # The command's first line names the interpreter as the pip that wrote it was called: python, python3 or python3.11.
    text = re.sub(re.escape(str(TOOLKIT.with_name("python"))) + r"[0-9.]*\b", "<python>", text)
    for path, name in ((sysconfig.get_path("stdlib"), "stdlib"), (cwd.resolve(), "here")):
        text = text.replace(str(path), f"<{name}>")
    return text


def write(folder: Path, **files: str) -> None:
    """Write files: `notes="…"` is notes.py, `pkg__init="…"` is pkg/init.py."""
    for name, text in files.items():
        file = folder / (name.replace("__", "/") + ".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
