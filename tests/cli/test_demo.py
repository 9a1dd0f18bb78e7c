"""The demo does what it says: the test fails, is fixed and passes, and the host stays out of reach."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.cli._command import toolkit
from tests.sandbox.jails import needs_jail


@needs_jail
def test_the_demo_fixes_its_project_and_reaches_nothing_else(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as temp:  # not below tmp_path, which is too long for the jail's socket
        places = {"TOOLKIT_HOME": str(tmp_path / "home"), "TMPDIR": temp}
        done = toolkit("demo", "--as", "./dev shell toolkit", cwd=tmp_path, env=places)
        assert list(Path(temp).iterdir()) == []
    told = [line.split(None, 2) for line in done.out.splitlines() if line.startswith("  ") and len(line.split()) > 1]
    tools = [(words[0], words[1]) for words in told if words[0] in ("ok", "failed", "refused", "LEAKED")]
    assert [name for mark, name in tools if mark == "refused"] == ["Read", "Bash"], done.out + done.err
    assert {mark for mark, _ in tools} == {"ok", "refused"}
    assert [words[2] for words in told if words[:2] == ["ok", "Bash"]] == ["FAILED (failures=1)", "OK"]
    assert "demo/shop/prices.py  +1 −1\n" in done.out
    assert done.code == 0
    [take] = [line for line in done.out.splitlines() if line.startswith("Take")]
    assert take.split()[1:4] == ["./dev", "shell", "toolkit"]
    taken = toolkit(*take.split()[4:], cwd=tmp_path, env={"TOOLKIT_HOME": str(tmp_path / "home")})
    assert taken.code == 0
    assert "1 - DISCOUNT" in (tmp_path / "home" / "demo" / "shop" / "prices.py").read_text(encoding="utf-8")
