"""The page about taking changes back says what really happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "workspace-changes.md"


def test_the_example_of_the_page_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = re.findall(r"```(?:python|text)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/app.py").write_text("print('start')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    exec(compile(code, str(PAGE), "exec"), {})

    assert capsys.readouterr().out == shown
    assert (tmp_path / "src/app.py").read_text(encoding="utf-8") == "print('start')\nprint('done')\n"
    assert (tmp_path / "work.patch").read_bytes().startswith(b"diff --git a/src/app.py b/src/app.py\n")
