"""docs/runs.md and docs/views.md show programs that run, and what they print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TEXTS = [(DOCS / name).read_text(encoding="utf-8") for name in ("runs.md", "views.md")]
SHOWN = [re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL) for text in TEXTS]
PROGRAMS = [program for page in SHOWN for program in page]


def test_every_program_in_the_pages_shows_its_output() -> None:
    assert [len(page) for page in SHOWN] == [text.count("```python") for text in TEXTS]


@pytest.mark.parametrize(("program", "output"), PROGRAMS)
def test_a_program_in_the_pages_prints_what_it_shows(program: str, output: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, file], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == (output, "")
