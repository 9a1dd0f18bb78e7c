"""What an agent, a kill, or another git can do to a delivery: nothing half, nothing planted, nobody else's files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.workspace.hostile import a_place, run_as
from tests.workspace.repositories import delivery, everything, git, prepared, repository, trusting_packer
from toolkit.errors import WorkspaceConflictError, WorkspaceError, WorkspaceSecurityError
from toolkit.workspace import HostMount, WorkspaceSection
from toolkit_workspace.quarantine import landing


def raw_tree(copy: Path, *entries: tuple[bytes, bytes, str]) -> str:
    """A tree that git itself would never write."""
    data = b"".join(b"%b %b\0%b" % (mode, name, bytes.fromhex(oid)) for mode, name, oid in entries)
    return git(copy, "hash-object", "-t", "tree", "--literally", "-w", "--stdin", data=data)


def plant_commit(copy: Path, tree: str) -> None:
    """Make a tree the last commit of a copy."""
    commit = git(copy, "commit-tree", tree, "-p", "HEAD", "-m", "planted")
    (copy / ".git/refs/heads/main").write_text(commit + "\n")


@pytest.mark.parametrize(
    "kind", ["dot-git", "dot-git-in-capitals", "dots", "twice", "slash", "not-sorted", "no-such-blob"]
)
def test_a_pack_with_a_tree_that_git_would_not_write_is_refused(tmp_path: Path, kind: str) -> None:
    repo = repository(tmp_path / "repo")
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    blob = git(copy, "hash-object", "-w", "--stdin", data=b"[core]\n\tfsmonitor = touch /tmp/x\n")
    inner = raw_tree(copy, (b"100644", b"config", blob))
    trees: dict[str, list[tuple[bytes, bytes, str]]] = {
        "dot-git": [(b"40000", b".git", inner)],
        "dot-git-in-capitals": [(b"40000", b".GIT", inner)],
        "dots": [(b"40000", b"..", inner)],
        "twice": [(b"100644", b"a", blob), (b"100644", b"a", blob)],
        "slash": [(b"100644", b"a/b", blob)],
        "not-sorted": [(b"100644", b"b", blob), (b"100644", b"a", blob)],
        "no-such-blob": [(b"100644", b"a", "12" * 20)],
    }
    plant_commit(copy, raw_tree(copy, *trees[kind]))
    before = everything(repo)
    with pytest.raises((WorkspaceSecurityError, subprocess.CalledProcessError)):
        ws.deliver(delivery(), trusting_packer(ws))
    assert everything(repo) == before
    assert git(repo, "branch", "--list") == "* main"


@pytest.mark.parametrize(
    "data", [b"", b"PACK", b"PACK\0\0\0\2\0\0\0\1junk", b"\0" * 5000], ids=["nothing", "cut", "junk", "zeros"]
)
def test_what_is_no_pack_is_refused(tmp_path: Path, data: bytes) -> None:
    repo = repository(tmp_path / "repo")
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "x").write_bytes(b"x\n")
    git(copy, "add", "-A")
    git(copy, "commit", "-qm", "x")

    def write(origin: Any, tip: str, base: str | None, into: int) -> None:
        os.write(into, data)

    with pytest.raises(WorkspaceSecurityError) as caught:
        ws.deliver(delivery(), write)
    assert "--squash" in caught.value.fix
    assert git(repo, "branch", "--list") == "* main"
    assert not list(ws.state_dir.glob("delivering-*"))


def test_a_git_folder_that_leads_elsewhere_or_is_gone(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "x").write_bytes(b"x\n")
    head = copy / ".git/HEAD"
    head.unlink()
    head.symlink_to("/etc/passwd")
    with pytest.raises(WorkspaceSecurityError):
        ws.deliver(delivery(), trusting_packer(ws))
    shutil.rmtree(copy / ".git")
    made = ws.deliver(delivery(), trusting_packer(ws)).branches[0]
    assert made.commits == 1


def test_odd_names_are_files_like_others(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    ws = prepared(repo)
    copy = os.fsencode(ws.temp_dir / "repo")
    names = [b"-rf", b"--help", b"new\nline", b"tab\t", b"\xff\xfe", b":(top)x", b"*", b'q"uote', b"back\\slash", b" "]
    for name in names:
        with open(copy + b"/" + name, "wb") as file:  # noqa: PTH123 - a name of bytes
            file.write(name)
    ws.deliver(delivery())
    listed = os.fsencode(git(repo, "ls-tree", "-r", "-z", "--name-only", "agent/x")).split(b"\0")
    assert set(names) <= set(listed)
    assert "error" not in git(repo, "fsck", "--strict", "--no-dangling")


KILLED = """
import os, signal, subprocess, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
from tests.workspace.hostile import a_place, run_as
from tests.workspace.repositories import delivery, trusting_packer
from toolkit.workspace import WorkspaceSection

