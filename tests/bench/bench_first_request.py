"""How soon the model is asked: `toolkit run` with one small mount against `claude -p`, from typed to the first request."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench._common import Pair, Row, child_env, run_to_end
from toolkit.sandbox import find_cli
from toolkit.testing import ScriptedAPI, text

ROUNDS = 15
TOOLKIT = str(Path(sys.executable).with_name("toolkit"))


class _Arrivals:
    """A model that notes when each request came."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def __call__(self, request: Any) -> Sequence[Mapping[str, Any]]:
        self.at.append(time.perf_counter())
        return [text("done")]


def main() -> Iterator[Row]:
    arrivals = _Arrivals()
    with ScriptedAPI(otherwise=arrivals, strict=False) as api, tempfile.TemporaryDirectory() as folder:
        home, project = Path(folder, "home"), Path(folder, "project")
        (project / "src").mkdir(parents=True)
        (project / "src" / "app.py").write_text("print('old')\n", encoding="utf-8")
        home.mkdir(mode=0o700)
        env = child_env(
            {
                "ANTHROPIC_BASE_URL": api.url,
                "ANTHROPIC_API_KEY": "made-up",
                "TOOLKIT_HOME": str(home / "toolkit"),
                "HOME": str(home),
                "CLAUDE_CONFIG_DIR": str(home / ".claude"),
                "DISABLE_TELEMETRY": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            }
        )
        ours = [TOOLKIT, "run", "Go.", "--mount", "src"]
        theirs = [str(find_cli()), "-p", "Go."]
        pair = Pair([], [])
        sides = [(ours, pair.ours), (theirs, pair.theirs)]
        for turn in range(-1, ROUNDS):
            for command, times in sides if turn % 2 == 0 else reversed(sides):
                taken = _until_asked(command, project, env, arrivals)
                if turn >= 0:
                    times.append(taken)
        yield pair.row("toolkit run, typed until the first request / claude -p", 2.2)


def _until_asked(command: Sequence[str], folder: Path, env: Mapping[str, str], arrivals: _Arrivals) -> float:
    """Seconds from the start of a command to its first request; it is seen through to its end."""
    arrivals.at.clear()
    began = time.perf_counter()
    run_to_end(command, cwd=folder, env=env, seconds=120)
    return arrivals.at[0] - began
