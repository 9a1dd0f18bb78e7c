"""Run the official MCP conformance suite against our fixture server, and say how each scenario went.

The suite, the Inspector, the TypeScript SDK and a Node that runs them are npm packages, pinned in `npm/`; fastmcp's
client has an environment of its own, pinned in `fastmcp.txt`. `./dev` puts both into `.venv`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
NPM = Path(sys.prefix) / "conformance" / "node_modules"
FASTMCP = Path(sys.prefix) / "fastmcp" / "bin" / "python"
ERAS = ("2025-11-25", "2026-07-28")
KNOWN: dict[str, list[str]] = json.loads((HERE / "scenarios.json").read_text(encoding="utf-8"))
"""The scenarios that the pinned version has, by era."""
BOUND = 240.0
_FINE = ("SUCCESS", "INFO", "SKIPPED")


def node() -> Path | None:
    """The Node of the lock file; None where it was not fetched."""
    return next(iter(sorted(NPM.glob("node-*/bin/node"))), None)


def environment() -> dict[str, str]:
    """The environment in which the pinned Node is found first, and no proxy is asked for loopback."""
    found = node()
    assert found is not None
    return {**os.environ, "PATH": f"{found.parent}{os.pathsep}{os.environ['PATH']}", "NO_PROXY": "127.0.0.1"}


@dataclass(frozen=True, slots=True)
class Row:
    """How one scenario went."""

    scenario: str
    problems: tuple[str, ...] = ()
    """Checks that failed or warned."""

    @property
    def passed(self) -> bool:
        return not self.problems


@contextlib.contextmanager
def served(target: str, folder: Path) -> Iterator[str]:
    """The address of a target that is served over HTTP, inside the block."""
    argv = [sys.executable, "-m", "toolkit", "serve", "--http", "--port", "0", target]
    with (folder / "serve.log").open("w+") as log:
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            found = re.search(r"http://\S+", line)
            assert found, line + process.stderr.read()
            # Somebody has to read on, or the server would wait for it.
            reading = threading.Thread(target=lambda: log.writelines(process.stderr or ()), daemon=True)
            reading.start()
            yield found[0]
        finally:
            process.terminate()
            process.wait(30)
            reading.join(60)
            process.stderr.close()


def run_suite(url: str, era: str, out: Path) -> list[Row]:
    """Every scenario of one era, those that the suite has and those that we know of."""
    suite = NPM / "@modelcontextprotocol/conformance/dist/index.js"
    argv = [str(node()), str(suite), "server", "--url", url, "--suite", "all", "--spec-version", era, "-o", str(out)]
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True, timeout=BOUND, check=False)
    rows = {name: _row(name, folder) for folder in sorted(out.glob("server-*")) if (name := _name(folder))}
    if not rows:
        raise RuntimeError(f"the suite did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    missing = {name: Row(name, ("it was not run",)) for name in KNOWN[era] if name not in rows}
    return sorted([*rows.values(), *missing.values()], key=lambda row: row.scenario)


def _name(folder: Path) -> str:
    found = re.match(r"server-(.+?)-\d{4}-\d\d-\d\dT", folder.name)
    return found[1] if found else folder.name


def _row(name: str, folder: Path) -> Row:
    checks = json.loads((folder / "checks.json").read_text(encoding="utf-8"))
    problems = [f"{each['status']} {each['id']}: {each.get('errorMessage')}" for each in checks if _is_problem(each)]
    return Row(name, tuple(problems) if checks else ("it checked nothing",))


def _is_problem(check: dict[str, str]) -> bool:
    return check.get("status") not in _FINE


def run_all() -> dict[str, list[Row]]:
    """Both eras against our fixture server."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        with served(str(HERE / "server.py"), folder) as url:
            return {era: run_suite(url, era, folder / era) for era in ERAS}
