"""The copy of a repository has a git of its own, and the host's is only read."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.errors import WorkspaceError, WorkspaceSecurityError
from toolkit.workspace import HostMount, WorkspaceSection

_ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    **{f"GIT_{who}_{what}": "someone@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(folder: Path, *arguments: str, fails: bool = False) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=_ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert fails or done.returncode == 0, (arguments, done.stderr)
    return done.stdout


def make_repository(folder: Path, *init: str) -> Path:
    """A repository with two commits, three branches, a tag, and a stash."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main", *init)
    (folder / "app.py").write_text("print('one')\n")
    (folder / "lib").mkdir()
    (folder / "lib/code.py").write_text("a = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    git(folder, "branch", "other")
    git(folder, "tag", "-a", "v1", "-m", "first")
    (folder / "app.py").write_text("print('two')\n")
    git(folder, "commit", "-qam", "two")
    git(folder, "branch", "third")
    (folder / "app.py").write_text("print('stashed')\n")
    git(folder, "stash", "-q")
    return folder


def dirty(folder: Path) -> Path:
    """Something staged, something not, something new."""
    (folder / "lib/code.py").write_text("a = 2\n")
    (folder / "staged.txt").write_text("s\n")
    git(folder, "add", "staged.txt")
    (folder / "untracked.txt").write_text("u\n")
    return folder


def plain(base: Path) -> Path:
    return dirty(make_repository(base / "repo"))


def sha256(base: Path) -> Path:
    return dirty(make_repository(base / "repo", "--object-format=sha256"))


def unborn(base: Path) -> Path:
    git(base, "init", "-q", "repo")
    (base / "repo/new.txt").write_text("n\n")
    return base / "repo"


def worktree(base: Path) -> Path:
    git(make_repository(base / "main"), "worktree", "add", "-q", "../repo", "-b", "beside")
    return dirty(base / "repo")


def shared(base: Path) -> Path:
    git(base, "clone", "-q", "--shared", str(make_repository(base / "main")), "repo")
    return dirty(base / "repo")


def shallow(base: Path) -> Path:
    git(base, "clone", "-q", "--depth", "1", f"file://{make_repository(base / 'main')}", "repo")
    return dirty(base / "repo")


def detached(base: Path) -> Path:
    git(make_repository(base / "repo"), "checkout", "-q", "--detach", "v1")
    return dirty(base / "repo")


def sparse(base: Path) -> Path:
    git(make_repository(base / "repo"), "sparse-checkout", "set", "lib")
    return base / "repo"


def partial(base: Path) -> Path:
    git(make_repository(base / "main"), "config", "uploadpack.allowFilter", "true")
    git(base, "clone", "-q", "--filter=blob:none", f"file://{base / 'main'}", "repo")
    return dirty(base / "repo")


def split(base: Path) -> Path:
    git(make_repository(base / "repo"), "update-index", "--split-index")
    return dirty(base / "repo")


def packed(base: Path) -> Path:
    git(make_repository(base / "repo"), "gc", "-q")
    return dirty(base / "repo")


def merging(base: Path) -> Path:
    repo = make_repository(base / "repo")
    git(repo, "switch", "-qc", "theirs", "v1")
    (repo / "app.py").write_text("print('theirs')\n")
    git(repo, "commit", "-qam", "theirs")
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "theirs", fails=True)
    return repo


def submodule(base: Path) -> Path:
    make_repository(base / "part")
    git(base, "init", "-q", "-b", "main", "repo")
    git(base / "repo", "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(base / "part"), "part")
    git(base / "repo", "commit", "-qm", "with a part")
    (base / "repo/part/app.py").write_text("print('changed in the part')\n")
    return base / "repo"


KINDS = [plain, sha256, unborn, worktree, shared, shallow, detached, sparse, partial, split, packed, merging, submodule]


def prepare(repo: Path, base: Path, **mount: object) -> WorkspaceSection:
    return WorkspaceSection([HostMount(repo, **mount)], [base], parent=base).prepare()  # type: ignore[arg-type]


def state_of(folder: Path) -> dict[str, str]:
    """Every file below a folder, with its bytes and times."""
    found = {}
    for path in sorted(folder.rglob("*")):
        st = path.lstat()
        bytes_ = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path)] = f"{st.st_mtime_ns} {st.st_mode} {hashlib.sha256(bytes_).hexdigest()}"
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_git_says_of_the_copy_what_it_says_of_the_host(tmp_path: Path, kind: Callable[[Path], Path]) -> None:
    repo = kind(tmp_path)
    asked = [
        ["status", "--porcelain=v2", "--branch"],
        ["for-each-ref"],
        ["stash", "list"],
        ["log", "--all", "--oneline"],
    ]
    said = [git(repo, *words, fails=kind is unborn) for words in asked]
    before = state_of(tmp_path)  # asking may write the index: from here on nothing does
    with prepare(repo, tmp_path) as section:
        copy = section.temp_dir / "repo"
        assert [git(copy, *words, fails=kind is unborn) for words in asked] == said
        assert len(section.changes()) == 0

        (copy / "more.txt").write_text("more\n")
        git(copy, "add", "more.txt")
        if kind not in (merging, unborn):
            git(copy, "commit", "-qm", "more")
            git(copy, "gc", "-q", fails=kind is partial)
            assert "more" in git(copy, "log", "--oneline")
        git(copy, "switch", "-q", "--orphan", "alone", fails=True)
        assert [change.path for change in section.changes() if ".git" in change.path.split("/")] == []
        work = str(section.temp_dir.parent / section.temp_dir.name)
        hidden = str(section.state_dir)
        after = {path: facts for path, facts in state_of(tmp_path).items() if not path.startswith((work, hidden))}
    assert after == before


