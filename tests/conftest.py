"""What every test may rely on, however the suite was started."""

from __future__ import annotations

import signal
import subprocess
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


LONGEST = (
    "escape/test_escape.py",
    "workspace/test_copying_races.py",
    "fleets/test_on_a_cluster.py",
    "sandbox/test_as_a_plain_user.py",
    "readme/test_install.py",
    "fleets/test_isolated.py",
    "readme/test_cookbook.py",
    "runs/test_overlaid_as_a_plain_user.py",
    "fleets/test_check.py",
    "fleets/test_left_in_the_store.py",
    "workspace/test_gitignore.py",
    "fleets/test_cluster_rate.py",
    "real/test_fake_like_real.py",
    "setups/test_as_a_plain_user.py",
    "batches/test_batch_rate.py",
)
"""Files that take longest, few tests as they have: begun last, they would be waited for by workers with nothing to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files."""
    here = Path(__file__).parent
    place = {here / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


@pytest.fixture
def toolkit_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for the runs of a test, and no model API in reach."""
    home = tmp_path / "toolkit-home"
    monkeypatch.setenv("TOOLKIT_HOME", str(home))
    for name in (*CREDENTIALS.values(), CUSTOM_HEADERS, "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return home
