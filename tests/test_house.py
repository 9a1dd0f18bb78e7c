"""The rooms keep to themselves: who may use whom, by which door, and what a cheap start may load.

A room is a folder. `MAY_USE` lists for every room the rooms it may use; what is not listed is not allowed. A top room
is entered from outside only through a folder's `__init__`; inside a top room, plain modules may be used by
the neighbours and modules with an underscore may not.
"""

from __future__ import annotations

import ast
import collections
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = {
    "toolkit": ROOT / "toolkit",
    "toolkit_servers": ROOT / "servers" / "toolkit_servers",
    "toolkit_workspace": ROOT / "workspace" / "toolkit_workspace",
}
MOST_FILES = 10

FLOOR = {"toolkit._base", "toolkit.errors"}
"""What every room may use: the floor, and the errors that users catch."""

MAY_USE: dict[str, set[str]] = {
    "toolkit.tools": {
        "toolkit.tools.asking",
        "toolkit.tools.calling",
        "toolkit.tools.offers",
        "toolkit.tools.schema",
        "toolkit.tools.schema.compiling",
    },
    "toolkit.tools.asking": {"toolkit.tools", "toolkit.tools.schema.compiling"},
    "toolkit.tools.calling": {"toolkit.tools"},
    "toolkit.tools.offers": {"toolkit.tools", "toolkit.tools.calling", "toolkit.tools.schema"},
    "toolkit.tools.schema": {"toolkit.tools", "toolkit.tools.schema.compiling"},
    "toolkit.tools.schema.compiling": {"toolkit.tools", "toolkit.tools.schema"},
    "toolkit_servers": {
        "toolkit.tools",
        "toolkit.tools.calling",
        "toolkit_servers.asking",
        "toolkit_servers.offers",
        "toolkit_servers.protocol",
        "toolkit_servers.target",
        "toolkit_servers.telling",
    },
    "toolkit_servers.asking": {"toolkit.tools.asking", "toolkit.tools.calling"},
    "toolkit_servers.http": {
        "toolkit_servers",
        "toolkit_servers.http.auth",
        "toolkit_servers.http.watching",
        "toolkit_servers.protocol",
        "toolkit_servers.telling",
    },
    "toolkit_servers.http.auth": {"toolkit_servers.http", "toolkit_servers.target"},
    "toolkit_servers.http.watching": {"toolkit_servers.http", "toolkit_servers.http.auth"},
    "toolkit_servers.clients": {"toolkit_servers.target"},
    "toolkit_servers.offers": {"toolkit.tools"},
    "toolkit_servers.ready": {
        "toolkit.tools",
        "toolkit_workspace",
        "toolkit_workspace.changes",
        "toolkit_workspace.moments",
    },
    "toolkit_servers.ready.files": {
        "toolkit.tools",
        "toolkit_servers.ready",
        "toolkit_servers.ready.files.reference",
        "toolkit_workspace.changes",
        "toolkit_workspace.selecting",
    },
    "toolkit_servers.ready.files.reference": {
        "toolkit.tools",
        "toolkit_servers.ready",
        "toolkit_servers.ready.files",
    },
    "toolkit_servers.protocol": {"toolkit_servers"},
    "toolkit_servers.stdio": {
        "toolkit.tools",
        "toolkit.tools.calling",
        "toolkit.tools.schema.compiling",
        "toolkit_servers",
        "toolkit_servers.asking",
        "toolkit_servers.protocol",
    },
    "toolkit_servers.target": {"toolkit", "toolkit.tools", "toolkit_servers", "toolkit_servers.ready"},
    "toolkit_servers.telling": set(),
    "toolkit_workspace": {
        "toolkit._base.layered",
        "toolkit_workspace.applying",
        "toolkit_workspace.changes",
        "toolkit_workspace.delivering",
        "toolkit_workspace.git",
        "toolkit_workspace.moments",
        "toolkit_workspace.pristine",
        "toolkit_workspace.record",
        "toolkit_workspace.selecting",
        "toolkit_workspace.travelling",
        "toolkit_workspace.watching",
    },
    "toolkit_workspace.applying": {
        "toolkit_workspace",
        "toolkit_workspace.changes",
        "toolkit_workspace.moments",
        "toolkit_workspace.record",
    },
    "toolkit_workspace.changes": {
        "toolkit_workspace",
        "toolkit_workspace.looking",
        "toolkit_workspace.marking",
        "toolkit_workspace.overlay",
        "toolkit_workspace.record",
        "toolkit_workspace.selecting",
    },
    "toolkit_workspace.copying": {"toolkit_workspace", "toolkit_workspace.record", "toolkit_workspace.selecting"},
    "toolkit_workspace.delivering": {
        "toolkit_workspace",
        "toolkit_workspace.applying",
        "toolkit_workspace.changes",
        "toolkit_workspace.git",
        "toolkit_workspace.marking",
        "toolkit_workspace.quarantine",
        "toolkit_workspace.record",
    },
    "toolkit_workspace.quarantine": {"toolkit_workspace.git", "toolkit_workspace.record"},
    "toolkit_workspace.git": {"toolkit_workspace.overlay"},
    "toolkit_workspace.marking": {"toolkit_workspace.record"},
    "toolkit_workspace.moments": {"toolkit_workspace", "toolkit_workspace.changes", "toolkit_workspace.record"},
    "toolkit_workspace.record": set(),
    "toolkit_workspace.selecting": {"toolkit_workspace", "toolkit_workspace.record"},
    "toolkit_workspace.watching": {
        "toolkit_workspace",
        "toolkit_workspace.applying",
        "toolkit_workspace.changes",
        "toolkit_workspace.copying",
        "toolkit_workspace.moments",
        "toolkit_workspace.record",
        "toolkit_workspace.selecting",
    },
    "toolkit.sandbox": {"toolkit.sandbox.host", "toolkit.sandbox.jail"},
    "toolkit.sandbox.commands": {
        "toolkit.sandbox",
        "toolkit.sandbox.confining",
        "toolkit.sandbox.gate",
        "toolkit.sandbox.jail",
    },
    "toolkit.sandbox.confining": {
        "toolkit.sandbox",
        "toolkit.sandbox.gate",
        "toolkit.sandbox.gate.pacing",
        "toolkit.sandbox.host",
        "toolkit.sandbox.jail",
        "toolkit.sandbox.lending",
        "toolkit.sandbox.relay",
    },
    "toolkit.sandbox.gate": {
        "toolkit.sandbox",
        "toolkit.sandbox.gate.pacing",
        "toolkit.sandbox.host",
        "toolkit.sandbox.relay",
    },
    "toolkit.sandbox.host": {"toolkit.sandbox.jail"},
    "toolkit.sandbox.jail": {"toolkit._base.layered", "toolkit.sandbox"},
    "toolkit.sandbox.lending": {"toolkit.sandbox.jail"},
    "toolkit.sandbox.lint": {"toolkit.sandbox"},
    "toolkit.runs": {
        "toolkit.runs.asking",
        "toolkit.runs.attempts",
        "toolkit.runs.job",
        "toolkit.runs.live",
        "toolkit.runs.checkpoints",
        "toolkit.runs.outcome",
        "toolkit.runs.sessions",
        "toolkit.runs.storage",
        "toolkit.runs.turn",
        "toolkit.sandbox",
        "toolkit.tools",
        "toolkit_servers.target",
        "toolkit_workspace",
        "toolkit_workspace.delivering",
    },
    "toolkit.runs.asking": {
        "toolkit.runs",
        "toolkit.runs.asking.subjects",
        "toolkit.runs.outcome",
        "toolkit.sandbox",
        "toolkit.tools.asking",
    },
    "toolkit.runs.asking.subjects": set(),
    "toolkit.runs.asking.answering": {"toolkit.runs.asking", "toolkit.tools.asking"},
    "toolkit.runs.live": {
        "toolkit.runs",
        "toolkit.runs.asking",
        "toolkit.runs.attempts",
        "toolkit.runs.delivery",
        "toolkit.runs.outcome",
        "toolkit.runs.sessions",
        "toolkit.runs.storage",
    },
    "toolkit.runs.checkpoints": {"toolkit.runs", "toolkit.runs.asking", "toolkit.runs.sessions"},
    "toolkit.runs.attempts": {
        "toolkit._base.layered",
        "toolkit.runs",
        "toolkit.runs.asking",
        "toolkit.runs.checkpoints",
        "toolkit.runs.job",
        "toolkit.runs.outcome",
        "toolkit.runs.sessions",
        "toolkit.runs.storage",
        "toolkit.runs.turn",
        "toolkit.runs.turn.servers",
        "toolkit.sandbox",
        "toolkit.sandbox.commands",
        "toolkit.tools",
        "toolkit_workspace.overlay",
    },
    "toolkit.runs.job": {
        "toolkit.runs",
        "toolkit.runs.layers",
        "toolkit.runs.outcome",
        "toolkit.runs.storage",
        "toolkit.sandbox",
        "toolkit.sandbox.commands",
        "toolkit.tools",
        "toolkit_workspace",
    },
    "toolkit.runs.layers": {"toolkit.runs", "toolkit.sandbox", "toolkit_workspace"},
    "toolkit.runs.many": {"toolkit.runs", "toolkit.runs.outcome", "toolkit.runs.storage"},
    "toolkit.runs.delivery": {"toolkit.sandbox", "toolkit_workspace.delivering"},
    "toolkit.runs.outcome": {"toolkit.tools.schema", "toolkit.tools.schema.compiling"},
    "toolkit.runs.projects": {
        "toolkit.runs",
        "toolkit.runs.asking",
        "toolkit.runs.projects.reading",
        "toolkit_servers.ready",
        "toolkit_workspace",
    },
    "toolkit.runs.projects.suggesting": {
        "toolkit.runs",
        "toolkit.runs.projects",
        "toolkit.runs.projects.reading",
        "toolkit_workspace",
    },
    "toolkit.runs.projects.reading": {
        "toolkit.runs",
        "toolkit.runs.projects",
        "toolkit.sandbox",
        "toolkit_workspace",
    },
    "toolkit.runs.sessions": {"toolkit.runs", "toolkit.runs.outcome", "toolkit.sandbox.jail"},
    "toolkit.runs.storage": {
        "toolkit.runs",
        "toolkit.runs.checkpoints",
        "toolkit.runs.delivery",
        "toolkit.runs.layers",
        "toolkit.runs.outcome",
        "toolkit.runs.sessions",
        "toolkit.sandbox",
        "toolkit.tools",
        "toolkit_workspace",
        "toolkit_workspace.pristine",
    },
    "toolkit.runs.turn": {
        "toolkit.runs",
        "toolkit.runs.asking",
        "toolkit.runs.asking.answering",
        "toolkit.runs.asking.subjects",
        "toolkit.runs.checkpoints",
        "toolkit.runs.outcome",
        "toolkit.runs.sessions",
        "toolkit.runs.storage",
        "toolkit.runs.turn.early",
        "toolkit.runs.turn.servers",
        "toolkit.sandbox",
        "toolkit.tools",
        "toolkit_servers",
    },
    "toolkit.runs.turn.early": set(),
    "toolkit.runs.turn.servers": {
        "toolkit.runs",
        "toolkit.runs.asking",
        "toolkit.sandbox",
    },
    "toolkit.runs.views": {"toolkit.runs.asking", "toolkit.runs.outcome", "toolkit.tools"},
    "toolkit.testing": {"toolkit.tools", "toolkit.workspace"},
    "toolkit.testing.cassette": {"toolkit.testing.fake_cli", "toolkit.testing.real_cli"},
    "toolkit.testing.fake_cli": {"toolkit.testing.model"},
    "toolkit.testing.model": set(),
    "toolkit.testing.real_cli": {"toolkit.sandbox"},
    "toolkit.report": set(),
    "toolkit.ui": {
        "toolkit.fleets.looking",
        "toolkit.report",
        "toolkit.report.batches",
        "toolkit.runs",
        "toolkit.runs.asking",
        "toolkit.runs.batches",
        "toolkit.runs.storage",
    },
    "toolkit.telemetry": {"toolkit_servers"},
    "toolkit.demo": {
        "toolkit.report",
        "toolkit.runs",
        "toolkit.sandbox",
        "toolkit.testing",
        "toolkit.tools",
        "toolkit.workspace",
    },
    "toolkit.doctor": {"toolkit.runs.storage", "toolkit.sandbox"},
    "toolkit.cli": {
        "toolkit",
        "toolkit.cli.quick",
        "toolkit.cli.terminal",
        "toolkit.demo",
        "toolkit.doctor",
        "toolkit.runs",
        "toolkit.sandbox",
        "toolkit.ui",
        "toolkit.workspace",
        "toolkit_servers.clients",
        "toolkit_servers.target",
        "toolkit_workspace",
        "toolkit_workspace.changes",
        "toolkit_workspace.pristine",
    },
    "toolkit.cli.quick": {
        "toolkit",
        "toolkit.doctor",
        "toolkit.sandbox",
        "toolkit_servers",
        "toolkit_servers.stdio",
        "toolkit_servers.target",
        "toolkit_workspace",
    },
    "toolkit.cli.serve": {
        "toolkit.cli.quick",
        "toolkit.cli.terminal",
        "toolkit_servers",
        "toolkit_servers.http",
        "toolkit_servers.target",
    },
    "toolkit.cli.starting": {
        "toolkit",
        "toolkit.cli.runs",
        "toolkit.cli.terminal",
        "toolkit.runs",
        "toolkit.runs.asking",
        "toolkit.runs.outcome",
        "toolkit.sandbox",
        "toolkit.telemetry",
        "toolkit.workspace",
        "toolkit_servers.ready",
        "toolkit_servers.target",
    },
    "toolkit.cli.runs": {
        "toolkit.cli.terminal",
        "toolkit.report",
        "toolkit.runs",
        "toolkit.runs.asking",
        "toolkit.runs.layers",
        "toolkit.runs.outcome",
        "toolkit.runs.storage",
        "toolkit.telemetry",
    },
    "toolkit.cli.terminal": {"toolkit.runs", "toolkit.runs.outcome", "toolkit.runs.projects", "toolkit.tools.asking"},
    "toolkit.fleets": set(),
    "toolkit.fleets.store": set(),
    "toolkit.fleets.claims": {"toolkit.fleets.store"},
    "toolkit.runs.batches": {"toolkit.runs", "toolkit.runs.many", "toolkit.runs.outcome", "toolkit.runs.storage"},
    "toolkit.cli.batches": {
        "toolkit.cli.batches.live",
        "toolkit.cli.starting",
        "toolkit.cli.terminal",
        "toolkit.fleets.caller",
        "toolkit.fleets.engine",
        "toolkit.fleets.journals",
        "toolkit.fleets.looking",
        "toolkit.fleets.rate",
        "toolkit.report.batches",
        "toolkit.runs.batches",
        "toolkit.telemetry",
    },
    "toolkit.fleets.looking": {"toolkit.runs", "toolkit.runs.batches", "toolkit.runs.outcome", "toolkit.runs.storage"},
    "toolkit.fleets.rate": {"toolkit.fleets.store", "toolkit.runs", "toolkit.runs.batches"},
    "toolkit.sandbox.gate.pacing": {"toolkit.sandbox.gate"},
    "toolkit.sandbox.relay": {"toolkit.sandbox.jail"},
    "toolkit.fleets.packs": {
        "toolkit.fleets.parcels",
        "toolkit.fleets.store",
        "toolkit.sandbox",
        "toolkit_servers.target",
        "toolkit_workspace",
        "toolkit_workspace.record",
    },
    "toolkit.fleets.parcels": {"toolkit.fleets.store"},
    "toolkit_workspace.travelling": {
        "toolkit_workspace",
        "toolkit_workspace.changes",
        "toolkit_workspace.git",
        "toolkit_workspace.record",
        "toolkit_workspace.selecting",
    },
    "toolkit.fleets.engine": {"toolkit.fleets.check", "toolkit.fleets.store", "toolkit.fleets.workers"},
    "toolkit.fleets.workers": {
        "toolkit.fleets.claims",
        "toolkit.fleets.packs",
        "toolkit.fleets.parcels",
        "toolkit.fleets.rate",
        "toolkit.fleets.returns",
        "toolkit.fleets.store",
        "toolkit.runs",
        "toolkit.runs.asking",
        "toolkit.runs.batches",
        "toolkit.runs.outcome",
        "toolkit.runs.storage",
    },
    "toolkit.cli.batches.live": {
        "toolkit.cli.terminal",
        "toolkit.fleets.engine",
        "toolkit.fleets.looking",
        "toolkit.report",
        "toolkit.runs.asking",
        "toolkit.runs.storage",
    },
    "toolkit.fleets.returns": {
        "toolkit.fleets.packs",
        "toolkit.fleets.parcels",
        "toolkit.fleets.store",
        "toolkit.runs",
        "toolkit.runs.outcome",
        "toolkit.runs.sessions",
        "toolkit.runs.storage",
        "toolkit_workspace",
        "toolkit_workspace.travelling",
    },
    "toolkit.fleets.purse": {"toolkit.fleets.store", "toolkit.runs", "toolkit.runs.many"},
    "toolkit._base.layered": set(),
    "toolkit_workspace.looking": {"toolkit._base.layered", "toolkit_workspace.record"},
    "toolkit_workspace.overlay": {"toolkit._base.layered", "toolkit_workspace.copying"},
    "toolkit_workspace.pristine": {
        "toolkit._base.layered",
        "toolkit_workspace",
        "toolkit_workspace.copying",
        "toolkit_workspace.looking",
        "toolkit_workspace.overlay",
        "toolkit_workspace.record",
        "toolkit_workspace.selecting",
    },
    "toolkit.fleets.journals": {
        "toolkit.fleets.claims",
        "toolkit.fleets.store",
        "toolkit.fleets.workers",
        "toolkit.runs.batches",
    },
    "toolkit.fleets.caller": {
        "toolkit.fleets.claims",
        "toolkit.fleets.engine",
        "toolkit.fleets.journals",
        "toolkit.fleets.packs",
        "toolkit.fleets.parcels",
        "toolkit.fleets.rate",
        "toolkit.fleets.returns",
        "toolkit.fleets.store",
        "toolkit.fleets.workers",
        "toolkit.runs",
        "toolkit.runs.batches",
        "toolkit.runs.outcome",
        "toolkit.runs.storage",
        "toolkit.sandbox",
        "toolkit.workspace",
    },
    "toolkit.fleets.check": {"toolkit", "toolkit.runs.storage", "toolkit.sandbox"},
    "toolkit.report.batches": {"toolkit.fleets.looking", "toolkit.report", "toolkit.runs.outcome"},
    "toolkit": set(),
    "toolkit.__main__": {"toolkit.cli"},
    "toolkit.servers": {"toolkit_servers"},
    "toolkit.workspace": {"toolkit_workspace"},
}

