"""The page about workspaces shows code that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "workspace.md"


def test_the_first_example_runs_and_takes_the_new_file_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("a = 1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(PAGE), "exec"), {})
    assert (tmp_path / "src/hello.py").read_text(encoding="utf-8") == "print('hello')\n"
    assert "src/  1 file, 6 B" in capsys.readouterr().out


def test_the_example_of_changes_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## See what changed")[2]
    code, shown = re.findall(r"```(?:python|text)\n(.*?)```", section, re.DOTALL)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/app.py").write_text("print('start')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == shown
    assert (tmp_path / "src/app.py").read_text(encoding="utf-8") == "print('start')\nprint('done')\n"
    assert (tmp_path / "work.patch").read_bytes().startswith(b"diff --git a/src/app.py b/src/app.py\n")