def test_no_setting_of_the_host_that_runs_or_tells_something_comes_along(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    bomb = tmp_path / "bomb"
    program = tmp_path / "bomb.sh"
    program.write_text(f"#!/bin/sh\ntouch {bomb}\n")
    program.chmod(0o755)
    (tmp_path / "more.ini").write_text(f"[core]\n\tsshCommand = {program}\n")
    for name, value in {
        "core.fsmonitor": str(program),
        "core.hooksPath": str(tmp_path),
        "core.sshCommand": str(program),
        "core.pager": str(program),
        "diff.external": str(program),
        "filter.bomb.clean": str(program),
        "filter.bomb.smudge": str(program),
        "credential.helper": f"!{program}",
        "alias.st": f"!{program}",
        "include.path": str(tmp_path / "more.ini"),
        "http.extraHeader": "Authorization: Bearer secret-token",
        "remote.origin.url": "https://user:secret-token@example.org/shop.git?key=secret-token",
        "remote.ext.url": f"ext::{program}",
        "branch.main.remote": "https://secret-token@example.org/x",
        "url.https://secret-token@example.org/.insteadOf": "short:",
        "core.autocrlf": "input",
    }.items():
        subprocess.run(["git", "config", name, value], cwd=repo, check=True)
    (repo / ".git/hooks/post-checkout").write_text(program.read_text())
    (repo / ".git/hooks/post-checkout").chmod(0o755)

    with prepare(repo, tmp_path) as section:
        own = section.temp_dir / "repo/.git"
        written = (own / "config").read_text()
        assert str(program) not in written
        assert "secret" not in "".join(path.read_text(errors="replace") for path in own.rglob("*") if path.is_file())
        assert 'url = "https://example.org/shop.git"' in written
        assert 'autocrlf = "input"' in written
        git(section.temp_dir / "repo", "switch", "-q", "other")
        git(section.temp_dir / "repo", "status")
    assert not bomb.exists()


def test_a_tracked_file_that_was_left_out_is_not_taken_for_deleted(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    (repo / "app.py").unlink()
    with prepare(repo, tmp_path, exclude_glob="lib/") as section:
        copy = section.temp_dir / "repo"
        assert git(copy, "status", "--porcelain") == " D app.py\n"
        git(copy, "commit", "-qam", "all")
        assert git(copy, "ls-tree", "-r", "--name-only", "HEAD") == "lib/code.py\n"


def test_a_git_file_that_names_another_repository_is_not_believed(tmp_path: Path) -> None:
    private = make_repository(tmp_path / "private")
    (tmp_path / "open").mkdir()
    (tmp_path / "open/.git").write_text(f"gitdir: {private}/.git\n")
    with pytest.raises(WorkspaceSecurityError) as caught:
        WorkspaceSection([HostMount(tmp_path / "open")], [tmp_path / "open"], parent=tmp_path).prepare()
    assert caught.value.rule == "git-dir"


def test_objects_are_borrowed_from_allowed_roots_only(tmp_path: Path) -> None:
    repo = shared(tmp_path)
    with pytest.raises(WorkspaceSecurityError) as caught:
        WorkspaceSection([HostMount(repo)], [repo], parent=tmp_path).prepare()
    assert caught.value.path == str(tmp_path / "main/.git/objects")
    assert not list(tmp_path.glob("*toolkit-workspace*"))


def test_git_can_be_copied_or_left_out(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    with prepare(repo, tmp_path, git="copy") as section:
        assert (section.temp_dir / "repo/.git/hooks").is_dir()
        assert not (section.temp_dir / "repo/.git/objects/info/alternates").exists()
    with prepare(repo, tmp_path, git="none") as section:
        assert not (section.temp_dir / "repo/.git").exists()
    with pytest.raises(WorkspaceError, match="git='maybe'"):
        HostMount(repo, git="maybe")  # type: ignore[arg-type]


def test_a_workspace_that_is_opened_again_knows_its_git_and_what_was_lent(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    (repo / ".venv/bin").mkdir(parents=True)
    (repo / ".venv/bin/tool").write_text("x")
    section = prepare(repo, tmp_path, lend=".venv")
    section.release()
    again = WorkspaceSection.open(section.temp_dir)
    assert again.shown == section.shown
    assert again.shown.lent == ((str(repo / ".venv"), str(repo / ".venv")),)
    assert list((again.temp_dir / "repo/.venv").iterdir()) == []
    assert len(again.changes()) == 0
    again.cleanup()


@pytest.mark.parametrize("wrong", ["/etc", "../up", ".", "", "a/../../b", ".git"])
def test_only_folders_in_the_mount_can_be_lent(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(WorkspaceSecurityError):
        HostMount(tmp_path, lend=wrong)


def test_a_folder_to_lend_that_is_missing_or_leads_out_is_named(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    with pytest.raises(WorkspaceError, match="absent"):
        prepare(tmp_path / "repo", tmp_path / "repo", lend="absent")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "repo/out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkspaceSecurityError):
        prepare(tmp_path / "repo", tmp_path / "repo", lend="out")
