"""The README's demo and its Install block work as printed in a fresh clone, for root and for a plain user.

Packages come from the index by the ordinary pip client, in the versions of `constraints.txt`. It takes about a minute for
each of the two; where pip reaches no index it is skipped, in CI it fails. No step may take longer than `LONGEST`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.readme import page
from tests.readme.people import KINDS, index_is_reached, is_here, person
from tests.sandbox.jails import needs_jail

LONGEST = 400.0


@pytest.fixture(scope="module")
def index() -> None:
    reached = index_is_reached()
    if not reached and not os.environ.get("CI"):
        pytest.skip("pip reaches no index")
    assert reached, "pip reaches no index"


@needs_jail
@pytest.mark.parametrize("kind", KINDS)
def test_the_demo_and_the_install_block_work_in_a_fresh_clone(kind: str, index: None) -> None:
    if not is_here(kind):
        pytest.skip(f"this process cannot act as {kind}")
    with person(kind) as reader:
        clone, temp = reader.home / "clone", reader.home / "t"
        subprocess.run(["git", "clone", "-q", str(page.ROOT), str(clone)], check=True, timeout=60)
        temp.mkdir()
        reader.owns(temp)
        system = {"PATH": os.environ["PATH"] if os.geteuid() else "/usr/local/bin:/usr/bin:/bin", "TMPDIR": str(temp)}

        [demo] = page.of("", "console")[1].typed
        shown = reader.types(demo, clone, seconds=LONGEST, env=system)
        assert shown.returncode == 0, shown.stdout + shown.stderr
        assert list(temp.iterdir()) == []
        commands = [line.split("./dev ")[1] for line in shown.stdout.splitlines() if "./dev shell toolkit runs" in line]
        assert commands
        assert not (clone / ".venv" / "bin" / "mypy").exists()

        [block] = page.of("Install", "console")
        *before, doctor = block.typed
        done = reader.types("\n".join([*before, f"{doctor} || true"]), clone, seconds=LONGEST, env=system)
        assert done.returncode == 0, done.stdout + done.stderr
        stops = [line.split()[1:3] for line in done.stdout.splitlines() if line.startswith("stops ")]
        assert stops == [["model", "API"]], done.stdout
        assert Path(reader.home / "toolkit-env" / "bin" / "toolkit").exists()
