"""docs/serving.md shows code that runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.serving._client import BOUND, HANDSHAKE

DOCS = Path(__file__).parents[2] / "docs" / "serving.md"


def _snippets() -> list[str]:
    return re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)


def test_the_program_that_serves_over_stdio_answers(tmp_path: Path) -> None:
    tools, program, _ = _snippets()
    (tmp_path / "my_app").mkdir()
    (tmp_path / "my_app" / "tools.py").write_text("print('imported')\n" + tools, encoding="utf-8")
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "word_count", "arguments": {"text": "a b"}},
        },
    ]
    done = subprocess.run(
        [sys.executable, "program.py"],
        input="".join(json.dumps(request) + "\n" for request in requests),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=True,
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert '"text":"2"' in done.stdout
    assert done.stderr == "imported\n"


def test_the_app_to_mount_is_one(tmp_path: Path) -> None:
    tools, _, mounted = _snippets()
    names: dict[str, object] = {"__name__": "documented"}
    exec(compile(tools + mounted, str(DOCS), "exec", dont_inherit=True), names)
    assert callable(names["app"])
