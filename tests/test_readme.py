"""The README's first run works as it is printed, in a repository of somebody's own, also for somebody who is not root."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.jails import needs_jail
from toolkit.testing import ScriptedAPI, text, tool_use

ROOT = Path(__file__).parents[1]
PRICES = "def price(cents: int, count: int) -> int:\n    return cents\n"
TEST = """import unittest

from prices import price


class Prices(unittest.TestCase):
    def test_every_piece_is_paid(self) -> None:
        self.assertEqual(price(250, 3), 750)
"""


def commands(title: str) -> list[str]:
    """What is typed in the section of that title."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\$ (.*)$", section, re.MULTILINE)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "prices.py").write_text(PRICES, encoding="utf-8")
    (folder / "test_prices.py").write_text(TEST, encoding="utf-8")
    git = ["git", "-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "A shop"]):
        subprocess.run([*git, *words], cwd=folder, check=True, timeout=30)
    return folder


@pytest.fixture
def api(shop: Path) -> Iterator[ScriptedAPI]:
    edit = {"file_path": str(shop / "prices.py"), "old_string": "return cents", "new_string": "return cents * count"}
    with ScriptedAPI(
        [tool_use("Read", file_path=str(shop / "prices.py"))],
        [tool_use("Edit", **edit)],
        [text("It pays for every piece now.")],
        otherwise=[text("Done.")],
        strict=False,
    ) as served:
        yield served


@needs_jail
def test_the_first_run_works_as_printed(shop: Path, api: ScriptedAPI, tmp_path: Path) -> None:
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "TOOLKIT_HOME": str(tmp_path / "state"),
        "ANTHROPIC_BASE_URL": api.url,
        "ANTHROPIC_API_KEY": "not-a-key",
    }
    typed = commands("A first run")
    assert [line.split()[1] for line in typed] == ["doctor", "run", "runs", "runs"]
    told = []
    for line in typed:
        done = subprocess.run(line, shell=True, cwd=shop, env=env, capture_output=True, text=True, timeout=170)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        told.append(done.stdout)
    assert "+    return cents * count" in told[2]
    assert (shop / "prices.py").read_text(encoding="utf-8") == PRICES
    git = subprocess.run(
        ["git", "diff", "main", "agent/fix-prices"], cwd=shop, capture_output=True, text=True, timeout=30, check=True
    )
    assert "+    return cents * count" in git.stdout