point, when, count = int(sys.argv[3]), sys.argv[4], [0]
start = subprocess.Popen.__init__

def counted(self, *args, **options):
    count[0] += 1
    if count[0] == point and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    start(self, *args, **options)
    if count[0] == point and when == "after":
        os.kill(os.getpid(), signal.SIGKILL)

section = WorkspaceSection.open(sys.argv[2])
subprocess.Popen.__init__ = counted
section.deliver(delivery(force=True), trusting_packer(section))
print("through", count[0])
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_step_leaves_the_whole_branch_or_none(tmp_path: Path, when: str) -> None:
    repo = repository(tmp_path / "repo")
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "x").write_bytes(b"x\n")
    git(copy, "add", "-A")
    git(copy, "commit", "-qm", "x")
    (copy / "rest").write_bytes(b"rest\n")
    place = ws.temp_dir
    ws.release()
    before = everything(repo)
    root = Path(__file__).parents[2]
    path = os.pathsep.join(str(root / part) for part in ("", "workspace", "servers"))
    point, said = 0, ""
    while not said:
        point += 3  # every third of them, and the last ones all: those write to the host
        words = [sys.executable, "-c", KILLED, path, str(place), str(point), when]
        done = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=60, check=False)
        said = done.stdout
        assert done.returncode in (0, -9), done.stderr
        assert everything(repo) == before
        check_whole(repo)
    last = int(said.split()[1])
    assert last > 10
    for point in range(last - 4, last + 1):
        git(repo, "branch", "-D", "agent/x", fails=True)
        before = everything(repo)
        words = [sys.executable, "-c", KILLED, path, str(place), str(point), when]
        subprocess.run(words, cwd=root, capture_output=True, timeout=60, check=False)
        assert everything(repo) == before
        check_whole(repo)
    with WorkspaceSection.open(place) as again:
        again.deliver(delivery(force=True), trusting_packer(again))
        assert not list(again.state_dir.glob("delivering-*"))
    check_whole(repo)


def check_whole(repo: Path) -> None:
    """The branch is not there, or all of it is."""
    assert "error" not in git(repo, "fsck", "--strict", "--no-dangling")
    if git(repo, "branch", "--list", "agent/x"):
        assert git(repo, "log", "--format=%s", "main..agent/x").splitlines() == ["Do it", "x"]
        assert git(repo, "show", "agent/x:rest") == "rest"


def test_a_branch_that_somebody_else_makes_meanwhile_stays_theirs(tmp_path: Path, monkeypatch: Any) -> None:
    repo = repository(tmp_path / "repo")
    ws = prepared(repo)
    (ws.temp_dir / "repo/x").write_bytes(b"x\n")
    copying = landing._copy_objects

    def meanwhile(*arguments: Any) -> None:
        copying(*arguments)
        git(repo, "branch", "agent/x", "main")

    monkeypatch.setattr(landing, "_copy_objects", meanwhile)
    with pytest.raises(WorkspaceConflictError):
        ws.deliver(delivery())
    assert git(repo, "rev-parse", "agent/x") == git(repo, "rev-parse", "main")


