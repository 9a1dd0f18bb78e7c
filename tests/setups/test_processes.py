"""Setups in processes of their own: several make a layer once, and a killed one leaves nothing half."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.needs import needs
from tests.sandbox.jails import needs_jail
from tests.setups.conftest import PIP
from tests.setups.registry import HOST, Registry
from toolkit._base.processes import all_pids
from toolkit.runs import load_run
from toolkit.runs.layers import Layers
from toolkit.testing import ScriptedAPI, text

Start = Callable[..., ScriptedAPI]
pytestmark = [needs_jail, needs(shutil.which("openssl"), "needs openssl")]
ROOT = Path(__file__).parents[2]
_BOUND = 60.0


@contextmanager
def launched(api: ScriptedAPI, registry: Registry, shop: Path, command: str) -> Iterator[subprocess.Popen[str]]:
    """`toolkit run` with a setup, in a process of its own."""
    words = ["run", "Go.", "--mount", str(shop), "--allow-root", str(shop.parent), "--setup", command]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.setups.registry", str(registry.port), *words, "--setup-domain", HOST],
        cwd=ROOT,
        env={**os.environ, "ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "fake"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + _BOUND
    while not is_so():
        assert time.monotonic() < end, "it never came to that"
        os.sched_yield()


def running(mark: str) -> list[int]:
    found = []
    for pid in all_pids():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
            found += [pid] if line == mark.replace(" ", "\0").encode() + b"\0" else []
        except OSError:
            continue
    return found


def test_two_processes_make_a_layer_once_and_show_it(trusting: Path, registry: Registry, scripted_api: Start) -> None:
    api = scripted_api([text("done")], [text("done")])
    command = f"{PIP} -r requirements.txt"
    with launched(api, registry, trusting, command) as one, launched(api, registry, trusting, command) as other:
        said = [process.communicate(timeout=_BOUND)[1] for process in (one, other)]
    assert [one.returncode, other.returncode] == [0, 0], said
    assert registry.asked == ["/simple/tiny/", "/files/tiny-1.0-py3-none-any.whl"]
    (layer,) = Layers().all()
    assert all(f"layer {layer.short} has shop/.venv" in told for told in said)
    assert sum("| Successfully installed tiny-1.0" in told for told in said) == 1
    assert sum("setup      not needed" in told for told in said) == 1


def test_a_launcher_that_is_killed_in_a_setup_leaves_nothing_half(
    trusting: Path, registry: Registry, scripted_api: Start
) -> None:
    api = scripted_api([text("done")])
    mark = f"sleep 600.{os.getpid()}"
    layers = Layers()
    with launched(api, registry, trusting, f"mkdir -p .venv; touch .venv/half; {mark}") as process:
        wait_until(lambda: running(mark))
        process.send_signal(signal.SIGKILL)
        process.wait(_BOUND)
    wait_until(lambda: not running(mark))
    assert layers.all() == []
    assert len([*layers.folder.glob(".*.new")]) == 1
    assert (load_run("last").state, load_run("last").result().code, len(api.requests)) == ("crashed", "crashed", 0)
    with launched(api, registry, trusting, "mkdir -p .venv; touch .venv/whole") as process:
        said = process.communicate(timeout=_BOUND)[1]
    assert process.returncode == 0, said
    (layer,) = layers.all()
    assert [path.name for path in (layer.folder / "tree" / "shop" / ".venv").iterdir()] == ["whole"]
    assert [*layers.folder.glob(".*")] == []