# The only steps upwards: Toolbox.in_process(), .server() and .read() import toolkit_servers when they are called, and
# RunResult.branch() the run as it is stored.
UPWARDS = {("toolkit/tools/toolbox.py", "toolkit_servers"), ("toolkit/runs/outcome/result.py", "toolkit.runs")}

MAY_IMPORT_MCP = {"toolkit_servers", "toolkit.runs", "toolkit.testing", "toolkit.cli"}
MAY_IMPORT_SDK = {"toolkit.runs", "toolkit.testing"}
SDK_DOOR = "servers/toolkit_servers/in_process.py"


@cache
def _modules() -> dict[str, Path]:
    """Every module of ours by its dotted name; a package stands for its `__init__`."""
    found = {}
    for package, folder in SOURCES.items():
        for file in sorted(folder.rglob("*.py")):
            if "project" not in file.relative_to(folder).parts:  # the demo's own project is data
                parts = [package, *file.relative_to(folder).with_suffix("").parts]
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def _is_door(module: str) -> bool:
    """Whether one may enter here: a folder's `__init__`, or a file directly in `toolkit`, which is a room of its own."""
    return _modules()[module].name == "__init__.py" or module.rpartition(".")[0] == "toolkit"


def _room(module: str) -> str:
    return module if _is_door(module) else module.rpartition(".")[0]


