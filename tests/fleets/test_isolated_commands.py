"""A run from a worker whose file system shares nothing with the caller, in the hands of the commands about runs.

The worker is a process with mounts, home and temp folder of its own; only the store's folder is in both, elsewhere.
It does the run with the real CLI in a real jail.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleets.travelled import Fleet
from tests.sandbox.jails import needs_jail
from toolkit.fleets.returns import Brought
from toolkit.testing import ScriptedAPI, text, tool_use
from toolkit.workspace import HostMount, WorkspaceSection

pytestmark = needs_jail
ROOT = Path(__file__).parents[2]
APART = """
set -e
hidden=$1; store=$2; shift 2
mount --bind "$store" /mnt
mount -t tmpfs -o mode=0755 tmpfs "$hidden"
mount -t tmpfs -o mode=0755 tmpfs /var/tmp
mkdir /var/tmp/home
[ "$(id -u)" = 0 ] || set -- setpriv --ambient-caps=-all --inh-caps=-all "$@"  # bubblewrap wants none from a user
exec "$@"
"""
WORKER = """
import asyncio, pickle, sys
from pathlib import Path
from toolkit.fleets.packs import unpack
from toolkit.fleets.returns import bring
from toolkit.fleets.store import FolderStore
from toolkit.runs import load_run, run

async def main(project, url):
    assert not Path(project).parent.exists(), "the caller's folder is here"
    store = FolderStore("/mnt/records")
    pack = pickle.loads(Path("/mnt/pack").read_bytes())
    with unpack(pack, store) as arrived:
        assert arrived.folder.is_relative_to("/var/tmp")
        result = await run("Work.", workspace=arrived.section(), api_url=url, api_key="k", run_id="away")
        assert result.ok, (result.code, result.cause, result.debug)
        Path("/mnt/brought").write_bytes(pickle.dumps(bring(load_run("away"), store, pack=pack.hash)))

asyncio.run(main(*sys.argv[1:]))
"""
COMMANDS = (
    "sed -i s/old/new/ app.py && git config user.name a && git config user.email a@a && "
    "git commit -qam 'By the agent.' && echo more > more.txt"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "host" / "project"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text("old = 1\n", encoding="utf-8")
    _git(folder, "init", "-q", "-b", "main")
    _git(folder, "add", "-A")
    _git(folder, "-c", "user.name=o", "-c", "user.email=o@o", "commit", "-q", "-m", "First.")
    return folder


def test_every_command_about_runs_works_on_a_run_that_came_back(project: Path, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    shared = tmp_path / "store"
    shared.mkdir()
    fleet.store.folder = shared / "records"
    packed = fleet.packed(WorkspaceSection([HostMount(project)], [project.parent]))
    (shared / "pack").write_bytes(pickle.dumps(packed.pack))
    with ScriptedAPI([tool_use("Bash", command=COMMANDS)], [text("Done.")]) as api:
        _on_a_worker(tmp_path, shared, str(project), api.url)
    brought = pickle.loads((shared / "brought").read_bytes())
    assert isinstance(brought, Brought)
    back = fleet.take_in(brought, packed)
    assert (back.result().text, back.result().cost is not None) == ("Done.", True)
    home = tmp_path / "caller"
    assert "away" in _toolkit(home, "runs", "list")
    shown = _toolkit(home, "runs", "show", "away")
    assert "Work." in shown
    assert str(project) in shown
    assert b"+new = 1" in _toolkit(home, "runs", "diff", "away").encode()
    _toolkit(home, "report", "away", "-o", str(tmp_path / "report.html"))
    assert "new = 1" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '"stream":"tool"' in _toolkit(home, "runs", "events", "away", "--json")
    _toolkit(home, "runs", "branch", "away", "--name", "work")
    assert _git(project, "log", "--format=%s", "main..work").splitlines()[-1] == "By the agent."
    assert _git(project, "show", "work:more.txt") == "more\n"
    assert (project / "app.py").read_text(encoding="utf-8") == "old = 1\n"
    _toolkit(home, "runs", "apply", "away")
    assert (project / "app.py").read_text(encoding="utf-8") == "new = 1\n"
    assert (project / "more.txt").exists()
    told = json.loads(_toolkit(home, "runs", "show", "away", "--json"))
    assert told["run"] == "away"


def _on_a_worker(hidden: Path, store: Path, *arguments: str) -> None:
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    apart = ["unshare", *user, "--mount", "--propagation", "private", "sh", "-c", APART, "sh", str(hidden), str(store)]
    env = {
        "HOME": "/var/tmp/home",
        "TMPDIR": "/var/tmp",
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path])),
    }
    done = subprocess.run(
        [*apart, sys.executable, "-c", WORKER, *arguments],
        cwd="/",
        env=env,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr


def _toolkit(home: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "toolkit", *words],
        env={**os.environ, "TOOLKIT_HOME": str(home)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout
