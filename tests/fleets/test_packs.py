"""A workspace travels: packed once by its content, unpacked on another machine, worked in as if it were here."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.errors import RunError, WorkspaceBudgetError, WorkspaceError, WorkspaceSecurityError
from toolkit.fleets.packs import Pack, pack, send_pack, unpack
from toolkit.fleets.parcels import ParcelError
from toolkit.fleets.store import FolderStore
from toolkit.workspace import HostMount, WorkspaceSection


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "host" / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("print('one')\n")
    (folder / "src" / "twin.py").write_text("print('one')\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("src/app.py")
    (folder / os.fsdecode(b"not-\xff-utf8")).write_bytes(b"\0\1")
    (folder / "build.log").write_text("noise")
    return folder


def _section(project: Path, **options: object) -> WorkspaceSection:
    return WorkspaceSection([HostMount(project, **options)], [project.parent])  # type: ignore[arg-type]


def _sent(section: WorkspaceSection, top: Path) -> tuple[Pack, FolderStore]:
    packed, store = pack(section, top / "packs"), FolderStore(top / "store")
    send_pack(packed, top / "packs", store)
    return packed, store


def test_what_a_worker_unpacks_is_what_preparing_here_would_have_copied(project: Path, tmp_path: Path) -> None:
    here = _section(project, exclude_glob="*.log")
    packed, store = _sent(here, tmp_path)
    with unpack(packed, store, temp=tmp_path) as arrived, arrived.section() as there, here:
        assert there.fingerprint() == here.fingerprint()
        assert there.places == here.places
        here.show_inside()
        there.show_inside()
        assert there.render() == here.render()
        assert not there.changes()
        (there.temp_dir / "project" / "src" / "app.py").write_text("print('two')\n")
        assert [change.path for change in there.changes()] == ["project/src/app.py"]


def test_the_same_content_is_the_same_pack_and_is_sent_once(project: Path, tmp_path: Path) -> None:
    first, store = _sent(_section(project), tmp_path)
    before = {name: store.read(name) for name in store.names("packs")}
    second, _ = _sent(_section(project), tmp_path)
    assert second == first
    assert {name: store.read(name) for name in store.names("packs")} == before
    (project / "src" / "app.py").write_text("print('other')\n")
    assert pack(_section(project), tmp_path / "packs").hash != first.hash


def test_a_machine_fetches_a_pack_once_for_all_its_workers(project: Path, tmp_path: Path) -> None:
    packed, store = _sent(_section(project), tmp_path)
    with unpack(packed, store, temp=tmp_path) as one:
        for name in store.names("packs"):
            store.remove(name)
        with unpack(packed, store, temp=tmp_path) as other:
            assert other.folder == one.folder


def test_git_works_on_a_worker_as_it_does_here(project: Path, tmp_path: Path) -> None:
    _git(project, "init", "-q", "-b", "main")
    _git(project, "add", "src", "build.log")
    _git(project, "-c", "user.name=o", "-c", "user.email=o@o", "commit", "-q", "-m", "first")
    packed, store = _sent(_section(project, exclude_glob="build.log"), tmp_path)
    with unpack(packed, store, temp=tmp_path) as arrived, arrived.section() as there:
        copy = there.temp_dir / "project"
        assert _git(copy, "log", "--format=%s") == "first\n"
        assert "build.log" not in _git(copy, "status", "--short")  # left out on purpose, so not deleted
        assert _git(copy, "fsck", "--strict") == ""


def test_a_workspace_over_its_budget_is_not_sent(project: Path, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceBudgetError):
        pack(_section(project, max_bytes=5), tmp_path / "packs")
    with pytest.raises(WorkspaceBudgetError, match="more than the 20 B that can be sent"):
        pack(_section(project), tmp_path / "packs", most_bytes=20)
    assert list((tmp_path / "packs").iterdir()) == []


def test_nothing_outside_of_the_allowed_roots_is_packed(project: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the secret")
    (project / "out").symlink_to(tmp_path / "secret")
    packed, store = _sent(_section(project, follow_symlinks=True), tmp_path)
    with unpack(packed, store, temp=tmp_path) as arrived:
        assert not any(path.name == "out" for path in arrived.folder.rglob("*"))
    with pytest.raises(WorkspaceSecurityError):
        pack(WorkspaceSection([HostMount(tmp_path / "secret")], [project]), tmp_path / "packs")


def test_what_is_lent_is_found_on_the_worker_or_refused_by_its_name(project: Path, tmp_path: Path) -> None:
    (project / "data").mkdir()
    (project / "data" / "large").write_text("large")
    packed, store = _sent(_section(project, lend="data"), tmp_path)
    with unpack(packed, store, temp=tmp_path) as arrived:
        with arrived.section() as there:
            assert not (there.temp_dir / "project" / "data" / "large").exists()
            assert (str(project / "data"), str(project / "data")) in there.shown.lent
        (project / "data").rename(tmp_path / "elsewhere")
        with pytest.raises(WorkspaceError, match="not on this machine") as caught:
            arrived.section()
        assert caught.value.where == (str(project / "data"),)
        arrived.section(makes_lent=True)  # a setup makes it


def test_a_virtual_environment_of_the_project_is_lent_and_not_packed(project: Path, tmp_path: Path) -> None:
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (project / ".venv" / "bin" / "python").symlink_to("/usr/bin/python3")
    packed, store = _sent(_section(project), tmp_path)
    (project / ".venv").rename(tmp_path / "elsewhere")
    with unpack(packed, store, temp=tmp_path) as arrived, pytest.raises(WorkspaceError) as caught:
        arrived.section()
    assert caught.value.where == (str(project / ".venv"),)


@pytest.mark.parametrize("damage", ["cut", "changed", "swapped", "missing", "manifest"])
def test_a_damaged_pack_is_refused_and_leaves_nothing(project: Path, tmp_path: Path, damage: str) -> None:
    packed, store = _sent(_section(project), tmp_path)
    other, _ = _sent(WorkspaceSection([HostMount(project / "src")], [project]), tmp_path)
    block = tmp_path / "store" / packed.name / "block-000000"
    if damage == "cut":
        block.write_bytes(block.read_bytes()[:-1])
    elif damage == "changed":
        block.write_bytes(bytes([block.read_bytes()[0] ^ 1]) + block.read_bytes()[1:])
    elif damage == "swapped":
        block.write_bytes((tmp_path / "store" / other.name / "block-000000").read_bytes())
    elif damage == "missing":
        block.unlink()
    else:
        block.with_name("manifest").write_bytes((tmp_path / "store" / other.name / "manifest").read_bytes())
    with pytest.raises(ParcelError):
        unpack(packed, store, temp=tmp_path)
    assert [one.name for one in tmp_path.glob("toolkit-packs-*/*")] == [f"{packed.hash}.lock"]


def test_a_folder_of_packs_that_somebody_else_made_is_refused(project: Path, tmp_path: Path) -> None:
    packed, store = _sent(_section(project), tmp_path)
    (tmp_path / f"toolkit-packs-{os.geteuid()}").mkdir(mode=0o755)
    with pytest.raises(RunError, match="not this user's own"):
        unpack(packed, store, temp=tmp_path)


FULL = """
import pickle, sys
from pathlib import Path
from toolkit.errors import RunError
from toolkit.fleets.packs import unpack
from toolkit.fleets.store import FolderStore
top = Path(sys.argv[1])
try:
    unpack(pickle.loads((top / "pack").read_bytes()), FolderStore(top / "store"), temp=top / "small")
except RunError as error:
    print(error.what, *error.where, error.fix, sep="|")
print(*(one.name for one in (top / "small").rglob("*")), sep="|")
"""


@pytest.mark.parametrize("limit", ["size=256k", "nr_inodes=12"])
def test_a_full_disk_on_a_worker_is_named_and_nothing_is_left(project: Path, tmp_path: Path, limit: str) -> None:
    (project / "large").write_bytes(os.urandom(1 << 20) if limit.startswith("size") else b"")
    for number in range(30):
        (project / f"f{number}").write_text(str(number))
    packed, _ = _sent(_section(project), tmp_path)
    (tmp_path / "pack").write_bytes(pickle.dumps(packed))
    (tmp_path / "small").mkdir()
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    mount = f'mount -t tmpfs -o {limit} tmpfs "$1/small" && exec "$2" -c "$3" "$1"'
    words = ["unshare", *user, "--mount", "sh", "-c", mount, "sh", str(tmp_path), sys.executable, FULL]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2])
    said, left = done.stdout.splitlines()
    assert "No space left on device" in said, done.stderr
    assert "are needed" in said
    assert "TMPDIR" in said
    assert sorted(left.split("|")) == sorted(["toolkit-packs-0", f"{packed.hash}.lock"])


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout
