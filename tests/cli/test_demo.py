"""The demo does what it says: the test fails, is fixed and passes, and the host stays out of reach."""

from __future__ import annotations

from pathlib import Path

from tests.cli._command import toolkit
from tests.sandbox.jails import needs_jail


@needs_jail
def test_the_demo_fixes_its_project_and_reaches_nothing_else(tmp_path: Path) -> None:
    places = {"TOOLKIT_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    done = toolkit("demo", "--as", "./dev shell toolkit", cwd=tmp_path, env=places)
    told = [line.split(None, 2) for line in done.out.splitlines() if line.startswith("  ") and len(line.split()) > 1]
    tools = [(words[0], words[1]) for words in told if words[0] in ("ok", "failed", "refused", "LEAKED")]
    assert [name for mark, name in tools if mark == "refused"] == ["Read", "Bash"]
    assert {mark for mark, _ in tools} == {"ok", "refused"}
    assert [words[2] for words in told if words[:2] == ["ok", "Bash"]] == ["FAILED (failures=1)", "OK"]
    assert "Changes  M  shop/prices.py  +1 −1\n" in done.out
    assert done.code == 0
    assert list((tmp_path / "tmp").iterdir()) == []
    [take] = [line for line in done.out.splitlines() if line.startswith("Take")]
    assert take.split()[1:4] == ["./dev", "shell", "toolkit"]
    taken = toolkit(*take.split()[4:], cwd=tmp_path, env=places)
    assert taken.code == 0
    assert "1 - DISCOUNT" in (tmp_path / "home" / "demo" / "shop" / "prices.py").read_text(encoding="utf-8")
