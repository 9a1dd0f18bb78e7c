"""The CLI to confine: the one that is named, else the one in claude-agent-sdk, else the one on PATH."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from toolkit.errors import SandboxError


def find_cli(cli_path: Path | str | None = None) -> Path:
    """Return the resolved CLI.

    Raises:
        SandboxError: there is none, or it cannot be executed.
    """
    named = cli_path or os.environ.get("CLAUDE_BIN")
    place = Path(named) if named else _bundled() or shutil.which("claude")
    if place is None:
        raise SandboxError("no claude CLI was found", fix="pip install claude-agent-sdk, or set CLAUDE_BIN.")
    resolved = Path(place).resolve()
    if not resolved.is_file() or not os.access(resolved, os.X_OK):
        raise SandboxError(f"the CLI '{place}' is not an executable file", fix="Give the path of a claude binary.")
    return resolved


def _bundled() -> Path | None:
    # Found, not imported: importing the SDK takes longer than a whole check.
    spec = find_spec("claude_agent_sdk")
    if spec is None or spec.origin is None:
        return None
    bundled = Path(spec.origin).parent / "_bundled" / "claude"
    return bundled if bundled.is_file() else None
