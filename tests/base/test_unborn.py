"""A folder that a killed process was making is told from one that is being made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from toolkit._base.locks import take_lock
from toolkit._base.unborn import is_stillborn, unborn_name

_MAKES_ONE = "import sys; from pathlib import Path; from toolkit._base.unborn import unborn_name\n"
_MAKES_ONE += "place = Path(sys.argv[1], unborn_name('made-by-another')); place.mkdir(); print(place)"


def _made_by_another(folder: Path) -> Path:
    command = [sys.executable, "-c", _MAKES_ONE, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return Path(done.stdout.strip())


def test_the_folder_of_a_process_that_is_gone_is_nobodys_at_once(tmp_path: Path) -> None:
    assert is_stillborn(_made_by_another(tmp_path))


def test_the_folder_of_a_living_process_is_its_own_with_and_without_a_lock(tmp_path: Path) -> None:
    mine = tmp_path / unborn_name("mine")
    mine.mkdir()
    assert not is_stillborn(mine)
    lock = take_lock(mine / "lock")
    assert lock is not None
    assert not is_stillborn(mine)
    lock.release()
    assert is_stillborn(mine)


def test_a_folder_whose_name_says_nothing_is_left_alone_for_an_hour(tmp_path: Path) -> None:
    strange = tmp_path / ".strange.new"
    strange.mkdir()
    assert not is_stillborn(strange)
    os.utime(strange, (0, 0))
    assert is_stillborn(strange)
