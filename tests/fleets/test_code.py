"""Tools travel by the name of their module, or as files that are packed."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleets.conftest import Processes
from tests.sandbox.jails import needs_jail
from toolkit.errors import RunError, TargetError
from toolkit.fleets.packs import load_code, pack_code, send_pack
from toolkit.fleets.store import FolderStore
from toolkit.testing import Request, ScriptedAPI, Turn, text, tool_use
from toolkit_servers.target import load_target

NOTES = """
from toolkit import tool
from helper_of_notes import greeting

@tool
def hello(name: str) -> str:
    '''Greet.'''
    return f"{greeting()} {name}"
"""

WORKER = """
import pickle, sys
from pathlib import Path
from toolkit.fleets.packs import load_code
from toolkit.fleets.store import FolderStore
top = Path(sys.argv[1])
load_code(pickle.loads((top / "pack").read_bytes()), FolderStore(top / "store"), temp=top / "temp")
box = pickle.loads((top / "box").read_bytes())
print(box.tools["hello"](name="you"))
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "notes.py").write_text(NOTES)
    (folder / "helper_of_notes.py").write_text("def greeting():\n    return 'hello'\n")
    return folder


def _sent(files: list[Path], top: Path) -> None:
    made = pack_code(files, top / "packs")
    send_pack(made, top / "packs", FolderStore(top / "store"))
    (top / "pack").write_bytes(pickle.dumps(made))
    (top / "temp").mkdir(exist_ok=True)


def _on_a_worker(top: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WORKER, str(top)], capture_output=True, text=True, timeout=120, cwd="/"
    )


def test_a_file_of_tools_is_sent_with_what_it_imports(tools: Path, tmp_path: Path) -> None:
    (tmp_path / "box").write_bytes(pickle.dumps(load_target(str(tools / "notes.py")).toolbox))
    _sent([tools / "notes.py", tools / "helper_of_notes.py"], tmp_path)
    tools.rename(tmp_path / "gone")  # the worker has no such folder
    done = _on_a_worker(tmp_path)
    assert done.stdout == "hello you\n", done.stderr


def test_a_package_is_sent_whole(tmp_path: Path) -> None:
    package = tmp_path / "code" / "my_sent_tools"
    (package / "sub").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "sub" / "__init__.py").write_text("WORD = 'hello'\n")
    (package / "main.py").write_text(
        NOTES.replace("from helper_of_notes import greeting", "from .sub import WORD").replace("greeting()", "WORD")
    )
    (tmp_path / "box").write_bytes(pickle.dumps(load_target(str(package / "main.py")).toolbox))
    _sent([package], tmp_path)
    package.rename(tmp_path / "gone")
    done = _on_a_worker(tmp_path)
    assert done.stdout == "hello you\n", done.stderr


@needs_jail
@pytest.mark.filterwarnings("default")
async def test_a_batch_on_workers_that_do_not_have_the_tools_sends_them(
    tools: Path, tmp_path: Path, toolkit_home: Path
) -> None:
    def model(request: Request) -> Turn:
        if request.tool_results():
            return Turn([text("Done.")])
        return Turn([tool_use("mcp__notes__hello", name="you")])

    (tmp_path / "tasks.jsonl").write_text('{"id": "a", "prompt": "Greet."}\n')
    with ScriptedAPI(otherwise=model, strict=False) as api:
        processes = Processes(tmp_path, {"ANTHROPIC_API_KEY": "of-the-worker"})
        try:
            processes.scheduler()
            processes.worker("w1", hides=tmp_path)
            words = ["batch", str(tmp_path / "tasks.jsonl"), "--cluster", processes.address, "--api-url", api.url]
            words += ["--tools", str(tools / "notes.py"), "--mode", "yolo"]
            sent = ["--with", str(tools / "notes.py"), "--with", str(tools / "helper_of_notes.py")]
            without = await asyncio.to_thread(_toolkit, toolkit_home, *words, "--name", "without")
            assert "workers do not have the files of these tools" in without.stderr, without
            assert f"--with {tools / 'notes.py'}" in without.stderr
            assert not api.requests
            done = await asyncio.to_thread(_toolkit, toolkit_home, *words, *sent)
            assert done.returncode == 0, (done.stdout, done.stderr, processes.log("w1"))
        finally:
            processes.close()
        assert api.tool_results()[-1] == "hello you"


def _toolkit(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "toolkit", *words],
        env={**os.environ, "TOOLKIT_HOME": str(home)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=200,
    )


def test_what_is_missing_on_the_worker_is_named(tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    _sent([tools / "notes.py"], tmp_path)
    tools.rename(tmp_path / "gone")
    sys.modules.pop("helper_of_notes", None)
    made = pickle.loads((tmp_path / "pack").read_bytes())
    with pytest.raises(TargetError, match=r"notes\.py cannot be imported on this machine: ModuleNotFoundError"):
        load_code(made, FolderStore(tmp_path / "store"), temp=tmp_path / "temp")


def test_what_is_no_code_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1")
    for given in (tmp_path / "data.csv", tmp_path / "none.py", tmp_path):
        with pytest.raises(RunError, match="is no Python file and no package"):
            pack_code([given], tmp_path / "packs")
