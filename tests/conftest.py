"""What every test may rely on, however the suite was started."""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest import pathlib as pytest_pathlib

from toolkit.sandbox import CREDENTIALS, CUSTOM_HEADERS

# A shell starts what it runs in the background with interrupts ignored, and
# everything the tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _remove(path: Path) -> None:
    subprocess.run(["rm", "-rf", "--", str(path)], check=False, stderr=subprocess.DEVNULL)


# At its end a session removes the folders of earlier ones, function by function into the depth: it dies of a tree that
# a killed test, of whichever checkout, left deeper than that goes.
pytest_pathlib.rm_rf = _remove


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test whose name is another one in each process: two workers could not agree on it."""
    for item in items:
        if re.search(r" at 0x[0-9a-f]{6}", item.nodeid):
            raise pytest.UsageError(f"{item.nodeid} has an address in its name: give it one with ids=")


@pytest.fixture
def toolkit_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for the runs of a test, and no model API in reach."""
    home = tmp_path / "toolkit-home"
    monkeypatch.setenv("TOOLKIT_HOME", str(home))
    for name in (*CREDENTIALS.values(), CUSTOM_HEADERS, "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def anyones_folder() -> Iterator[Path]:
    """A folder that other users may enter, too. pytest's own is closed to them whenever a session begins."""
    with tempfile.TemporaryDirectory(prefix="anyones-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
