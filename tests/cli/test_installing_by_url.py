"""The command that `toolkit install --http` prints, run with Claude Code's own CLI against a server with a lock."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.cli._command import toolkit
from tests.serving._client import BOUND, ServedHttp
from toolkit.sandbox.host.cli import find_cli

TOKEN = "a-token-of-the-test-0123456789abcdef"
SOURCE = """
@tool
def hello() -> str:
    "Say hello."
    return "hello"
"""


def test_the_printed_command_logs_in_and_leaves_the_token_in_no_file(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text(f"alice all {TOKEN}\n", encoding="utf-8")
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "claude").symlink_to(find_cli())
    settings = {
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home),
        "TEAM_TOKEN": TOKEN,
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    with ServedHttp(tmp_path, SOURCE, options=["--token-file", str(tokens)]) as served:
        done = toolkit("install", "--http", served.url, "--name", "team", "--token-env", "TEAM_TOKEN", cwd=tmp_path)
        command = done.err.rpartition("in this folder: ")[2]
        assert command.startswith("claude mcp add "), done.err
        for line in (command, "claude mcp list"):
            said = subprocess.run(
                ["sh", "-c", line], cwd=home, env=settings, capture_output=True, text=True, timeout=BOUND, check=True
            )
        assert "Connected" in said.stdout
    kept = [file for file in home.rglob("*") if file.is_file() and not file.is_symlink()]
    assert any("${TEAM_TOKEN}" in file.read_text(encoding="utf-8", errors="replace") for file in kept)
    assert not any(TOKEN in file.read_text(encoding="utf-8", errors="replace") for file in kept)
