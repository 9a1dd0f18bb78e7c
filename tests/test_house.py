"""The rooms keep to themselves: who may import whom, and what a cheap start may load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

ROOMS = {
    "toolkit._base": ROOT / "toolkit" / "_base",
    "toolkit.errors": ROOT / "toolkit" / "errors.py",
    "toolkit.tools": ROOT / "toolkit" / "tools",
    "toolkit.sandbox": ROOT / "toolkit" / "sandbox",
    "toolkit.runs": ROOT / "toolkit" / "runs",
    "toolkit.testing": ROOT / "toolkit" / "testing",
    "toolkit.report": ROOT / "toolkit" / "report",
    "toolkit.demo": ROOT / "toolkit" / "demo",
    "toolkit.doctor": ROOT / "toolkit" / "doctor.py",
    "toolkit.cli": ROOT / "toolkit" / "cli",
    "toolkit_servers": ROOT / "servers" / "toolkit_servers",
    "toolkit_workspace": ROOT / "workspace" / "toolkit_workspace",
}

ALL = frozenset(ROOMS)
MAY_IMPORT: dict[str, frozenset[str]] = {
    "toolkit._base": frozenset(),
    "toolkit.errors": frozenset(),
    "toolkit.tools": frozenset({"toolkit._base", "toolkit.errors"}),
    "toolkit_workspace": frozenset({"toolkit._base", "toolkit.errors"}),
    "toolkit.sandbox": frozenset({"toolkit._base", "toolkit.errors"}),
    "toolkit_servers": frozenset({"toolkit._base", "toolkit.errors", "toolkit.tools", "toolkit_workspace"}),
    "toolkit.runs": ALL - {"toolkit.cli", "toolkit.report", "toolkit.testing"},
    "toolkit.testing": ALL - {"toolkit.cli", "toolkit.report"},
    "toolkit.report": ALL - {"toolkit.cli", "toolkit.testing"},
    "toolkit.demo": ALL - {"toolkit.cli"},
    "toolkit.doctor": frozenset({"toolkit._base", "toolkit.errors", "toolkit.runs", "toolkit.sandbox"}),
    "toolkit.cli": ALL,
}

# The one step upwards: Toolbox.in_process() and .server() import toolkit_servers when they are called.
DOORS = {
    ("toolkit/tools/toolbox.py", "toolkit_servers.build"),
    ("toolkit/tools/toolbox.py", "toolkit_servers.in_process"),
}

MAY_IMPORT_MCP = {"toolkit_servers", "toolkit.runs", "toolkit.testing", "toolkit.cli"}
MAY_IMPORT_SDK = {"toolkit.runs", "toolkit.testing"}
SDK_DOOR = "servers/toolkit_servers/in_process.py"


def _files(room: Path) -> list[Path]:
    return [room] if room.is_file() else sorted(room.rglob("*.py"))


def _imports(file: Path) -> set[str]:
    """The absolute dotted names a file imports, wherever in the file the import stands."""
    names: set[str] = set()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []  # read by type checkers only
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def _room_of(name: str) -> str | None:
    return next((room for room in ROOMS if name == room or name.startswith(room + ".")), None)


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_room_imports_only_the_rooms_below_it(room: str) -> None:
    wrong = []
    for file in _files(ROOMS[room]):
        place = file.relative_to(ROOT).as_posix()
        for name in _imports(file):
            other = _room_of(name)
            if other in (None, room) or other in MAY_IMPORT[room]:
                continue
            if any(place == door and (name == module or name.startswith(module + ".")) for door, module in DOORS):
                continue
            wrong.append(f"{place} imports {name}")
    assert wrong == []


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_only_the_rooms_that_need_them_import_mcp_and_the_sdk(room: str) -> None:
    wrong = []
    for file in _files(ROOMS[room]):
        place = file.relative_to(ROOT).as_posix()
        tops = {name.partition(".")[0] for name in _imports(file)}
        if tops & {"mcp", "mcp_types"} and room not in MAY_IMPORT_MCP:
            wrong.append(f"{place} imports mcp")
        if "claude_agent_sdk" in tops and room not in MAY_IMPORT_SDK and place != SDK_DOOR:
            wrong.append(f"{place} imports claude_agent_sdk")
    assert wrong == []


@pytest.mark.parametrize(
    "code",
    [
        "import toolkit",
        "from toolkit import tool, Toolbox",
        "import sys; sys.argv = ['toolkit', '--help']\nimport toolkit.cli\ntry: toolkit.cli.main()\nexcept SystemExit: pass",
    ],
    ids=["import toolkit", "from toolkit import tool", "toolkit --help"],
)
def test_a_cheap_start_loads_neither_mcp_nor_the_sdk(code: str) -> None:
    probe = code + "\nimport sys; print([m for m in ('mcp', 'mcp_types', 'claude_agent_sdk') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