def _top(module: str) -> str:
    """The top room: `toolkit.runs`, `toolkit_workspace`."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "toolkit" else parts[0]


@cache
def _imports(file: Path) -> frozenset[str]:
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
            names.update(_imported(node.module, alias.name) for alias in node.names)
    return frozenset(names)


def _imported(module: str, name: str) -> str:
    """What `from module import name` reaches: a module inside it, or the module itself, which gives out the name."""
    inner = f"{module}.{name}"
    return inner if inner in _modules() and name not in _given_out(module) else module


@cache
def _given_out(door: str) -> frozenset[str]:
    """The names a door imports to hand them on, at once or on first use."""
    nodes = list(ast.walk(ast.parse(_modules()[door].read_text(encoding="utf-8"))))
    at_once = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    on_first_use = {name for node in nodes if isinstance(node, ast.Constant) for name in str(node.value).split()}
    return frozenset(at_once | on_first_use)


def _uses() -> list[tuple[str, str]]:
    """Every (module, module of ours it imports) from one room to another."""
    pairs = [(module, name) for module, file in _modules().items() for name in _imports(file) if name in _modules()]
    return [(user, used) for user, used in pairs if _room(user) != _room(used)]


def _place(module: str) -> str:
    return _modules()[module].relative_to(ROOT).as_posix()


def _is_upwards(user: str, used: str) -> bool:
    return (_place(user), _top(used)) in UPWARDS


def test_the_list_names_every_room_and_nothing_else() -> None:
    rooms = {_room(module) for module in _modules()} - FLOOR
    assert rooms == MAY_USE.keys()
    assert {used for allowed in MAY_USE.values() for used in allowed} <= rooms


@pytest.mark.parametrize("room", sorted(MAY_USE))
def test_a_room_uses_the_rooms_it_may_and_each_of_them(room: str) -> None:
    used = {_room(used) for user, used in _uses() if _room(user) == room and not _is_upwards(user, used)} - FLOOR
    assert used == MAY_USE[room]


def test_the_floor_uses_no_room() -> None:
    assert [(user, used) for user, used in _uses() if _room(user) in FLOOR and _room(used) not in FLOOR] == []


def test_no_two_neighbours_use_each_other() -> None:
    """A room and the rooms inside it are one house: the door hands on what they make, and they use its values."""
    pairs = [(a, b) for a, allowed in MAY_USE.items() for b in allowed if a in MAY_USE[b]]
    assert [(a, b) for a, b in pairs if not a.startswith(b + ".") and not b.startswith(a + ".")] == []


def test_another_top_room_is_entered_by_a_door() -> None:
    outside = [(user, used) for user, used in _uses() if _top(user) != _top(used) and not _is_upwards(user, used)]
    inner = [f"{_place(user)} imports {used}" for user, used in outside if not _is_door(used)]
    assert [line for line in inner if "toolkit._base." not in line] == []


def test_what_has_an_underscore_is_used_in_its_own_room_only() -> None:
    private = [
        f"{_place(user)} imports {used}"
        for user, used in _uses()
        if any(part.startswith("_") for part in used.split(".")) and not used.startswith("toolkit._base")
    ]
    assert private == []


def test_no_room_has_more_files_than_one_can_see_at_once() -> None:
    count = collections.Counter(file.parent.relative_to(ROOT).as_posix() for file in _modules().values())
    assert {room: files for room, files in count.items() if files > MOST_FILES} == {}


def test_no_two_classes_of_a_top_room_have_one_name() -> None:
    places: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for module, file in _modules().items():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[_top(module), node.name].append(_place(module))
    assert {key: files for key, files in places.items() if len(files) > 1} == {}


def test_only_the_rooms_that_need_them_import_mcp_and_the_sdk() -> None:
    wrong = []
    for module, file in _modules().items():
        tops = {name.partition(".")[0] for name in _imports(file)}
        if tops & {"mcp", "mcp_types"} and _top(module) not in MAY_IMPORT_MCP:
            wrong.append(f"{_place(module)} imports mcp")
        if "claude_agent_sdk" in tops and _top(module) not in MAY_IMPORT_SDK and _place(module) != SDK_DOOR:
            wrong.append(f"{_place(module)} imports claude_agent_sdk")
    assert wrong == []


@pytest.mark.parametrize(
    "code",
    [
        "import toolkit",
        "from toolkit import tool, Toolbox",
        "import sys; sys.argv = ['toolkit', '--help']\nimport toolkit.cli\ntry: toolkit.cli.main()\nexcept SystemExit: pass",
        "import toolkit.cli.starting.running, toolkit.cli.terminal.following",
    ],
    ids=["import toolkit", "from toolkit import tool", "toolkit --help", "toolkit run, until it runs"],
)
def test_a_cheap_start_loads_neither_mcp_nor_the_sdk(code: str) -> None:
    probe = code + "\nimport sys; print([m for m in ('mcp', 'mcp_types', 'claude_agent_sdk') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
