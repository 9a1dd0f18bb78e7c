"""Several targets in one server, a server from a file, and a server by its URL in a client's configuration."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.serving._client import BOUND, SERVE, Served
from toolkit.cli.serve.config import read_config
from toolkit.errors import ToolkitError
from toolkit_servers.clients import CLIENTS, RemoteServer, write_server
from toolkit_servers.target import load_targets

ONE = "from toolkit import tool\n@tool\ndef search(text: str) -> str:\n    'One.'\n    return 'one'\n@tool\ndef only_here() -> str:\n    'Here.'\n    return 'here'\n"
TWO = ONE.replace("one", "two").replace("only_here", "only_there")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "one.py").write_text(ONE, encoding="utf-8")
    (tmp_path / "two.py").write_text(TWO, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_only_names_that_clash_get_their_targets_name_in_front(folder: Path) -> None:
    box = load_targets(["one.py", "two.py", "planning"]).toolbox
    assert {"one_search", "two_search", "only_here", "only_there"} <= set(box.tools)
    assert "search" not in box.tools
    assert [(await box.call(name, {"text": "x"})).text for name in ("one_search", "two_search")] == ["one", "two"]
    assert [entry["name"] for entry in box.listing()][:2] == ["one_search", "only_here"]


OFFERS = """from typing import Literal
from toolkit import prompt, resource
@resource("one://{id}")
def note(id: Literal["a", "b"]) -> str:
    'A note.'
    return "one " + id
@prompt
def ask(style: Literal["short", "long"]) -> str:
    'Ask.'
    return "one " + style
"""


async def test_resources_and_prompts_that_clash_are_named_apart_too(folder: Path) -> None:
    (folder / "one.py").write_text(OFFERS, encoding="utf-8")
    (folder / "two.py").write_text(OFFERS.replace("one", "two"), encoding="utf-8")
    box = load_targets(["one.py", "two.py"]).toolbox
    assert {each.name for each in box.resources.values()} == {"one_note", "two_note"}
    assert [(await box.read(f"{each}://a")).text for each in ("one", "two")] == ["one a", "two a"]
    assert [(await box.get_prompt(f"{each}_ask", {"style": "long"})).text for each in ("one", "two")] == [
        "one long",
        "two long",
    ]


def test_one_address_in_two_targets_is_refused_with_both_places(folder: Path) -> None:
    for name in ("one.py", "two.py"):
        (folder / name).write_text(OFFERS, encoding="utf-8")
    with pytest.raises(ToolkitError) as caught:
        load_targets(["one.py", "two.py"])
    assert "one://{id}" in caught.value.what
    assert ["one.py" in caught.value.where[0], "two.py" in caught.value.where[1]] == [True, True]
    assert caught.value.fix is not None
    assert "Toolbox" not in caught.value.fix


STATE = """from shared import SEEN
from toolkit import Toolbox, tool
@tool
def put() -> int:
    'Put one.'
    SEEN.append(1)
    return len(SEEN)
@tool
def look() -> int:
    'How many.'
    return len(SEEN)