def test_the_hosts_own_git_works_while_branches_are_made(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    ws = prepared(repo)
    (ws.temp_dir / "repo/x").write_bytes(b"x\n")
    over = threading.Event()
    failures: list[str] = []

    def busy() -> None:
        number = 0
        while not over.is_set():
            number += 1
            (repo / f"own{number}").write_text(f"{number}\n")
            try:
                git(repo, "add", "-A")
                git(repo, "commit", "-qm", f"own {number}")
                git(repo, "gc", "-q")
            except AssertionError as error:
                failures.append(str(error))

    worker = threading.Thread(target=busy)
    worker.start()
    try:
        for number in range(6):
            ws.deliver(delivery(f"agent/{number}"))
    finally:
        over.set()
        worker.join(60)
    assert failures == []
    assert "error" not in git(repo, "fsck", "--strict", "--no-dangling")
    assert len(git(repo, "branch", "--list", "agent/*").splitlines()) == 6


@pytest.mark.skipif(os.geteuid() != 0, reason="only root works on other people's repositories")
def test_what_root_delivers_belongs_to_the_repositorys_owner() -> None:
    # Not below pytest's own folder, which is closed to others whenever a session begins.
    with tempfile.TemporaryDirectory(prefix="theirs-") as top:
        Path(top).chmod(0o755)
        repo = repository(Path(top, "repo"))
        for where, folders, names in os.walk(repo):
            for path in [where, *(os.path.join(where, name) for name in [*folders, *names])]:  # noqa: PTH118
                os.lchown(path, 1000, 1000)
        ws = prepared(repo)
        (ws.temp_dir / "repo/x").write_bytes(b"x\n")
        ws.deliver(delivery())
        git_files = [path.lstat() for path in (repo / ".git").rglob("*")]
        strangers = [found for found in git_files if (found.st_uid, found.st_gid) != (1000, 1000)]
    assert git_files
    assert strangers == []


def test_a_repository_that_may_not_be_written_is_said_and_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_place(plain=True) as place:
        monkeypatch.setenv("TMPDIR", str(place.top))
        monkeypatch.setattr(tempfile, "tempdir", None)

        def deliver() -> None:
            repo = repository(place.top / "repo")
            ws = prepared(repo)
            (ws.temp_dir / "repo/x").write_bytes(b"x\n")
            (repo / ".git/objects/pack").chmod(0o500)
            with pytest.raises(WorkspaceError, match="cannot be written"):
                ws.deliver(delivery())
            assert git(repo, "branch", "--list") == "* main"

        run_as(True, deliver)  # root may write everywhere


def test_what_was_applied_is_not_delivered_again(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    ws = prepared(repo)
    (ws.temp_dir / "repo/one").write_bytes(b"1\n")
    (ws.temp_dir / "repo/two").write_bytes(b"2\n")
    ws.apply(paths=["repo/one"])
    ws.deliver(delivery())
    assert git(repo, "diff", "--name-only", "main", "agent/x") == "two"
    ws.apply()
    with pytest.raises(WorkspaceError, match="nothing to deliver"):
        ws.deliver(delivery("agent/again"))


def test_a_commit_that_is_no_longer_there_is_said(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (repo / "more").write_bytes(b"m\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "more")
    ws = WorkspaceSection([HostMount(repo)], [tmp_path], parent=tmp_path).prepare()
    (ws.temp_dir / "repo/x").write_bytes(b"x\n")
    git(repo, "reset", "-q", "--hard", "HEAD~1")
    git(repo, "reflog", "expire", "--expire=now", "--all")
    git(repo, "gc", "-q", "--prune=now")
    with pytest.raises(WorkspaceError, match="no longer in the repository"):
        ws.deliver(delivery())
    assert json.dumps([one.to_json() for one in ws.shown.origins])


def test_what_is_protected_is_changed_by_no_commit_either(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", files={"tests/test_a.py": b"assert real\n", "a.py": b"a\n"})
    ws = prepared(repo)
    copy = ws.temp_dir / "repo"
    (copy / "a.py").write_bytes(b"b\n")
    blob = git(copy, "hash-object", "-w", "--stdin", data=b"assert True\n")
    git(copy, "update-index", "--cacheinfo", f"100644,{blob},tests/test_a.py")
    git(copy, "add", "a.py")
    git(copy, "commit", "-qm", "Pass")
    made = ws.deliver(delivery(protected=["tests/"]), trusting_packer(ws))
    assert git(repo, "log", "--format=%s", "--name-only", "main..agent/x").split() == ["Pass", "a.py"]
    assert dict(made.left)["repo/tests/test_a.py"].startswith("it is protected")
    ws.deliver(delivery("agent/open"), trusting_packer(ws))
    assert git(repo, "show", "agent/open:tests/test_a.py") == "assert real"
