"""How long starts take: `import toolkit` and `--help` against an interpreter that does nothing, commands against click."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.bench._common import Row, child_env, interleave, run_to_end
from toolkit.runs import run
from toolkit.testing import FakeCLI, Turn, text
from toolkit.workspace import HostMount, WorkspaceSection

ROUNDS = 40
TOOLKIT = str(Path(sys.executable).with_name("toolkit"))
COMMANDS = (
    "runs list",
    "runs show last",
    "runs diff last",
    "workspace list",
    "workspace plan --mount src",
    "sandbox check",
    "sandbox exec -- true",
    "doctor",
)
"""What looks at things and starts no agent. A jail that is proven takes 0.03 s whoever starts it: that much of the last
three is other programs."""


def main() -> Iterator[Row]:
    nothing = partial(_run, [sys.executable, "-c", "pass"])
    contenders: list[tuple[str, list[str], float]] = [
        ("import toolkit / python -c pass", [sys.executable, "-c", "import toolkit"], 2),
        ("toolkit --help / python -c pass", [TOOLKIT, "--help"], 3.5),
    ]
    for what, command, must_be in contenders:
        yield interleave(partial(_run, command), nothing, rounds=ROUNDS, warmup=3).row(what, must_be)
    with tempfile.TemporaryDirectory() as folder:
        env = _stored_run(Path(folder))
        click = partial(_run, [sys.executable, "-c", "import click"])
        for words in COMMANDS:
            # `doctor` says by its code what it has found.
            ours = partial(_run, [TOOLKIT, *words.split()], folder, env, check=words != "doctor")
            yield interleave(ours, click, rounds=11).row(f"toolkit {words} / python -c 'import click'", 3)


def _stored_run(folder: Path) -> dict[str, str]:
    """One run with a workspace in a home of its own, and the variable that names it."""
    (folder / "src").mkdir()
    (folder / "src" / "app.py").write_text("print('old')\n", encoding="utf-8")
    section = WorkspaceSection([HostMount(folder / "src")], [folder])
    asyncio.run(run("Look.", workspace=section, transport=FakeCLI(Turn([text("Done.")])), home=folder / "home"))
    (section.temp_dir / "src" / "app.py").write_text("print('new')\n", encoding="utf-8")  # something to show
    return {"TOOLKIT_HOME": str(folder / "home")}


def _run(
    command: Sequence[str], folder: str | None = None, env: dict[str, str] | None = None, *, check: bool = True
) -> None:
    # Away from the project, so that an editable install is found as users find it.
    run_to_end(command, cwd=folder or tempfile.gettempdir(), env=child_env(env), check=check)