puts, looks = Toolbox("puts", [put]), Toolbox("looks", [look])
"""


@pytest.mark.parametrize("second", ["one.py:looks", "two.py:looks", "two:looks", "nested/three.py:looks"])
async def test_targets_are_one_program_what_they_import_is_there_once(folder: Path, second: str) -> None:
    (folder / "nested").mkdir()
    (folder / "shared.py").write_text("SEEN = []\n", encoding="utf-8")
    for name in ("one.py", "two.py", "nested/three.py"):
        (folder / name).write_text(STATE, encoding="utf-8")
    for _ in range(2):  # and loaded again, anew
        box = load_targets(["one.py:puts", second]).toolbox
        assert [(await box.call(name, {})).text for name in ("put", "put", "look")] == ["1", "2", "2"]


@pytest.mark.parametrize("order", [("north", "south"), ("south", "north"), ("north", "north/inside")])
async def test_each_target_imports_the_neighbours_of_its_own_folder(folder: Path, order: tuple[str, str]) -> None:
    for place in order:
        (folder / place / "pack").mkdir(parents=True)
        (folder / place / "neighbour.py").write_text(f"from pack.part import NAME\nNAME = NAME + '{place}'\n", "utf-8")
        (folder / place / "pack" / "__init__.py").touch()
        (folder / place / "pack" / "part.py").write_text("NAME = 'in '\n", encoding="utf-8")
        tools = f"import neighbour\nfrom toolkit import tool\n@tool\ndef {Path(place).name}() -> str:\n    'Where.'\n    return neighbour.NAME\n"
        (folder / place / f"tools_{Path(place).name}.py").write_text(tools, encoding="utf-8")
    for _ in range(2):
        box = load_targets([f"{place}/tools_{Path(place).name}.py" for place in order]).toolbox
        assert [(await box.call(Path(place).name, {})).text for place in order] == [f"in {place}" for place in order]


def test_two_targets_are_served_over_stdio(folder: Path) -> None:
    with Served(folder, ONE.partition("\n")[2], options=["two.py"]) as served:
        served.initialize()
        names = {tool["name"] for tool in served.request("tools/list")["tools"]}
        assert names == {"two_search", "served_tools_search", "only_here", "only_there"}
        assert served.call("two_search", text="x") == "two"


def test_one_target_twice_is_refused(folder: Path) -> None:
    done = subprocess.run([*SERVE, "--check", "one.py", "one.py"], capture_output=True, text=True, timeout=BOUND)
    assert done.returncode != 0
    assert "two tools would be called 'one_search'" in done.stderr


def test_no_target_is_a_usage_error(folder: Path) -> None:
    done = subprocess.run(SERVE, capture_output=True, text=True, timeout=BOUND)
    assert done.returncode == 2
    assert "name a TARGET" in done.stderr


def test_a_server_is_read_from_a_file(folder: Path) -> None:
    (folder / "servers.toml").write_text('targets = ["one.py", "two.py"]\nname = "both"\n', encoding="utf-8")
    argv = [*SERVE, "--check", "--config", str(folder / "servers.toml")]
    done = subprocess.run(argv, cwd="/", capture_output=True, text=True, timeout=BOUND)
    assert (done.returncode, done.stdout) == (0, "both: 4 tools, no problems\n"), done.stderr


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ('target = ["one.py"]\n', 1, "'target' is not known; did you mean 'targets'?"),
        ('targets = ["a.py"]\n\n[http]\nprot = 8000\n', 4, "'prot' is not known in [http]; did you mean 'port'?"),
        ('targets = ["a.py"]\n[http]\nport = 99999\n', 3, "'port': 99999 is not in the range 0<=x<=65535."),
        ('targets = ["a.py"]\n[http]\nno_auth = "yes"\n', 3, "'no_auth' is 'yes'"),
        ('targets = ["a.py"]\n[http]\nlog_format = "xml"\n', 3, "'log_format' is 'xml'"),
        ('targets = ["a.py"]\n[http]\n[limits]\nmax_body = "much"\n', 4, "'max_body'"),
        ('targets = ["a.py"]\n[limits]\nmax_body = 5\n', 2, "limits are for HTTP"),
        ("targets = 5\n", 1, "'targets' is not a list of texts"),
        ('targets = ["a.py"]\nhttp = true\n', 2, "'http' is not a table"),
        ('targets = ["a.py"\n[http]\n', 2, "the configuration is not TOML"),
    ],
)
def test_what_is_wrong_in_the_file_is_said_with_its_line(tmp_path: Path, text: str, line: int, what: str) -> None:
    file = tmp_path / "servers.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ToolkitError) as caught:
        read_config(file)
    assert what in caught.value.what
    assert caught.value.where[0].startswith(f"{file}:{line}")


@pytest.mark.parametrize(("client", "value"), [("claude-code", "${T}"), ("cursor", "${env:T}"), ("vscode", "${env:T}")])
def test_a_server_by_its_url_names_the_variable_of_its_token(tmp_path: Path, client: str, value: str) -> None:
    server = RemoteServer.of("https://tools.example/mcp", "team", "T")
    for changed in (True, False):
        assert write_server(server, CLIENTS[client], tmp_path / "mcp.json").changed is changed
    entry = json.loads((tmp_path / "mcp.json").read_text(encoding="utf-8"))[CLIENTS[client].key]["team"]
    assert entry["url"] == "https://tools.example/mcp"
    assert entry["headers"] == {"Authorization": f"Bearer {value}"}


@pytest.mark.parametrize(
    ("url", "variable"),
    [("tools.example", None), ("https://a:b@tools.example", None), ("https://x.example", "s3-cret!")],
)
def test_a_url_or_a_variable_that_is_none_is_refused(url: str, variable: str | None) -> None:
    with pytest.raises(ToolkitError) as caught:
        RemoteServer.of(url, token_variable=variable)
    assert "s3-cret" not in str(caught.value)
