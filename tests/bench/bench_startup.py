"""How long `import toolkit` and `toolkit --help` take, against an interpreter that does nothing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.bench._common import Row, child_env, interleave

ROUNDS = 40


def main() -> Iterator[Row]:
    nothing = partial(_run, [sys.executable, "-c", "pass"])
    contenders: list[tuple[str, list[str], float]] = [
        ("import toolkit / python -c pass", [sys.executable, "-c", "import toolkit"], 3),
        ("toolkit --help / python -c pass", [str(Path(sys.executable).with_name("toolkit")), "--help"], 6),
    ]
    for what, command, must_be in contenders:
        yield interleave(partial(_run, command), nothing, rounds=ROUNDS, warmup=3).row(what, must_be)


def _run(command: Sequence[str]) -> None:
    # Away from the project, so that an editable install is found as users find it.
    subprocess.run(
        command, env=child_env(), cwd=tempfile.gettempdir(), stdout=subprocess.DEVNULL, timeout=60, check=True
    )
